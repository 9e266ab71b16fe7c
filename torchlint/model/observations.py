"""Observations: what interpreting a module showed, beside its values and events."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from torchlint.model.definitions import FunctionInfo
from torchlint.model.values import Function, Module, Tensor, Value
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import Site


@dataclass
class Observations:
    """Facts that the parts of the interpreter note and the questions of rules read: of all roots together."""

    interpreted: set[FunctionInfo] = field(default_factory=set)
    """Functions whose bodies were interpreted, as roots or where they are called."""
    read_aside: set[FunctionInfo] = field(default_factory=set)
    """Methods interpreted aside from the program: for the attributes that they store, or for what they return."""
    defined: dict[FunctionInfo, Function] = field(default_factory=dict)
    """Functions whose definition was interpreted, with the names around it."""
    stored: dict[tuple[Value, str], Value] = field(default_factory=dict)
    """Attributes of class templates, as `__init__` stores them."""
    forward_calls: dict[FunctionInfo, list[tuple[frozenset[str], GradMode]]] = field(default_factory=dict)
    """The parameters that each call of a `forward` gives, and the grad mode of the call."""
    backwards: list[Value] = field(default_factory=list)
    """Losses that backward passes begin at."""
    frozen: set[Value] = field(default_factory=set)
    """Values that are told not to require gradients."""
    mutated: set[Value] = field(default_factory=set)
    """Arguments that calls of functions and modules overwrite."""
    in_place_results: dict[Value, ast.expr] = field(default_factory=dict)
    """The expression of the argument that an activation overwrites, by the activation's result."""
    in_place_modules: dict[Value, Module] = field(default_factory=dict)
    """The module that overwrites its argument, by its result."""
    openings: dict[Value, Module] = field(default_factory=dict)
    """The module that opens a `Sequential` and overwrites its argument, by its result."""
    attribute_owners: dict[Site, Value] = field(default_factory=dict)
    """What an attribute is assigned to, by the site of the target."""
    indexed: list[tuple[Site, Tensor]] = field(default_factory=list)
    """Where a tensor is asked for an element by a literal number."""
    layers: dict[Value, set[tuple[object, int]]] = field(default_factory=dict)
    """Values that are layers of PyTorch, and in which arms of branches."""

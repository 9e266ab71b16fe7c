"""Observations: what interpreting a module showed, beside its values and events."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from torchlint.model.arguments import Arguments
from torchlint.model.definitions import ClassInfo, FunctionInfo
from torchlint.model.events import Clear, Event, Loop, ModeSwitch, Path
from torchlint.model.utilities import DataLoader
from torchlint.model.values import Function, Module, Tensor, Unknown, Value
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import Site


class Placed(NamedTuple):
    """A module or parameter that takes a place in an object: an attribute, or an element of a container of modules."""

    site: Site
    owner: Value
    key: object
    """The name of the attribute or the index; None where that is not known."""
    value: Value
    order: int
    functions: tuple[FunctionInfo, ...]
    """The functions under way."""


@dataclass
class Observations:
    """Facts that the parts of the interpreter note and the questions of rules read: of one root, or of all together."""

    interpreted: set[FunctionInfo] = field(default_factory=set)
    """Functions whose bodies were interpreted, as roots or where they are called."""
    read_aside: set[FunctionInfo] = field(default_factory=set)
    """Methods interpreted aside from the program: for the attributes that they store, or for what they return."""
    defined: dict[FunctionInfo, Function] = field(default_factory=dict)
    """Functions whose definition was interpreted, with the names around it."""
    templates: dict[ClassInfo, Value] = field(default_factory=dict)
    """The object that stands for any instance of a class, and of its subclasses."""
    stored: dict[tuple[Value, str], Value] = field(default_factory=dict)
    """Attributes of class templates, as `__init__` stores them."""
    begun: dict[ClassInfo, list[Event]] = field(default_factory=dict)
    """The switches of modes and the forward passes in the `__init__` of a class, in order."""
    forward_calls: dict[FunctionInfo, list[tuple[frozenset[str], GradMode]]] = field(default_factory=dict)
    """The parameters that each call of a `forward` gives, and the grad mode of the call."""
    backwards: list[Value] = field(default_factory=list)
    """Losses that backward passes begin at."""
    scaled: dict[Value, Value] = field(default_factory=dict)
    """What scaled a loss, by the result of `scale`."""
    frozen: set[Value] = field(default_factory=set)
    """Values that are told not to require gradients."""
    loaders: list[DataLoader] = field(default_factory=list)
    """Data loaders; what each is made with is a part of it, by parameter."""
    passes: dict[Value, list[tuple[Loop, ...]]] = field(default_factory=dict)
    """The loops around each pass over a loader, without the pass itself."""
    data: dict[Value, str] = field(default_factory=dict)
    """Splits and subsets of datasets, and endless iterators over loaders: the function, by the result of the call."""
    draws: dict[Value, list[tuple[Loop, ...]]] = field(default_factory=dict)
    """The loops around each place that draws from one of these, a loop over it included."""
    sharded: dict[Value, Path] = field(default_factory=dict)
    """Modules whose parameters FSDP's first version shards among processes, and the arms of branches where it does."""
    unfrozen: list[Value] = field(default_factory=list)
    """The leaves that values become where they are told to require gradients."""
    copied: dict[Value, tuple[Value, ...]] = field(default_factory=dict)
    """The data that a new tensor is made of; its graph does not go on into them."""
    mutated: set[Value] = field(default_factory=set)
    """Arguments that calls of functions and modules overwrite."""
    in_place_results: dict[Value, ast.expr] = field(default_factory=dict)
    """The expression of the argument that an activation overwrites, by the activation's result."""
    in_place_modules: dict[Value, Module] = field(default_factory=dict)
    """The module that overwrites its argument, by its result."""
    openings: dict[Value, Module] = field(default_factory=dict)
    """The module that opens a `Sequential` and overwrites its argument, by its result."""
    suspended: dict[Value, tuple[GradMode, Site]] = field(default_factory=dict)
    """Generators that yield inside a block which switches gradients: the mode that their consumer is in, and where."""
    yielding: dict[Site, list[Clear | ModeSwitch]] = field(default_factory=dict)
    """What generators clear, and which modes they switch, by the site of the call that makes them."""
    checkpoints: list[Unknown] = field(default_factory=list)
    """Results of calls that checkpoint activations."""
    direct_forwards: list[tuple[Site, Value]] = field(default_factory=list)
    """Calls of methods that are named `forward`, each with the object."""
    discarded: list[Tensor] = field(default_factory=list)
    """Results of calls that are statements of their own."""
    attribute_owners: dict[Site, Value] = field(default_factory=dict)
    """What an attribute is assigned to, by the site of the target."""
    bound_in_loops: list[tuple[Site, Value, tuple[Loop, ...]]] = field(default_factory=list)
    """Names and attributes that a loop binds to an object, with the object and the loops around."""
    placed: list[Placed] = field(default_factory=list)
    """Modules and parameters that take a place in an object."""
    indexed: list[tuple[Site, Tensor]] = field(default_factory=list)
    """Where a tensor is asked for an element by a literal number."""
    masked: list[tuple[Site, Tensor, Tensor]] = field(default_factory=list)
    """Where a tensor is in the brackets behind another one, which stands before it here: `x[mask]`, `x[mask] = 0`."""
    calls: dict[Value, tuple[str, Arguments, Value | None]] = field(default_factory=dict)
    """What makes a tensor or a layer: the name that is called, its arguments, and the receiver of a method."""
    numbers: dict[Value, tuple[str, tuple[Value, ...], object]] = field(default_factory=dict)
    """What gives a number or a shape: the operator or attribute, its operands, and a literal key or index."""
    layers: dict[Value, set[tuple[object, int]]] = field(default_factory=dict)
    """Values that are layers of PyTorch, and in which arms of branches."""

    def of_next(self) -> Observations:
        """Those of a root that begins where these end: with the same classes, and what its statements ask for."""
        begun = self.of_same_classes()
        begun.mutated, begun.suspended, begun.yielding = {*self.mutated}, {**self.suspended}, {**self.yielding}
        return begun

    def of_same_classes(self) -> Observations:
        """New ones that share what is stored in objects, and which functions are defined where."""
        return Observations(templates=self.templates, stored=self.stored, defined=self.defined)

    def add(self, others: Observations) -> None:
        """Take over what was noted elsewhere."""
        for item in fields(self):
            known, found = getattr(self, item.name), getattr(others, item.name)
            if known is found:
                continue
            if item.name in _OF_SEVERAL:
                for key, values in found.items():
                    _put_into(known.setdefault(key, type(values)()), values)
            else:
                _put_into(known, found)


_OF_SEVERAL = frozenset({"forward_calls", "passes", "draws", "layers"})
"""The tables of which one entry may be noted in several roots."""


def _put_into(known: Any, found: Any) -> None:
    if isinstance(known, list):
        known.extend(found)
    else:
        known.update(found)

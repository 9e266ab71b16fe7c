"""Observations: facts from interpreting a module, besides its values and events."""

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
    """A module or parameter placed in an object: as an attribute, or as an element of a container of modules."""

    site: Site
    owner: Value
    key: object
    """The name of the attribute or the index; None if not known."""
    value: Value
    order: int
    functions: tuple[FunctionInfo, ...]
    """The running functions."""
    loops: tuple[Loop, ...]
    """The loops around it, also those around calls."""


@dataclass
class Observations:
    """Facts that the interpreter records and rules query, for one root or for all together."""

    interpreted: set[FunctionInfo] = field(default_factory=set)
    """Functions whose bodies were interpreted, as roots or at calls."""
    read_aside: set[FunctionInfo] = field(default_factory=set)
    """Methods interpreted aside from the program, for the attributes they store or for their results."""
    defined: dict[FunctionInfo, Function] = field(default_factory=dict)
    """Functions whose definition was interpreted, with the names around it."""
    templates: dict[ClassInfo, Value] = field(default_factory=dict)
    """The object that represents every instance of a class, and of its subclasses."""
    stored: dict[tuple[Value, str], Value] = field(default_factory=dict)
    """Attributes of class templates, as `__init__` stores them."""
    begun: dict[ClassInfo, list[Event]] = field(default_factory=dict)
    """The switches of modes and the forward passes in the `__init__` of a class, in order."""
    forward_calls: dict[FunctionInfo, list[tuple[frozenset[str], GradMode]]] = field(default_factory=dict)
    """The parameters that each call of a `forward` passes, and the call's grad mode."""
    backwards: list[Value] = field(default_factory=list)
    """Losses at which backward passes start."""
    scaled: dict[Value, Value] = field(default_factory=dict)
    """The scaler that scaled a loss, by the result of `scale`."""
    frozen: set[Value] = field(default_factory=set)
    """Values whose `requires_grad` the program sets to False."""
    loaders: list[DataLoader] = field(default_factory=list)
    """Data loaders; the arguments of each are its parts, by parameter."""
    passes: dict[Value, list[tuple[Loop, ...]]] = field(default_factory=dict)
    """The loops around each pass over a loader, or over one of several loaders (a Phi), without the pass itself."""
    data: dict[Value, str] = field(default_factory=dict)
    """Splits and subsets of datasets, and endless iterators over loaders: the function, by the result of the call."""
    draws: dict[Value, list[tuple[Loop, ...]]] = field(default_factory=dict)
    """The loops around each place that draws from one of these, including a loop over it."""
    sharded: dict[Value, Path] = field(default_factory=dict)
    """Modules whose parameters FSDP's first version shards among processes, and the arms of branches that do so."""
    unfrozen: list[Value] = field(default_factory=list)
    """The leaves that values become when the program sets `requires_grad`."""
    copied: dict[Value, tuple[Value, ...]] = field(default_factory=dict)
    """The data that a new tensor copies; its graph does not continue into the data."""
    mutated: set[Value] = field(default_factory=set)
    """Arguments that calls of functions and modules overwrite."""
    in_place_results: dict[Value, ast.expr] = field(default_factory=dict)
    """The expression of the argument that an activation overwrites, by the activation's result."""
    in_place_modules: dict[Value, Module] = field(default_factory=dict)
    """The module that overwrites its argument, by its result."""
    openings: dict[Value, Module] = field(default_factory=dict)
    """The module that opens a `Sequential` and overwrites its argument, by its result."""
    suspended: dict[Value, tuple[GradMode, Site]] = field(default_factory=dict)
    """Generators that yield inside a block that switches gradients: the mode of their consumer, and the site."""
    yielding: dict[Site, list[Clear | ModeSwitch]] = field(default_factory=dict)
    """The clearings and mode switches of generators, by the site of the call that makes them."""
    setting: dict[Site, Value] = field(default_factory=dict)
    """The object whose attributes a generator method sets, by the site of the call that makes the generator."""
    checkpoints: list[Unknown] = field(default_factory=list)
    """Results of calls that checkpoint activations."""
    direct_forwards: list[tuple[Site, Value]] = field(default_factory=list)
    """Calls of methods named `forward`, each with the object."""
    discarded: list[Tensor] = field(default_factory=list)
    """Results of calls that are whole statements."""
    attribute_owners: dict[Site, Value] = field(default_factory=dict)
    """The object whose attribute an assignment sets, by the site of the target."""
    bound_in_loops: list[tuple[Site, Value, tuple[Loop, ...]]] = field(default_factory=list)
    """Names and attributes that a loop binds to an object, with the object and the loops around."""
    placed: list[Placed] = field(default_factory=list)
    """Modules and parameters placed in an object."""
    appended: list[tuple[Value, Value]] = field(default_factory=list)
    """Module lists with the values that the program appends to them."""
    indexed: list[tuple[Site, Tensor]] = field(default_factory=list)
    """The sites where a literal number indexes a tensor."""
    masked: list[tuple[Site, Tensor, Tensor]] = field(default_factory=list)
    """The sites where a tensor indexes another, with the indexed tensor: `x[mask]`, `x[mask] = 0`."""
    calls: dict[Value, tuple[str, Arguments, Value | None]] = field(default_factory=dict)
    """The call that makes a tensor or a layer: the called name, its arguments, and the receiver of a method."""
    numbers: dict[Value, tuple[str, tuple[Value, ...], object]] = field(default_factory=dict)
    """The origin of a number or a shape: the operator or attribute, its operands, and a literal key or index."""
    layers: dict[Value, set[tuple[object, int]]] = field(default_factory=dict)
    """Values that are layers of PyTorch, and the arms of branches in which they are."""

    def of_next(self) -> Observations:
        """Observations of a root that starts after this one: the same classes, and the effects of its statements."""
        begun = self.of_same_classes()
        begun.mutated, begun.suspended = {*self.mutated}, {**self.suspended}
        begun.yielding, begun.setting = {**self.yielding}, {**self.setting}
        return begun

    def of_same_classes(self) -> Observations:
        """Empty observations that share the attributes of objects and the definitions of functions."""
        return Observations(templates=self.templates, stored=self.stored, defined=self.defined)

    def add(self, others: Observations) -> None:
        """Add the facts recorded elsewhere."""
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
"""The tables in which several roots may record the same entry."""


def _put_into(known: Any, found: Any) -> None:
    if isinstance(known, list):
        known.extend(found)
    else:
        known.update(found)

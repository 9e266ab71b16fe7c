"""The end of a value's graph: the cuts that keep parameters from learning through it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from torchlint.model.definitions import Definitions
from torchlint.model.events import Mutate
from torchlint.model.kinds import SIZE
from torchlint.model.lineage import result_of_call, whole_of
from torchlint.model.module_values import has_parameters, returned_by, returned_parts
from torchlint.model.program import Program
from torchlint.model.tracking import Tracking
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import (
    FILLED,
    Answer,
    Attribute,
    Component,
    Container,
    External,
    Iteration,
    Module,
    ModuleOutput,
    NewTensor,
    Parameter,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    is_none,
    resolved,
)
from torchlint.pytorch import api, naming
from torchlint.pytorch.autograd_table import NOT_DIFFERENTIABLE, OPERATORS
from torchlint.pytorch.effects import GradMode
from torchlint.pytorch.operators import GETITEM, SETITEM
from torchlint.syntax.python_ast import called_name, dotted

RESCALING = frozenset("scale to cuda cpu float double half clone mean sum add sub mul div neg squeeze view".split())
"""Operators through which a parameter learns just as from their operands."""
_DETACHING = frozenset({"detach", "data", "numpy"})
_COMPARING = frozenset({"compare", "bitwise"})
_CUTTING = _DETACHING | _COMPARING | NOT_DIFFERENTIABLE
_FLAT = frozenset("ceil fix floor round sign trunc floor_divide".split())
"""Operators whose gradient is zero everywhere it exists."""
_SHAPED = frozenset("full_like ones_like rand_like randn_like zeros_like empty_like dim size multinomial".split())
_MEASURING = api.PLAIN_METHODS | api.PLAIN_ATTRIBUTES | {"len"}
"""Operations that give a size or another property of a tensor, and none of its numbers."""
_CONSTANTS = frozenset({"math", "numpy", "torch"})
_READING = frozenset({"item", "tolist"})
_RATES = frozenset({"lr", "weight_decay", "momentum"})
"""Parameters of optimizers."""
_MOST = 400
"""Maximum number of values visited for one answer."""


class Cut(Enum):
    """The reason why no parameter learns through a value."""

    NUMBER = "a number"
    NEW = "a new tensor"
    DETACHED = "detached"
    COMPARED = "a comparison"
    WITHOUT_GRADIENT = "an operator without a gradient"
    FLAT = "an operator whose gradient is zero"
    NO_GRAD = "gradients are off"
    SHAPED = "a shape or a sample"


Calls = tuple[ModuleOutput, ...]
"""The calls of the program's modules, outermost first, whose `forward` contains a value."""


class Place(NamedTuple):
    """A value with the module calls that compute it, which give the parameters of `forward` their values."""

    value: Value
    calls: Calls = ()

    def to(self, value: Value) -> Place:
        """Another value in the same calls."""
        return Place(resolved(value), self.calls)

    def opened(self) -> Place:
        """The argument for a parameter of `forward`; otherwise the place itself."""
        place = self
        while place.calls and isinstance(place.value, Parameter):
            given = place.calls[-1].given.get(place.value.label)
            if given is None:
                return place
            place = Place(resolved(given), place.calls[:-1])
        return place


class End(NamedTuple):
    """The graph of a value ends at `place`, for this reason."""

    place: Place
    cut: Cut


class Ends(NamedTuple):
    """All values before the ends of a graph, and the places that may have a graph."""

    ends: tuple[End, ...] = ()
    before: frozenset[Value] = frozenset()
    open: tuple[Place, ...] = ()


class GraphEnds:
    """Follows values back to the ends of their graphs."""

    def __init__(self, program: Program, tracking: Tracking) -> None:
        self._program = program
        self._observations = program.observations
        self._tracking = tracking
        self._definitions = program.definitions

    def of(self, places: Iterable[Place]) -> Ends:
        """The ends of the graphs of values, and the places that may have a graph."""
        ends: list[End] = []
        may_have: list[Place] = []
        stack, seen = [place.opened() for place in places], set[Place]()
        asked = {place.value for place in stack}
        while stack:
            place = stack.pop()
            if place in seen:
                continue
            seen.add(place)
            is_unknown = len(seen) > _MOST or place.value in self._made_to_learn - asked
            parts = None if is_unknown else self._parts(place)
            if parts is None:
                may_have.append(place)
                continue
            cut = self.cut(place.value) if place.value.site is not None and not parts else None
            ends += [End(place, cut)] if cut is not None else []
            stack.extend(part.opened() for part in parts)
        before = frozenset(place.value for place in seen)
        may_have += (place for place in seen if not before.issuperset(self._results_of_changes.get(place.value, ())))
        return Ends(tuple(ends), before, tuple(may_have))

    @cached_property
    def _made_to_learn(self) -> set[Value]:
        """The tensors that become leaves, perhaps by another name: `for t in [a, b]: t.requires_grad = True`."""
        made: set[Value] = set()
        stack = [item for leaf in self._observations.unfrozen for item in leaf.parents]
        while stack:
            value = resolved(stack.pop())
            if value in made:
                continue
            made.add(value)
            if isinstance(value, Container):
                stack.extend(value.elements())
            elif isinstance(value, (Phi, Unknown)):
                stack.extend(value.parents)
        return made

    @cached_property
    def _results_of_changes(self) -> dict[Value, set[Value]]:
        """The results of in-place changes, by the changed value: they may add a graph."""
        found: dict[Value, set[Value]] = {}
        for trace in self._program.traces:
            for event in trace.of(Mutate):
                found.setdefault(resolved(event.target), set()).add(event.result)
        return found

    def _parts(self, place: Place) -> list[Place] | None:
        """The values from which a value would get its graph: empty if it ends; None if it may have one."""
        value = place.value
        if isinstance(value, Plain):
            return self._parts_of_number(place, value)
        if isinstance(value, Container):
            may_hold_more = value.is_open or value.has_use(FILLED)
            inside = value.elements() if not may_hold_more else []
            return [place.to(item) for item in inside] or None  # other code fills an empty one
        if isinstance(value, Phi):
            return [place.to(item) for item in value.parents if not is_none(item)]
        if isinstance(value, External):
            return [] if api.package(value.name) in _CONSTANTS else None  # `math.pi`
        if isinstance(value, Unknown):
            is_cut = self._is_batch(value) or self.cut(value) is not None
            is_end = is_cut or value.has_use(SIZE) or self._is_option(place) or self._is_setting(value)
            return [] if is_end else None
        if not isinstance(value, Tensor) or value.leaf or value.mode is GradMode.UNKNOWN:
            return None
        if self.cut(value) is not None:
            return []
        if isinstance(value, NewTensor):
            return [place.to(item) for item in self._observations.copied.get(value, ())]
        if isinstance(value, (ModuleOutput, Component)):
            return _parts_of_output(place, value)
        is_passing = value.op in OPERATORS or value.op in RESCALING or value.op in (GETITEM, SETITEM)
        return [place.to(item) for item in value.parents] if is_passing else None

    def _parts_of_number(self, place: Place, value: Plain) -> list[Place] | None:
        if value.is_none:
            return None  # returned by a method that a class elsewhere overrides
        if value.is_literal or self.cut(value) is not None:
            return []
        how, operands, _ = self._observations.numbers.get(value, ("", (), None))
        if how in _MEASURING:
            return []
        numbers = [resolved(item) for item in operands]
        return [place.to(item) for item in numbers] if all(isinstance(item, Plain) for item in numbers) else None

    def cut(self, value: Value) -> Cut | None:
        """The cut by which a value ends the graph of its operands; None if there is none."""
        if isinstance(value, Plain):
            return Cut.NUMBER if not value.is_literal and self._is_number(value) else None
        if isinstance(value, Unknown):
            is_off = value.mode is GradMode.OFF and result_of_call(value) is not None
            return Cut.NO_GRAD if is_off else None
        if not isinstance(value, Tensor) or value.leaf:
            return None
        if isinstance(value, NewTensor):
            return Cut.NEW if self._is_copy(value) else None
        if value.op in _FLAT:
            return Cut.FLAT
        if value.op in _DETACHING:
            return Cut.DETACHED
        if value.op in _COMPARING:
            return Cut.COMPARED
        if value.op in NOT_DIFFERENTIABLE:
            return Cut.SHAPED if value.op in _SHAPED or value.op.startswith("new") else Cut.WITHOUT_GRADIENT
        is_view = value.base is not None and not isinstance(value, ModuleOutput)
        return Cut.NO_GRAD if value.mode is GradMode.OFF and not is_view else None

    def had_graph(self, end: End) -> bool:
        """Whether one of the cut values surely had a graph."""
        before = self.operands(self._operands(end.place))
        return any(self._tracking.tracked(value) is Answer.YES for value in before)

    def operands(self, places: Iterable[Place]) -> set[Value]:
        """Values and all their inputs, with or without graph."""
        stack, seen = [place.opened() for place in places], set[Place]()
        while stack and len(seen) < _MOST:
            place = stack.pop()
            if place not in seen:
                seen.add(place)
                stack += [item.opened() for item in self._operands(place)]
        return {place.value for place in seen}

    def _operands(self, place: Place) -> list[Place]:
        """The inputs of a value, with or without graph."""
        value = place.value
        if isinstance(value, Plain):
            parts: Iterable[Value] = self._observations.numbers.get(value, ("", (), None))[1]
        elif isinstance(value, NewTensor):
            parts = self._observations.copied.get(value, ())
        elif isinstance(value, (ModuleOutput, Component)):
            inside = _parts_of_output(place, value)
            return inside if inside is not None else [place.to(item) for item in value.parents[1:]]
        else:
            inner = value.elements() if isinstance(value, Container) else value.parents
            parts = inner or self._observations.copied.get(value, ())
        return [place.to(item) for item in parts]

    def _is_copy(self, value: Value) -> bool:
        """Whether a new tensor copies computed data; `as_tensor` returns its argument if that is a tensor."""
        data = self._observations.copied.get(value, ())
        node = self._definitions.tree.node(value.site)
        hands_on = isinstance(node, ast.Call) and called_name(node) in ("as_tensor", "asarray")
        return not hands_on and not all(map(is_literal, data))

    def _is_number(self, value: Value) -> bool:
        """Whether a value surely is a number or array, by the call that created it: `.item()`, or one of NumPy."""
        node = self._definitions.tree.node(value.site)
        if isinstance(node, ast.Call) and called_name(node) in _READING:
            return True
        while isinstance(node, (ast.Call, ast.Attribute)):
            node = node.func if isinstance(node, ast.Call) else node.value
        file = self._file(value)
        return file is not None and isinstance(node, ast.Name) and file.qualified(node.id, node) == "numpy"

    def _file(self, value: Value) -> Definitions | None:
        """The definitions of the file whose code creates a value."""
        if value.site is None or value.site.inner is None:
            return self._definitions
        return self._program.files.get(value.site.inner.tree)

    def _is_batch(self, value: Value) -> bool:
        """Whether a value is part of a loader's batch."""
        whole = whole_of(value)
        if not isinstance(whole, Iteration) or not whole.parents:
            return False
        source, loop = resolved(whole.parents[0]), self._definitions.tree.node(whole.site)
        written = dotted(loop.iter) if isinstance(loop, ast.For) else ""
        return is_kind(source, Kind.LOADER) or any(map(naming.LOADER.search, (source.label, written)))

    def _is_setting(self, value: Unknown) -> bool:
        """Whether a value is a setting: of `parse_args()`, or of the object with the learning rate of an optimizer."""
        if isinstance(value, Attribute) and value.parents and _is_plain_object(resolved(value.parents[0])):
            return True
        tree = self._definitions.tree
        node = tree.own_node(value.site) if isinstance(value, Attribute) else None
        owner = dotted(node.value) if isinstance(node, ast.Attribute) else ""
        if not owner or isinstance(resolved(value.parents[0]) if value.parents else None, (Module, Tensor)):
            return False
        return owner in self._settings

    @cached_property
    def _settings(self) -> frozenset[str]:
        """The objects that have a learning rate: `args` of `Adam(parameters, lr=args.lr)`."""
        calls = (node for node in self._definitions.tree.of_type(ast.Call))
        rates = (item.value for call in calls for item in call.keywords if item.arg in _RATES)
        return frozenset(dotted(rate.value) for rate in rates if isinstance(rate, ast.Attribute)) - {"", "self"}

    def _is_option(self, place: Place) -> bool:
        """Whether a value is a parameter of `__init__` with a literal number as its argument."""
        value, module = place.value, resolved(place.calls[-1].parents[0]) if place.calls else None
        init, made = (self._definitions.tree.node(item.site) if item else None for item in (value, module))
        if not isinstance(value, Parameter) or not isinstance(init, ast.FunctionDef) or not isinstance(made, ast.Call):
            return False
        names = [item.arg for item in init.args.args]
        is_known = (
            init.name == "__init__" and value.label in names and not any(item.arg is None for item in made.keywords)
        )
        if not is_known or any(isinstance(item, ast.Starred) for item in made.args):
            return False
        at = names.index(value.label)
        by_name = [item.value for item in made.keywords if item.arg == value.label]
        defaults = init.args.defaults[at - len(names) :] if at >= len(names) - len(init.args.defaults) else []
        given = [*by_name, *made.args[at - 1 : at], *defaults[:1]]
        return bool(given) and isinstance(given[0], ast.Constant) and at > 0


def _parts_of_output(place: Place, value: ModuleOutput | Component) -> list[Place] | None:
    """The values from which the output of a module, or a part of it, gets its graph.

    None for a PyTorch module with parameters.
    """
    whole = value.parents[0] if isinstance(value, Component) else value
    module = resolved(whole.parents[0]) if isinstance(whole, ModuleOutput) else None
    if not isinstance(whole, ModuleOutput) or not isinstance(module, Module):
        return None
    if module.info is None:
        is_whole = isinstance(value, ModuleOutput) and not has_parameters(module)
        return [place.to(item) for item in value.parents[1:]] if is_whole else None
    returned = returned_parts(value) if isinstance(value, Component) else [returned_by(whole)]
    return [Place(resolved(item), (*place.calls, whole)) for item in returned if item is not None] or None


def _is_plain_object(value: Value) -> bool:
    """Whether a value is the result of a package that knows no tensors."""
    return isinstance(value, Plain) and not value.is_none


def is_literal(value: Value) -> bool:
    """Whether a value is a literal: a number, or a list of numbers."""
    value = resolved(value)
    if isinstance(value, Container):
        return all(map(is_literal, value.elements()))
    return isinstance(value, Plain) and value.is_literal

"""Modules that may be frozen: somewhere, the program sets `requires_grad` of their parameters to False."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import ClassInfo
from torchlint.model.events import MayClear
from torchlint.model.held_parameters import sources_of
from torchlint.model.lineage import ancestry, made_of, whole_of
from torchlint.model.module_values import has_parameters, is_module_like
from torchlint.model.parts import Parts, is_template
from torchlint.model.program import Program
from torchlint.model.values import (
    Attribute,
    CallResult,
    External,
    Instance,
    Module,
    ModuleOutput,
    ModuleParameter,
    Plain,
    Tensor,
    Unknown,
    Value,
    class_of,
    resolved,
)
from torchlint.pytorch import naming

_UNPICKLING = frozenset(("pickle.load", "pickle.loads", "dill.load", "cloudpickle.load", "joblib.load"))


class Frozen:
    """Answers about frozen modules, at any time and under any condition."""

    def __init__(self, program: Program, parts: Parts) -> None:
        self.observed = program.observations.frozen
        """The modules, parameters and tensors that the program freezes."""
        self._program = program
        self._traces = program.traces
        self._parts = parts
        self._known: dict[Value, bool] = {}
        self._besides: dict[ClassInfo, Callable[[Value], bool]] = {}

    def may_be(self, module: Value) -> bool:
        """Whether all parameters of a module, or of a module that contains it, may be frozen."""
        if module not in self._known:
            self._known[module] = self._is_part(module) or self._is_told_part_by_part(module) or _is_unpickled(module)
        return self._known[module]

    def _is_told_part_by_part(self, module: Value) -> bool:
        """Whether the program freezes each module that the module's class creates or receives.

        All objects of a class share the values of these modules. If the program freezes another object of the class,
        such as a teacher, that alone does not freeze the parts of this one.
        """
        info = module.info if isinstance(module, Module) else None
        parts = self._program.attributes_of(info).values() if info is not None else ()
        inner = [part for part in map(resolved, parts) if is_module_like(part) and has_parameters(part)]
        return bool(inner) and info is not None and all(map(self._is_part_besides(info), inner))

    def may_be_inside(self, part: Value, owner: Value) -> bool:
        """Whether a module that the class of an object creates may be frozen in that object.

        That it may be frozen in another object of the class is not enough.
        """
        info = owner.info if isinstance(owner, Module) else None
        if info is None or not self.may_be(part) or not self._is_part(part):
            return self.may_be(part)
        return self._is_part_besides(info)(part)

    def _is_part_besides(self, info: ClassInfo) -> Callable[[Value], bool]:
        """A test whether a value is a part of what the program freezes, except for single objects of a class."""
        if info not in self._besides:
            objects = (item for item in self._told if isinstance(item, Module) and class_of(item) is info)
            single = {item for item in objects if not is_template(item, info)}
            self._besides[info] = self._parts.part_of_any(self._told - single) if single else self._is_part
        return self._besides[info]

    def may_be_partly(self, module: Value) -> bool:
        """Whether some parameters of a module may be frozen."""
        return module in self._all_of

    @cached_property
    def _is_part(self) -> Callable[[Value], bool]:
        return self._parts.part_of_any(self._told)

    @cached_property
    def _told(self) -> set[Value]:
        """The values that the program freezes, and those that they are drawn from."""
        handed = (item for event in self._calls for item in event.handed if item is not event.receiver)
        told = ancestry(self.observed, _drawn_from)
        return told.union(sources_of(self.observed)[0], map(resolved, handed))

    @cached_property
    def _all_of(self) -> set[Value]:
        """The frozen values and the arguments of calls that freeze, with the values these come from."""
        handed = (item for event in (*self._calls, *self._named(naming.SWITCHING)) for item in event.handed)
        return ancestry(list(self.observed)).union(map(resolved, handed))

    @cached_property
    def _calls(self) -> list[MayClear]:
        """Calls of unknown functions whose names say that they freeze their arguments: `freeze(teacher)`."""
        return list(self._named(naming.FREEZING))

    def _named(self, names: LazyPattern[str]) -> Iterator[MayClear]:
        for trace in self._traces:
            yield from (event for event in trace.of(MayClear) if names.search(event.name))


def _is_unpickled(module: Value) -> bool:
    """Whether a module comes from a pickle, which keeps frozen parameters: usually the averaged model of a training."""
    whole = whole_of(module)
    if not isinstance(whole, Unknown):
        return False
    made = (item.callee for item in ancestry([whole]) if isinstance(item, CallResult))
    return any(isinstance(item, External) and item.name in _UNPICKLING for item in made)


def _drawn_from(value: Value) -> Iterable[Value]:
    """The values from which a loop or a call takes a value: `m` of `for m in model.modules()` may be all of `model`."""
    if isinstance(value, Attribute):
        return value.parents if value.label in ("weight", "bias") else ()
    if isinstance(value, Tensor):
        is_made_here = value.leaf or isinstance(value, ModuleOutput)
        return value.parents if isinstance(value, ModuleParameter) or not is_made_here else ()
    return () if isinstance(value, (Module, Instance, Plain)) else made_of(value)

"""Modules that may be frozen: whose parameters are told, somewhere, not to require gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.events import MayClear
from torchlint.model.held_parameters import sources_of
from torchlint.model.lineage import ancestry
from torchlint.model.parts import Parts
from torchlint.model.program import Program
from torchlint.model.values import Value, resolved
from torchlint.pytorch import naming


class Frozen:
    """Answers about modules, whenever and under whatever condition it is that they are told."""

    def __init__(self, program: Program, parts: Parts) -> None:
        self.told = program.observations.frozen
        """The modules, parameters and tensors that are told so."""
        self._traces = program.traces
        self._parts = parts
        self._known: dict[Value, bool] = {}

    def may_be(self, module: Value) -> bool:
        """Whether all parameters of a module may be frozen, or of what it is a part of."""
        if module not in self._known:
            self._known[module] = self._is_part(module)
        return self._known[module]

    def may_be_partly(self, module: Value) -> bool:
        """Whether some of the parameters of a module may be."""
        return module in self._all_of

    @cached_property
    def _is_part(self) -> Callable[[Value], bool]:
        handed = (item for event in self._calls for item in event.handed if item is not event.receiver)
        return self._parts.part_of_any(sources_of(self.told)[0].union(self.told, map(resolved, handed)))

    @cached_property
    def _all_of(self) -> set[Value]:
        """All that those were made of, or are a part of."""
        handed = (item for event in (*self._calls, *self._named(naming.SWITCHING)) for item in event.handed)
        return ancestry(list(self.told)).union(map(resolved, handed))

    @cached_property
    def _calls(self) -> list[MayClear]:
        """Calls of unknown functions that by their names freeze what they are handed: `freeze(teacher)`."""
        return list(self._named(naming.FREEZING))

    def _named(self, names: LazyPattern[str]) -> Iterator[MayClear]:
        for trace in self._traces:
            yield from (event for event in trace.of(MayClear) if names.search(event.name))

"""Weights that a program puts back after a step: the gradients of that step belong to them again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchlint.model.events import Call, Event, Mutate
from torchlint.model.lineage import ancestry
from torchlint.model.ownership import Ownership
from torchlint.model.values import (
    Answer,
    CallResult,
    ModuleParameter,
    Parameters,
    Value,
    resolved,
)

_PUTTING = re.compile(r"(?i)(^|_)(load|set|restore|put|copy|assign|vector_to)_?(.*_)?(state|param|weight|vector)")
_TAKING = re.compile(r"(?i)(^|_)(state_dict|param|weight|parameters|params|weights|to_vector)(_|$)")
_WRITING = frozenset({"copy_", "set_", "data"})


class PutBack:
    """Recognizes events that give parameters the values that they had before."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._known: dict[tuple[Event, Value], int | None] = {}

    def taken(self, event: Event, optimizer: Value) -> int | None:
        """The order of the place that took the values that an event puts back; None if it puts none back."""
        if not isinstance(event, (Call, Mutate)):
            return None
        key = event, optimizer
        if key not in self._known:
            found = [item.order for item in self._taken(event) if self._is_held(item, optimizer)]
            self._known[key] = max(found, default=None)
        return self._known[key]

    def _taken(self, event: Call | Mutate) -> Iterator[Value]:
        """The values taken from the parameters that an event changes."""
        if isinstance(event, Call):
            callee, given = event.value.callee, event.value.parents
            targets = set(_modules(given)) if callee is not None and _PUTTING.search(callee.label) else set()
        else:
            target = resolved(event.target)
            is_written = event.how in _WRITING and isinstance(target, ModuleParameter)
            targets, given = (set(_modules([target])) if is_written else set()), event.by
        for item in ancestry(given) if targets else ():
            if _is_taken(item) and not targets.isdisjoint(map(resolved, item.parents)):
                yield item

    def _is_held(self, taken: Value, optimizer: Value) -> bool:
        return any(self._ownership.clears(item, optimizer) is not Answer.NO for item in taken.parents)


def _modules(values: Iterable[Value]) -> Iterator[Value]:
    """The values and, for parameters, their modules."""
    for value in map(resolved, values):
        yield value
        if isinstance(value, (Parameters, ModuleParameter)):
            yield from map(resolved, value.parents)


def _is_taken(value: Value) -> bool:
    """Whether a value is the parameters of a module, or the result of a method that returns them."""
    if isinstance(value, CallResult):
        return value.callee is not None and bool(_TAKING.search(value.callee.label))
    return isinstance(value, (Parameters, ModuleParameter))

"""The first operator that makes NaN from numbers, also for values without a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.operators import Origin, weak

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe


class FirstNan:
    """Observes only while it is switched on, because it reads all inputs and results of operators."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.found: tuple[str, Origin] | None = None

    @property
    def is_on(self) -> bool:
        """Whether it observes."""
        return self._probe.operators is not None and self._probe.operators.is_searching

    def look(self, on: bool) -> None:
        """Start or stop observing."""
        self.found = None
        operators = self._probe.operators
        if operators is not None and operators.is_searching is not on:
            operators.is_searching = on
            operators.listen(self._operated, on)
            operators.switch(on or self._probe.looking)

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """An operator was called."""
        if self.found is None and getattr(func, "__name__", "") != "__get__" and _is_nan(result):
            if not any(_is_nan(item) for item in _tensors((*args, *kwargs.values()))):
                made = Origin(self._probe.sites.here(), weak(self._probe.forwards.inside.part))
                self.found = str(getattr(func, "__name__", "?")), made


def _is_nan(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and bool(torch.isnan(value.detach()).any())


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, (list, tuple)) else (value,)

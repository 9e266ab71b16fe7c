"""Calls of loss functions, line by line: what checks of their inputs share; values are read with the evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

CALLS = 3
"""Calls of a line that it takes."""
_MOST_CALLS = 6
_PASSING = {
    f"{name}Backward{number}"
    for name in (
        "View UnsafeView ReshapeAlias Squeeze Unsqueeze Permute Transpose T Expand Slice Select Index IndexSelect "
        "Gather Narrow Unbind Split Chunk Clone ToCopy Contiguous Alias Clamp ClampMin ClampMax Flatten AsStrided Roll"
    ).split()
    for number in range(4)
}
"""Nodes whose results hold values of their input only, or bounds of a clamp."""
_DEPTH = 12


class LossLine:
    """The calls of one line: how many, how many were wrong for certain, and answers that a device still holds."""

    def __init__(self) -> None:
        self.calls = 0
        self._wrong = 0
        self._answers: list[torch.Tensor] = []

    def add(self, is_wrong: bool | torch.Tensor) -> None:
        self.calls += 1
        if isinstance(is_wrong, torch.Tensor):
            self._answers.append(is_wrong)
        else:
            self._wrong += is_wrong

    @property
    def wants_more(self) -> bool:
        """Whether further calls are looked at."""
        return self.calls < _MOST_CALLS

    @property
    def is_wrong(self) -> bool:
        """Whether all calls were, and there were enough; this waits for the device."""
        if self.calls < CALLS or self.calls > self._wrong + len(self._answers):
            return False
        try:
            return all(bool(answer) for answer in list(self._answers))
        except RuntimeError:  # in a transform of torch.func there is no number to be had
            return False


class LossLines:
    """The lines that call a loss; what is wrong with a call says the check."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._lines: dict[int, LossLine] = {}

    def look(self, judge: Callable[[], bool | torch.Tensor]) -> int:
        """A line calls a loss: ask about it unless enough calls are known; returns the site."""
        site = self._probe.sites.here()
        line = self._lines.setdefault(site, LossLine())
        if line.wants_more:
            line.add(judge())
        return site

    def wrong(self) -> Iterator[tuple[int, LossLine]]:
        """Lines all of whose calls were wrong."""
        return ((site, line) for site, line in list(self._lines.items()) if line.is_wrong)


def given_to(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The input and the target of a call of a loss function."""
    given = args[0] if args else kwargs.get("input")
    target = args[1] if len(args) > 1 else kwargs.get("target")
    return given, target


def maker(tensor: torch.Tensor) -> Any:
    """The node of a graph that has computed a tensor's values, behind those that pass them on; None without a graph."""
    node = tensor.grad_fn
    for _ in range(_DEPTH):
        if node is None or node.name() not in _PASSING:
            break
        node = node.next_functions[0][0]
    return node


def adds_up_to_one(values: torch.Tensor, dimension: int) -> torch.Tensor:
    """Whether values are nowhere below zero, and their sums over a dimension are one; asks nothing of the host."""
    with torch.no_grad():
        values = values.detach()
        tolerance = 1e-2 if values.element_size() < 4 else 1e-3
        sums = values.float().sum(dimension)
        return (values >= -tolerance).all() & ((sums - 1).abs() <= tolerance).all()


def is_real(value: Any) -> bool:
    """Whether it is a tensor of real numbers that is not empty."""
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0

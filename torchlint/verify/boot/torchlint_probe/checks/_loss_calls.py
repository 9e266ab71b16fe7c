"""Calls of loss functions, by line, which checks of their inputs share. Values are read when evidence is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

REGRESSIONS = (functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss, functional.huber_loss)
"""Losses that compare numbers."""
CALLS = 3
"""The minimum number of calls of a line."""
_MOST_CALLS = 6
_PASSING = {
    f"{name}Backward{number}"
    for name in (
        "View UnsafeView ReshapeAlias Squeeze Unsqueeze Permute Transpose T Expand Slice Select Index IndexSelect "
        "Gather Narrow Unbind Split Chunk Clone ToCopy Contiguous Alias Clamp ClampMin ClampMax Flatten AsStrided Roll"
    ).split()
    for number in range(4)
}
"""Nodes whose results only hold values of their input, or bounds of a clamp."""
_DEPTH = 12


class LossLine:
    """The calls of one line: all, those that are certainly wrong, and answers still on a device."""

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
        """Whether the check examines further calls."""
        return self.calls < _MOST_CALLS

    @property
    def is_right(self) -> bool:
        """Whether enough calls were examined, and none was wrong. This waits for the device."""
        if self.calls < CALLS or self._wrong:
            return False
        try:
            return not any(bool(answer) for answer in list(self._answers))
        except RuntimeError:  # inside a transform of torch.func tensors have no readable value
            return False

    @property
    def is_wrong(self) -> bool:
        """Whether all calls were wrong, and there were enough. This waits for the device."""
        if self.calls < CALLS or self.calls > self._wrong + len(self._answers):
            return False
        try:
            return all(bool(answer) for answer in list(self._answers))
        except RuntimeError:  # inside a transform of torch.func tensors have no readable value
            return False


class LossLines:
    """The lines that call a loss; the check defines when a call is wrong."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._lines: dict[int, LossLine] = {}

    def look(self, judge: Callable[[], bool | torch.Tensor]) -> int:
        """A line calls a loss: examine the call unless there were enough; returns the site."""
        site = self._probe.sites.here()
        line = self._lines.setdefault(site, LossLine())
        if line.wants_more:
            line.add(judge())
        return site

    def is_right_or_unused(self, site: int) -> bool:
        """Whether no call of a line was wrong, as far as there were any."""
        line = self._lines.get(site)
        return line is None or line.is_right

    def wrong(self) -> Iterator[tuple[int, LossLine]]:
        """Lines all of whose calls were wrong."""
        return ((site, line) for site, line in list(self._lines.items()) if line.is_wrong)

    def right(self) -> Iterator[tuple[int, LossLine]]:
        """Lines none of whose calls was wrong."""
        return ((site, line) for site, line in list(self._lines.items()) if line.is_right)


def given_to(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The input and the target of a call of a loss function."""
    given = args[0] if args else kwargs.get("input")
    target = args[1] if len(args) > 1 else kwargs.get("target")
    return given, target


def maker(tensor: torch.Tensor) -> Any:
    """The graph node that computed a tensor's values, behind nodes that pass them on; None without a graph."""
    node = tensor.grad_fn
    for _ in range(_DEPTH):
        if node is None or node.name() not in _PASSING:
            break
        node = node.next_functions[0][0]
    return node


def adds_up_to_one(values: torch.Tensor, dimension: int) -> torch.Tensor:
    """Whether no value is below zero and the sums over a dimension are one; does not wait for the device."""
    with torch.no_grad():
        values = values.detach()
        tolerance = 1e-2 if values.element_size() < 4 else 1e-3
        sums = values.float().sum(dimension)
        return (values >= -tolerance).all() & ((sums - 1).abs() <= tolerance).all()


def is_real(value: Any) -> bool:
    """Whether `value` is a tensor of real numbers that is not empty."""
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0

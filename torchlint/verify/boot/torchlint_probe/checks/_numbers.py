"""Python numbers in a loss that come from tensors with a graph: no gradient flows through a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

READS = (
    torch.Tensor.item,
    torch.Tensor.__float__,
    torch.Tensor.numpy,
    torch.Tensor.tolist,
    torch.Tensor.detach,
    torch.Tensor.__array__,
)
_MOST = 40
_STEPS = 3
_TOLERANCE = 1e-6


class _Read(NamedTuple):
    """A value with a graph that was read in this step: the operator, its site and the number, if it is one."""

    name: str
    site: int
    value: float | None


class _Pair:
    """A line that reads a value, and one that adds a number to the loss."""

    def __init__(self) -> None:
        self.numbers: list[float] = []
        self.ratios: list[float | None] = []
        self.is_inside = True
        """Whether the value was always read while the line ran that adds the number."""

    @property
    def is_proven(self) -> bool:
        """Whether the number follows from the value: it is a fixed multiple of it, or computed on the same line."""
        if len(self.numbers) < _STEPS or len(set(self.numbers)) < _STEPS:
            return False
        ratios = [ratio for ratio in self.ratios if ratio]
        if len(ratios) < len(self.ratios):
            return self.is_inside
        return self.is_inside or max(ratios) - min(ratios) <= _TOLERANCE * abs(ratios[0])


class Numbers:
    """Compares the numbers that a step adds to its loss with the values that it has read."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._reads: list[_Read] = []
        self._pairs: dict[tuple[str, int, int], _Pair] = {}
        """By operator, site of the read, and site of the sum."""

    def read(self, func: Any, args: Any, result: Any) -> None:
        """An operator has returned a value without its graph."""
        value = args[0] if args else None
        if isinstance(value, torch.Tensor) and value.grad_fn is not None and len(self._reads) < _MOST:
            number = result if type(result) is float else None
            self._reads.append(_Read(str(func.__name__).strip("_"), self._probe.sites.here(), number))

    def added(self, args: Any) -> list[tuple[str, int, int]]:
        """A number may have been added to a value with a graph: the operators, reads and sums that are compared."""
        number = next((item for item in args if isinstance(item, float)), None)
        if number is None or not self._reads:
            return []
        number = float(number)
        site = self._probe.sites.here()
        line = self._probe.sites.stacks[site][:1]
        reads = {(read.name, read.site, site): read for read in reversed(self._reads)}
        for key, read in reads.items():
            pair = self._pairs.setdefault(key, _Pair())
            pair.numbers.append(number)
            pair.ratios.append(number / read.value if read.value else None)
            pair.is_inside &= line[0] in self._probe.sites.stacks[read.site] if line else False
        return list(reads)

    def is_proven(self, name: str, read: int, place: int) -> bool:
        pair = self._pairs.get((name, read, place))
        return pair is not None and pair.is_proven

    def forget(self) -> None:
        """A step has ended."""
        self._reads.clear()

"""The parameters, statistics and dropout of a part of a model: what checks of frozen parts share."""

from __future__ import annotations

import torch

from torchlint_probe.checks._loads import memory

_VALUES = 16
_LEAVES = 100
_DROPOUTS = (torch.nn.Dropout, torch.nn.Dropout1d, torch.nn.Dropout2d, torch.nn.Dropout3d)


class Weights:
    """The parameters of a part as they were, with some of their values: an average may follow another network.

    Neither `leaf.data = value` nor `leaf.data.copy_(value)` changes the version of a parameter.
    """

    def __init__(self, part: torch.nn.Module) -> None:
        self._marks = _marks(part)
        self._values = [_values(leaf).clone() for leaf in list(part.parameters())[:_LEAVES]]

    def are_alike(self, part: torch.nn.Module) -> bool:
        """Whether no parameter was replaced or changed in place; it reads no values."""
        return _marks(part) == self._marks

    def are_equal(self, part: torch.nn.Module) -> bool:
        """Whether the stored values are still the same, too."""
        leaves = list(part.parameters())[:_LEAVES]
        if not self.are_alike(part):
            return False
        return all(torch.equal(_values(leaf), value) for leaf, value in zip(leaves, self._values, strict=True))


def statistics(part: torch.nn.Module) -> int:
    """A number that grows with each update of running statistics."""
    counts = (getattr(item, "num_batches_tracked", None) for item in part.modules())
    return sum(count._version for count in counts if isinstance(count, torch.Tensor))


def drops(part: torch.nn.Module) -> bool:
    """Whether a call of a part would drop values."""
    return any(isinstance(item, _DROPOUTS) and item.training and item.p for item in part.modules())


def _marks(part: torch.nn.Module) -> list[tuple[int, int]]:
    return [(leaf._version, memory(leaf)) for leaf in part.parameters()]


def _values(leaf: torch.Tensor) -> torch.Tensor:
    """The first values of a parameter."""
    return leaf.detach().reshape(-1)[:_VALUES]

"""How much steps change weights, relative to their size. A few elements of a few matrices are measured."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.values import norm

_MATRICES = 8
_ELEMENTS = 256
_FEWEST = 16


class Updates:
    """Ratios of updates to weights, by matrix."""

    def __init__(self) -> None:
        self._ratios: Any = WeakTensorKeyDictionary()
        self._before: list[tuple[torch.Tensor, torch.Tensor]] = []

    def before_step(self, optimizer: Any) -> None:
        matrices = [leaf for leaf in leaves_of(optimizer) if leaf.dim() > 1 and leaf.numel() >= _FEWEST]
        self._before = [(leaf, _elements(leaf).clone()) for leaf in matrices[:_MATRICES]]

    def after_step(self) -> list[tuple[torch.Tensor, list[float]]]:
        """Each measured matrix, with its ratios so far."""
        before, self._before = self._before, []
        for leaf, old in before:
            size = float(norm(old))
            ratios = self._ratios.setdefault(leaf, [])
            if size:
                ratios.append(float(norm(_elements(leaf) - old)) / size)
        return [(leaf, self._ratios[leaf]) for leaf, _ in before]


def _elements(leaf: torch.Tensor) -> torch.Tensor:
    values: torch.Tensor = getattr(leaf, "_local_tensor", leaf)
    return values.detach().reshape(-1)[:_ELEMENTS].float().clone()

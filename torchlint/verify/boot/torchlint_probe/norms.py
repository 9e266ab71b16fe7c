"""The size of gradients, and their size without leftovers of earlier backwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from torchlint_probe.slots import Slot
from torchlint_probe.values import dense, norm

_LIMIT = 1_000_000
"""The maximum number of elements for norms, for all gradients together"""
_LIMIT_EACH = 60_000
"""and for each one."""


class Norms:
    """Norms of the sampled gradients of one optimizer, if they are small enough."""

    def __init__(self) -> None:
        self.ratios: list[float] = []
        """The ratios of accumulated to fresh gradients."""
        self._last: tuple[float, float] | None = None
        self._before: list[tuple[torch.Tensor, torch.Tensor]] = []

    def take(self) -> tuple[float, float] | None:
        """The norm of this step, and that of a fresh gradient; None if they were not measured. Asked once a step."""
        last, self._last = self._last, None
        return last

    def remember(self, kept: Iterable[tuple[Slot, torch.Tensor]]) -> None:
        """A backward is about to add to existing gradients; a sparse gradient changes its shape."""
        room = _LIMIT
        for slot, gradient in kept:
            if slot.sampled and not gradient.is_sparse and gradient.numel() <= room:
                room -= gradient.numel()
                self._before.append((gradient, gradient.detach().clone()))

    def forget(self) -> None:
        self._before = []

    def compare(self) -> None:
        """Compare the norm of the gradient with that of the backward's contribution."""
        if not self._before:
            return
        now = norm(torch.stack([norm(_values(gradient)) for gradient, _ in self._before]))
        new = norm(torch.stack([norm(_values(gradient) - _values(before)) for gradient, before in self._before]))
        self._last = float(now), float(new)
        if self._last[1] > 0:
            self.ratios.append(self._last[0] / self._last[1])

    def measure(self, samples: Sequence[Slot]) -> None:
        """A step is about to use the gradients. Measure them if no backward was compared."""
        if self._last is not None:
            return
        gradients = [gradient for slot in samples if (gradient := slot.current()) is not None]
        small = [dense(gradient).detach() for gradient in gradients if gradient.numel() <= _LIMIT_EACH]
        if small:
            size = float(norm(torch.stack([one.float() for one in torch._foreach_norm(small)])))
            self._last = size, size


def _values(gradient: torch.Tensor) -> torch.Tensor:
    return dense(gradient).detach().float()

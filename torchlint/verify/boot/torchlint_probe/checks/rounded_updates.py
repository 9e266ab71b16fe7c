"""Most updates of half-precision parameters are rounded away: they are too small to change the values.

In steps of PyTorch's own optimizers, the check asks whether sampled values of `bfloat16` and `float16` weights that
have a gradient change. It reports a problem if nine in ten did not, in each of the last eight measured steps at the
optimizer's largest learning rate. The check leaves out warm-up steps, and optimizers that the program defines, because
these may store the remainder of an update.

Source: "Revisiting BFloat16 Training" (Zamirai et al., 2020): updates that round to nothing. Keep the parameters in
`float32`, for example with `torch.autocast`.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Sighting

_HALVES = (torch.bfloat16, torch.float16)
_LEAVES = 8
_ELEMENTS = 256
_FIRST, _EVERY = 10, 5
_LOOKS = 8
_SHARE = 0.9


class _Updates:
    """The last measured steps of an optimizer: sampled values with a gradient, and those that stayed."""

    def __init__(self, site: int, kind: torch.dtype) -> None:
        self.site = site
        self.kind = str(kind).removeprefix("torch.")
        self.rate = 0.0
        self.steps = 0
        self.looks: deque[tuple[int, int]] = deque(maxlen=_LOOKS)


class RoundedUpdates(Check):
    """Compares samples of parameters before and after steps."""

    name = "rounded-updates"
    code = "TW218"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._by_optimizer: weakref.WeakKeyDictionary[Any, _Updates | None] = weakref.WeakKeyDictionary()
        self._all: list[_Updates] = []
        self._before: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def before_step(self, optimizer: Any) -> None:
        self._before = []
        updates = self._updates(optimizer)
        if updates is None:
            return
        updates.steps += 1
        if updates.steps > _FIRST and updates.steps % _EVERY:
            return
        rate = max(float(group.get("lr", 0.0)) for group in optimizer.param_groups)
        is_rising, updates.rate = rate > updates.rate > 0, max(rate, updates.rate)
        if is_rising or rate < updates.rate or not rate:
            updates.looks.clear()
            return
        leaves = [leaf for leaf in _halves(optimizer) if leaf.grad is not None and not leaf.grad.is_sparse]
        self._before = [(leaf, _sample(leaf), _sample(leaf.grad) != 0) for leaf in leaves[:_LEAVES]]

    def _updates(self, optimizer: Any) -> _Updates | None:
        if optimizer not in self._by_optimizer:
            halves = _halves(optimizer) if type(optimizer).__module__.startswith("torch.optim") else []
            found = _Updates(self.probe.made_at(optimizer), halves[0].dtype) if halves else None
            self._by_optimizer[optimizer] = found
            self._all += [] if found is None else [found]
        return self._by_optimizer[optimizer]

    def after_step(self, optimizer: Any) -> None:
        before, self._before = self._before, []
        updates = self._by_optimizer.get(optimizer)
        if before and updates is not None:
            pulled = sum(int(has_gradient.sum()) for _, _, has_gradient in before)
            stayed = sum(int(((_sample(leaf) == old) & pulls).sum()) for leaf, old, pulls in before)
            updates.looks.append((pulled, stayed))

    def sightings(self) -> Iterator[Sighting]:
        for updates in list(self._all):
            looks = list(updates.looks)
            if len(looks) == _LOOKS and all(pulled and stayed >= _SHARE * pulled for pulled, stayed in looks):
                pulled, stayed = (sum(values) for values in zip(*looks, strict=True))
                message = (
                    f"{stayed / pulled:.0%} of the sampled `{updates.kind}` values stayed exactly the same in "
                    f"{_LOOKS} steps, although they have a gradient: at a learning rate of {updates.rate:.2g}, their "
                    "updates are rounded away"
                )
                yield Sighting(updates.site, message, {"values": pulled, "stayed": stayed}, 0)


def _halves(optimizer: Any) -> list[torch.Tensor]:
    leaves = (leaf for group in optimizer.param_groups if group.get("lr", 1) for leaf in group["params"])
    return [leaf for leaf in leaves if leaf.dtype in _HALVES and leaf.dim() > 1 and not hasattr(leaf, "_local_tensor")]


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().reshape(-1)[:_ELEMENTS].clone()

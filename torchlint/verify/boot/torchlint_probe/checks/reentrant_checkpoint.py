"""Parameters in a reentrant checkpoint get no gradient, because none of its inputs requires one.

For each reentrant checkpoint that runs with gradients on, the check asks whether an input requires a gradient. It
reports a problem if none did in at least three calls. A line is correct if an input did in each of at least three
calls.

Source: the warning of `torch.utils.checkpoint`, and `use_reentrant` in its documentation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import checkpoint

from torchlint_probe.checks._loss_calls import CALLS
from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe


class ReentrantCheckpoint(Check):
    """Counts checkpoints."""

    name = "reentrant-checkpoint"
    code = "TL205"
    is_on = False

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._calls: Counter[int] = Counter()
        self._without: Counter[int] = Counter()

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.listen_to_class(torch.autograd.Function, "apply", _Applied(probe))

    def applied(self, args: Any) -> None:
        """A checkpoint runs its block."""
        given = [item for item in args if isinstance(item, torch.Tensor)]
        site = self.probe.sites.here()
        self._calls[site] += 1
        self._without[site] += not any(tensor.requires_grad for tensor in given)

    def sightings(self) -> Iterator[Sighting]:
        for site, count in list(self._without.items()):
            if count == self._calls[site] >= CALLS:
                message = f"no input required a gradient in {count:,} of {count:,} calls: parameters inside get none"
                yield Sighting(site, message, {"calls": count}, 0)

    def acquittals(self) -> Iterator[Sighting]:
        for site, count in list(self._calls.items()):
            if count >= CALLS and not self._without[site]:
                yield Sighting(site, f"an input required a gradient in {count:,} of {count:,} calls", {"calls": count})


class _Applied(Hook):
    """Around `Function.apply`."""

    def __call__(self, original: Callable[..., Any], kind: Any, *args: Any, **kwargs: Any) -> Any:
        if kind is checkpoint.CheckpointFunction and torch.is_grad_enabled():
            self._probe.checks.tell_one(ReentrantCheckpoint, "applied", args)
        return original(*args, **kwargs)

"""Clipping leaves almost nothing of the gradients, so steps do not move the weights.

The check measures the norm of the gradients before and after each call of `clip_grad_norm_` and `clip_grad_value_`, and
how much the next step changes the first elements of weight matrices. It reports a problem if a line left less than a
thousandth of the norm in each of at least ten calls, and the median change of the matrices was less than a millionth of
their size. A bound far below the usual norm is fine if the optimizer compensates for it, as Adam does.

Source: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks" (2013): bounds from half
to ten times the usual norm; Karpathy, "CS231n, Babysitting the learning process": updates of a thousandth are usual.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks._updates import Updates
from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.contained import contained
from torchlint_probe.hooks import Hook
from torchlint_probe.values import dense, norm

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_CALLS = 10
_MOST_CALLS = 20
_LEFT = 1e-3
_MOVED = 1e-6


class _Line:
    """The clippings of one line: the share of the norm that each left, and the size of the updates after them."""

    def __init__(self) -> None:
        self.shares: list[float] = []
        self.updates: list[float] = []
        self.waiting: set[int] = set()
        """The identities of the parameters that were clipped last, until a step uses their gradients."""

    @property
    def clips_to_nothing(self) -> bool:
        is_cut = len(self.shares) >= _CALLS and max(self.shares) < _LEFT
        return is_cut and bool(self.updates) and median(self.updates) < _MOVED


class GradientsClippedToNothing(Check):
    """Measures norms around clippings, and updates after them."""

    name = "gradients-clipped-to-nothing"
    code = "TW108"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines: dict[int, _Line] = {}
        self._updates = Updates()

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            for module in (torch.nn.utils, torch.nn.utils.clip_grad):
                hooks.listen(module, name, _Hook(probe))

    def wants(self) -> bool:
        """Whether the check measures the line that clips."""
        line = self._lines.get(self.probe.sites.here())
        return line is None or len(line.shares) < _MOST_CALLS

    def clipped(self, leaves: Collection[torch.Tensor], before: float) -> None:
        """Gradients of this norm have been clipped."""
        if 0 < before < float("inf"):
            line = self._lines.setdefault(self.probe.sites.here(), _Line())
            line.shares.append(_norm(leaves) / before)
            line.waiting = {id(leaf) for leaf in leaves}

    def before_step(self, optimizer: Any) -> None:
        if any(not line.waiting.isdisjoint(map(id, leaves_of(optimizer))) for line in self._lines.values()):
            self._updates.before_step(optimizer)

    def after_step(self, optimizer: Any) -> None:
        latest = [ratios[-1] for _, ratios in self._updates.after_step() if ratios]
        held = set(map(id, leaves_of(optimizer)))
        for line in self._lines.values():
            if latest and not line.waiting.isdisjoint(held):
                line.updates.append(max(latest))
                line.waiting = set()

    def sightings(self) -> Iterator[Sighting]:
        for site, line in list(self._lines.items()):
            if line.clips_to_nothing:
                share, update = max(line.shares), median(line.updates)
                message = (
                    f"clipping leaves at most {share:.2g} of the gradient norm, and steps change the weights by "
                    f"{update:.2g} of their size"
                )
                yield Sighting(site, message, {"left": share, "update": update, "calls": len(line.shares)}, 0)


@torch.no_grad()
def _norm(leaves: Collection[torch.Tensor]) -> float:
    gradients = [dense(leaf.grad).detach().float() for leaf in leaves if leaf.grad is not None]
    norms = [norm.to("cpu") for norm in torch._foreach_norm(gradients)] if gradients else []
    return float(norm(torch.stack(norms))) if norms else 0.0


class _Hook(Hook):
    """Wraps a function that clips."""

    def __call__(self, original: Callable[..., Any], parameters: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(parameters, torch.Tensor):
            parameters = list(parameters) or iter(())  # PyTorch warns about an empty generator
        leaves = [parameters] if isinstance(parameters, torch.Tensor) else parameters
        before = self._measure(leaves) if self._probe.looking else None
        result = original(parameters, *args, **kwargs)
        if before:
            self._probe.checks.tell_one(GradientsClippedToNothing, "clipped", leaves, before)
        return result

    @contained
    def _measure(self, leaves: Collection[torch.Tensor]) -> float | None:
        """The norm of the gradients, if the check measures the line that clips."""
        checks = (check for check in self._probe.checks.all if isinstance(check, GradientsClippedToNothing))
        return _norm(leaves) if any(check.wants() for check in checks) else None

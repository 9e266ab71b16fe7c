"""Gradients are clipped when no step can use the result: after the step, or before `backward` computes them.

For each call of PyTorch's `clip_grad_norm_` and `clip_grad_value_`, the check asks whether any of the parameters has a
gradient, and whether a backward pass ran since the last step. It reports a problem if a line found no gradient in each
of at least five calls. It also reports a problem if a line reduced gradients that a step had already used, and these
were cleared before the next backward pass. A call that only measures the norm changes nothing, and is not reported.

Source: `torch.nn.utils.clip_grad_norm_` in PyTorch's documentation: it changes gradients in place. Clip between
`backward` and `step`.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.contained import contained
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_CALLS = 5
_MOST_CALLS = 30


class _Line:
    """The calls of one line: all, those without any gradient, and those on gradients that a step had used.

    Of the latter, those that made gradients smaller, and those whose result was cleared unused.
    """

    def __init__(self) -> None:
        self.calls = self.empty = self.late = self.shrunk = self.cleared = 0


class ClipOutsideStep(Check):
    """Follows a sampled gradient from a clipping to the next backward."""

    name = "clip-outside-step"
    code = "TL107"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines: dict[int, _Line] = {}
        self._stepped = -1
        """The number of backwards at the last step."""
        self._waiting: tuple[_Line, weakref.ref[torch.Tensor]] | None = None

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            for module in (torch.nn.utils, torch.nn.utils.clip_grad):
                hooks.listen(module, name, _Hook(probe))

    def after_step(self, optimizer: Any) -> None:
        self._stepped = self.probe.passed

    def clipped(self, leaves: list[torch.Tensor], bound: float, norm: Any) -> None:
        """The program has clipped to a bound; `norm` is what the gradients had before, or None."""
        if not self.probe.steps:
            return
        line = self._lines.setdefault(self.probe.sites.here(), _Line())
        if line.calls >= _MOST_CALLS:
            return
        line.calls += 1
        pulled = [leaf for leaf in leaves if leaf.grad is not None]
        line.empty += not pulled
        is_late = bool(pulled) and self.probe.passed == self._stepped
        line.late += is_late
        if is_late and math.isfinite(bound) and (norm is None or float(norm) > bound):
            line.shrunk += 1
            self._waiting = line, weakref.ref(pulled[-1])

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        if self._waiting is not None:
            line, leaf = self._waiting[0], self._waiting[1]()
            self._waiting = None
            line.cleared += leaf is not None and (leaf.grad is None or not bool(leaf.grad.any()))

    def sightings(self) -> Iterator[Sighting]:
        for site, line in list(self._lines.items()):
            if not site or line.calls < _CALLS:
                continue
            if line.empty == line.calls:
                message = f"none of the parameters had a gradient at any of {line.calls:,} calls: nothing is clipped"
                yield Sighting(site, message, {"calls": line.calls})
            elif line.late >= line.calls - 1 and line.cleared >= max(_CALLS, line.shrunk - 1):
                message = (
                    f"in {line.late:,} of {line.calls:,} calls, the clipping came after the step: its result was "
                    "cleared unused"
                )
                yield Sighting(site, message, {"calls": line.calls, "cleared": line.cleared})


class _Hook(Hook):
    """Wraps a clipping function."""

    def __call__(self, original: Callable[..., Any], parameters: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._probe.looking:
            return original(parameters, *args, **kwargs)
        if not isinstance(parameters, torch.Tensor):
            parameters = list(parameters) or iter(())  # PyTorch warns about an empty generator
        norm = original(parameters, *args, **kwargs)
        given = next(iter((*args, *(kwargs[name] for name in ("max_norm", "clip_value") if name in kwargs))), 0.0)
        self._tell(parameters, given, norm)
        return norm

    @contained
    def _tell(self, parameters: Any, bound: Any, norm: Any) -> None:
        leaves = [parameters] if isinstance(parameters, torch.Tensor) else parameters
        leaves = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)] if isinstance(leaves, list) else []
        self._probe.checks.tell_one(ClipOutsideStep, "clipped", leaves, float(bound), norm)

"""clip-outside-step, clip-before-unscale: the gradients after clipping, and the gradients that the step uses."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.claim import Claim
from torchlint_probe.contained import contained
from torchlint_probe.observer import Observer
from torchlint_probe.values import dense

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_SAME = 1e-2
"""Norms that differ by no larger share are the same."""
_SMALLER = 1.9
"""A loss scale is at least two, if it is not one."""
_BOUND = 0.01
"""The smallest plausible bound. A bound that is not smaller after unscaling may have been multiplied by the scale."""
_CALLS = 20
"""The number of first calls that are measured; afterwards one in `_EVERY`."""
_EVERY = 10

Norms = dict[int, float]
"""Norms of gradients, by the identity of their parameters."""


class _Clipping:
    """One call: its parameters, its bound, and the kind of norm that is bounded.

    `before` is the norm that it found, `after` those that it left, and `passed` how many backwards there had been.
    """

    def __init__(self, parameters: Collection[torch.Tensor], bound: float, kind: float, passed: int) -> None:
        self.parameters = [weakref.ref(item) for item in parameters]
        self.bound = bound
        self.kind = kind
        self.passed = passed
        self.before = self.whole(self.norms())
        self.after: Norms = {}

    def norms(self) -> Norms:
        """The current norms; none for sharded gradients, because their norm needs all ranks."""
        leaves = [leaf for item in self.parameters if (leaf := item()) is not None and leaf.grad is not None]
        leaves = [leaf for leaf in leaves if not hasattr(leaf.grad, "_local_tensor")]
        if not leaves:
            return {}
        with torch.no_grad():
            norms = [torch.linalg.vector_norm(_values(leaf.grad), self.kind) for leaf in leaves]
            values = torch.stack([norm.to(norms[0].device) for norm in norms]).tolist()
        return {id(leaf): value for leaf, value in zip(leaves, values, strict=True)}

    def whole(self, norms: Norms, held: Collection[int] | None = None) -> float:
        """The norm of all gradients, or of those of held parameters; 0 if there are none."""
        chosen = [norm for leaf, norm in norms.items() if held is None or leaf in held]
        return float(torch.linalg.vector_norm(torch.tensor(chosen, device="cpu"), self.kind)) if chosen else 0.0


def _values(gradient: torch.Tensor | None) -> torch.Tensor:
    assert gradient is not None
    return dense(gradient).detach().float()


class Clips(Observer):
    """Steps use `fresh` gradients if a backward came after the clipping, and they are beyond its bound.

    They are `kept` if a clipping has changed them and nothing else did, `shrunk` if they are much smaller than any
    plausible bound, and `smaller` if that may be intended.
    """

    def __init__(self, claim: Claim, probe: Probe) -> None:
        super().__init__(claim, probe)
        self._waiting: dict[tuple[int, ...], _Clipping] = {}
        """The last clipping of each set of parameters, until a step uses them."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            clipped = _Hook(probe, is_norm=name == "clip_grad_norm_")
            for module in (torch.nn.utils, torch.nn.utils.clip_grad):
                hooks.listen(module, name, clipped)

    def begin(self, parameters: Collection[torch.Tensor], bound: float, kind: float) -> _Clipping | None:
        """The flagged statement clips."""
        self.counts["calls"] += 1
        if bound == float("inf"):
            self.counts["unbounded"] += 1
            return None
        calls = self.counts["calls"]
        is_looked_at = calls <= _CALLS or calls % _EVERY == 0
        return _Clipping(parameters, bound, kind, self.probe.passed) if is_looked_at else None

    def end(self, clipping: _Clipping) -> None:
        """It has."""
        clipping.after = clipping.norms()
        self._waiting[tuple(id(item()) for item in clipping.parameters)] = clipping

    def before_step(self, optimizer: Any, evaluates: bool) -> None:
        held = {id(leaf) for group in optimizer.param_groups for leaf in group["params"]}
        for key, clipping in list(self._waiting.items()):
            if not held.isdisjoint(key):
                del self._waiting[key]
                if evaluates:  # the step will use other gradients than the current ones
                    self.counts["closures"] += 1
                    continue
                used = clipping.whole(clipping.norms(), held) / _scale(optimizer)
                self._use(clipping, clipping.whole(clipping.after, held), used)

    def _use(self, clipping: _Clipping, left: float, used: float) -> None:
        is_same_pass = self.probe.passed == clipping.passed
        has_worked = clipping.before > clipping.bound * (1 + _SAME)
        self.counts["steps"] += 1
        if used > clipping.bound * (1 + _SAME) and not is_same_pass:
            self._note("fresh", clipping.bound, used)
        elif has_worked and is_same_pass and 0 < left < float("inf"):
            if abs(used - left) <= left * _SAME:
                self.counts["kept"] += 1
            elif 0 < used * _SMALLER <= left:
                is_far_too_small = clipping.bound * used / left < _BOUND
                self._note("shrunk" if is_far_too_small else "smaller", left, used)

    def _note(self, what: str, limit: float, used: float) -> None:
        """A step that shows the defect, with the figures of the first one."""
        self.counts[what] += 1
        if "used" not in self.counts:
            self.counts.update(limit=limit, used=used, first=self.probe.steps)


def _scale(optimizer: Any) -> float:
    """The scale that the step itself still divides its gradients by, as a fused optimizer does."""
    scale = getattr(optimizer, "grad_scale", None)
    return float(scale) if isinstance(scale, torch.Tensor) else 1.0


class _Hook:
    """Wraps a clipping function: calls the observers whose statement calls it."""

    def __init__(self, probe: Probe, is_norm: bool) -> None:
        self._probe = probe
        self._is_norm = is_norm

    @property
    def trouble_of(self) -> Probe:
        return self._probe

    def __call__(self, original: Callable[..., Any], parameters: Any, *args: Any, **kwargs: Any) -> Any:
        asking = () if self._probe.is_quiet else self._probe.asking(Clips)
        if not asking:
            return original(parameters, *args, **kwargs)
        if not isinstance(parameters, torch.Tensor):
            parameters = list(parameters) or iter(())  # PyTorch warns about an empty generator
        begun = [(observer, self._begin(observer, parameters, args, kwargs)) for observer in asking]
        result = original(parameters, *args, **kwargs)
        for observer, clipping in begun:
            self._end(observer, clipping)
        return result

    @contained
    def _begin(self, observer: Clips, parameters: Any, args: Any, kwargs: Any) -> _Clipping | None:
        given = dict(zip(("bound", "norm_type"), args, strict=False)) | kwargs
        bound = next(given[name] for name in ("bound", "max_norm", "clip_value") if name in given)
        kind = float(given.get("norm_type", 2.0)) if self._is_norm else float("inf")
        leaves = [parameters] if isinstance(parameters, torch.Tensor) else parameters
        return observer.begin([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)], float(bound), kind)

    @contained
    def _end(self, observer: Clips, clipping: _Clipping | None) -> None:
        if clipping is not None:
            observer.end(clipping)

"""PyTorch warns about a use of its functions. The report shows the line of the program, and what to do.

The check looks at the places that issue these warnings, so it also works for programs that silence warnings. It reports
a problem if one of these holds:
- `kl_div` has the reduction `mean` in three calls
- a loss gets different sizes in three calls
- a reentrant checkpoint has no input that requires a gradient in three calls
- a schedule steps before its optimizer, or changes the learning rate of an optimizer that never steps
- a tensor shares the memory of a read-only array

The result is inconclusive, because some of these programs are correct.

Source: the warnings of `torch.nn.functional`, `torch.optim.lr_scheduler`, `torch.utils.checkpoint` and
`torch.from_numpy`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.utils import checkpoint

from torchlint_probe.checks._loss_calls import REGRESSIONS, given_to
from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.broadcast_loss import is_pairwise
from torchlint_probe.checks.check import Check, Operated, Sighting
from torchlint_probe.hooks import Hook
from torchlint_probe.schedules import STEPPING

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_CALLS = 3

_SIZES = "the input has the shape {} and the target {}: PyTorch broadcasts them, so the mean is over the wrong pairs"
_VIEW = "give both the same shape, for example with `target.view_as(input)`"
_MEAN = "`kl_div` with the reduction `mean` also divides by the number of classes: the result is not a divergence"
_BATCHMEAN = "use `reduction='batchmean'`, unless another factor of the loss makes up for it"
_EARLY = "the schedule stepped before its optimizer: the first learning rate was never used"
_LATER = "step the optimizer first, unless the program resumes a run here or a gradient scaler skipped the first step"
_OTHER = "the schedule stepped {:,} times, but its optimizer never steps: another one trains the same parameters"
_OF_OTHER = "create the schedule for the optimizer that steps"
_MOVES = 2
_CHECKPOINT = "no input of this checkpoint requires a gradient: the parameters inside get none"
_REENTRANT = "use `use_reentrant=False`, unless nothing inside is trained"
_READ_ONLY = "the tensor shares the memory of a read-only array: in-place changes are undefined"
_COPY = "copy the array first, unless nothing writes to the tensor"


class PytorchWarning(Check):
    """Tests the conditions that PyTorch tests before it warns."""

    name = "pytorch-warning"
    code = "TW601"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._seen: dict[tuple[int, str], Sighting] = {}
        self._calls: dict[tuple[int, str], int] = {}
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()
        self.has_scaler = False
        """Whether a gradient scaler exists: it may have skipped the first step."""
        self._moves: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """By optimizer that has not stepped, the moves of its schedule."""
        self._early: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """By optimizer, where its schedule stepped early."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.listen(torch, "from_numpy", _Shared(probe))
        hooks.listen_to_class(torch.autograd.Function, "apply", _Applied(probe))
        hooks.replace(torch.amp.GradScaler, "__init__", _Scaler(probe))
        making = _Making()
        for kind in STEPPING:
            hooks.replace(kind, "__init__", _Made(probe, making))
            hooks.replace(kind, "step", _Moving(probe, making))

    def operators(self) -> Mapping[Any, Operated]:
        return {
            **dict.fromkeys(REGRESSIONS, self._compared),
            functional.kl_div: self._diverged,
            torch.as_tensor: self._converted,
        }

    def _converted(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given = args[0] if args else kwargs.get("data")
        if hasattr(type(given), "__array_interface__") and result.device.type == "cpu":
            if result.data_ptr() == given.__array_interface__["data"][0]:
                self.shared(given)

    def _compared(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given, target = given_to(args, kwargs)
        if not isinstance(given, torch.Tensor) or not isinstance(target, torch.Tensor):
            return
        if given.shape == target.shape or not result.requires_grad or is_pairwise(given, target):
            return
        if max(given.numel(), target.numel()) > min(given.numel(), target.numel()) > 1:
            self._count(_SIZES.format(tuple(given.shape), tuple(target.shape)), _VIEW)

    def _diverged(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        reduction = args[4] if len(args) > 4 else kwargs.get("reduction", "mean")
        given, _ = given_to(args, kwargs)
        if reduction == "mean" and result.requires_grad and given.dim() > 1:
            self._count(_MEAN, _BATCHMEAN)

    def _count(self, message: str, advice: str) -> None:
        """A single odd batch does not count."""
        key = self.probe.sites.here(), advice
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._calls[key] >= _CALLS:
            self._add(key[0], message, advice)

    def after_step(self, optimizer: Any) -> None:
        self._stepped.add(optimizer)
        if self._moves.pop(optimizer, 0):
            self._seen = {key: seen for key, seen in self._seen.items() if key[1] != _OF_OTHER}
        site = self._early.pop(optimizer, 0)
        if site:
            self._add(site, _EARLY, _LATER)

    def made(self, schedule: Any) -> None:
        """The program has made a schedule, which made one step itself."""
        self._made.add(schedule)

    def moving(self, schedule: Any) -> None:
        """The program steps a schedule."""
        optimizer = getattr(schedule, "optimizer", None)
        if optimizer is not None and not self._has_stepped(optimizer):
            moves = self._moves[optimizer] = self._moves.get(optimizer, 0) + 1
            if moves == _MOVES and any(map(self.probe.checks.holds, leaves_of(optimizer))):
                self._add(self.probe.sites.here(), _OTHER.format(moves), _OF_OTHER)
        if schedule not in self._made:
            return
        self._made.discard(schedule)
        if not self._has_stepped(optimizer) and (_has_no_gradients(optimizer) or not self.has_scaler):
            self._early[optimizer] = self.probe.sites.here()

    def checkpointed(self, args: Any) -> None:
        """The program calls a reentrant checkpoint, with gradients on."""
        tensors = [item for item in args if isinstance(item, torch.Tensor)]
        if tensors and not any(item.requires_grad for item in tensors) and _learns(args[0]):
            self._count(_CHECKPOINT, _REENTRANT)

    def shared(self, array: Any) -> None:
        """A tensor shares the memory of an array."""
        if not array.flags.writeable and not self.probe.sites.is_library_calling():
            self._add(self.probe.sites.here(), _READ_ONLY, _COPY)

    def _add(self, site: int, message: str, advice: str) -> None:
        if site:
            self._seen.setdefault((site, advice), Sighting(site, message, {}, self.probe.steps, advice))

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())

    def _has_stepped(self, optimizer: Any) -> bool:
        return optimizer in self._stepped or self.probe.ledgers.of(optimizer).made > 0


def _has_no_gradients(optimizer: Any) -> bool:
    """Whether no backward came before. One did if a gradient scaler skips the first step."""
    return all(leaf.grad is None for group in optimizer.param_groups for leaf in group["params"])


def _learns(function: Any) -> bool:
    """Whether a function is a module with parameters that require gradients, or a method of one."""
    module = getattr(function, "__self__", function)
    return isinstance(module, torch.nn.Module) and any(leaf.requires_grad for leaf in module.parameters())


class _Shared(Hook):
    """Around `torch.from_numpy`."""

    def __call__(self, original: Callable[..., Any], array: Any) -> Any:
        self._probe.checks.tell_one(PytorchWarning, "shared", array)
        return original(array)


class _Scaler(Hook):
    """Wraps the creation of gradient scalers."""

    def __call__(self, original: Callable[..., Any], scaler: Any, *args: Any, **kwargs: Any) -> None:
        original(scaler, *args, **kwargs)
        for check in self._probe.checks.all:
            if isinstance(check, PytorchWarning):
                check.has_scaler = True


class _Applied(Hook):
    """Wraps `Function.apply`, which reentrant checkpoints call."""

    def __call__(self, original: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
        if function is checkpoint.CheckpointFunction and torch.is_grad_enabled():
            self._probe.checks.tell_one(PytorchWarning, "checkpointed", args)
        return original(*args, **kwargs)


class _Making(threading.local):
    """The number of nested schedules under construction: they step themselves and others."""

    depth = 0


class _Made:
    """Wraps the creation of schedules."""

    def __init__(self, probe: Probe, making: _Making) -> None:
        self._probe = probe
        self._making = making

    def __call__(self, original: Callable[..., Any], schedule: Any, *args: Any, **kwargs: Any) -> None:
        self._making.depth += 1
        try:
            original(schedule, *args, **kwargs)
        finally:
            self._making.depth -= 1
        if getattr(schedule, "optimizer", None) is not None:
            self._probe.checks.tell_one(PytorchWarning, "made", schedule)


class _Moving:
    """Wraps the steps of schedules."""

    def __init__(self, probe: Probe, making: _Making) -> None:
        self._probe = probe
        self._making = making

    def __call__(self, original: Callable[..., Any], schedule: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._making.depth:
            self._probe.checks.tell_one(PytorchWarning, "moving", schedule)
        return original(schedule, *args, **kwargs)

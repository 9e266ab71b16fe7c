"""The hooks before and after the steps of optimizers."""

from __future__ import annotations

import functools
import sys
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import Optimizer

from torchlint_probe.contained import contained

if TYPE_CHECKING:
    from torchlint_probe.ledger import Ledger
    from torchlint_probe.probe import Probe


_STEP = next((item for item in Optimizer.profile_hook_step.__code__.co_consts if isinstance(item, CodeType)), None)
"""The code of the function that PyTorch puts around each `step`, and that calls the hooks."""


def _running_steps() -> int:
    """The number of nested optimizer steps in this thread; 0 if it is unknown."""
    frame: FrameType | None = sys._getframe(1)
    count = 0
    while frame is not None:
        count += frame.f_code is _STEP
        frame = frame.f_back
    return count


def _closure(args: Any, kwargs: Any) -> Any:
    return kwargs.get("closure") if kwargs and "closure" in kwargs else (args[1] if len(args) > 1 else None)


def _has_hooks(optimizer: Any) -> bool:
    """Whether the program has given an optimizer hooks for its step."""
    names = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
    return any(getattr(optimizer, name, None) for name in names)


class StepHooks:
    """An optimizer whose `step` calls the one of its base class is reported twice, so depth is counted.

    Hooks for all optimizers run before those that the program has given to one. These may clear gradients, so where
    there are some, the update begins after the last of them.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._last = self._after_hooks

    @property
    def trouble_of(self) -> Probe:
        return self._probe

    def before(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """A step that runs no code of the program is not followed line by line."""
        probe = self._probe
        is_followed = probe.lines.switch(False)
        result = self._before(optimizer, args, kwargs)
        runs_program = _has_hooks(optimizer) or not probe.forwards.is_of_library(type(optimizer))
        if is_followed and (_closure(args, kwargs) or runs_program):
            probe.lines.switch(True)
        probe.local.is_followed |= is_followed
        return result

    @contained
    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        probe = self._probe
        stepping = probe.local.stepping
        if stepping and (running := _running_steps()):
            del stepping[running - 1 :]  # a step that raised calls no hook at its end
        stepping.append(optimizer)
        if len(stepping) == 1:
            probe.spans.begin_step()
        probe.observe_operators(False)
        if probe.is_quiet or stepping.count(optimizer) > 1 or self._comes_after_hooks(optimizer):
            return None
        return self._begin(optimizer, args, kwargs)

    def _comes_after_hooks(self, optimizer: Any) -> bool:
        """Whether the optimizer has hooks of its own; then ours is the last of them."""
        hooks = getattr(optimizer, "_optimizer_step_pre_hooks", None)
        if not hooks:
            return False
        own = next((number for number, hook in hooks.items() if hook is self._last), None)
        if own is None:
            own = optimizer.register_step_pre_hook(self._last).id
        hooks.move_to_end(own)
        return True

    def _after_hooks(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or self._probe.is_quiet or self._probe.local.stepping.count(optimizer) > 1:
            return None
        return self._begin_last(optimizer, args, kwargs)

    @contained
    def _begin_last(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        return self._begin(optimizer, args, kwargs)

    def _begin(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        probe = self._probe
        probe.begin()
        closure = _closure(args, kwargs)
        evaluates = callable(closure)
        site = probe.sites.joined(probe.sites.here(), probe.ledgers.caller())
        for observer in probe.observers:
            observer.before_step(optimizer, evaluates)
        probe.checks.before_step(optimizer)
        ledger = probe.ledgers.before_step(optimizer, site, probe.steps, probe.is_measured, evaluates)
        return self._with_closure(ledger, site, closure, args, kwargs) if evaluates else None

    def _with_closure(self, ledger: Ledger, site: int, closure: Any, args: Any, kwargs: Any) -> Any:
        """Arguments with a closure that reports each evaluation."""

        @functools.wraps(closure)
        def evaluated(*inner: Any, **keywords: Any) -> Any:
            result = closure(*inner, **keywords)
            self._evaluated(ledger, site)
            return result

        if "closure" in kwargs:
            return args, {**kwargs, "closure": evaluated}
        return (args[0], evaluated, *args[2:]), kwargs

    @contained
    def _evaluated(self, ledger: Ledger, site: int) -> None:
        self._probe.ledgers.evaluated(ledger, site, self._probe.steps)

    def after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        probe = self._probe
        local = probe.local
        local.is_followed |= probe.lines.switch(False)
        self._count(optimizer)
        if local.stepping:
            return
        is_followed, local.is_followed = local.is_followed, False
        try:
            probe.observe_operators(True)
            probe.budget.check(probe.steps)
        finally:
            probe.lines.switch(is_followed)

    @contained
    def _count(self, optimizer: Any) -> None:
        probe = self._probe
        stepping = probe.local.stepping
        while stepping and stepping.pop() is not optimizer:
            pass  # its step raised
        if optimizer in stepping:
            return
        for observer in probe.observers:
            observer.after_step(optimizer)
        if not probe.is_quiet:
            probe.checks.tell("after_step", optimizer)
        ledger = probe.ledgers.pass_by(optimizer) if probe.is_quiet else probe.ledgers.stepped(optimizer)
        if not stepping:
            probe.spans.end_step(optimizer)
            probe.end_step(ledger)

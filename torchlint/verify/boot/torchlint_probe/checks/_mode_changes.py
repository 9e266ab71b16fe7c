"""Changes of modes by the program: the part that checks of `train()` and `eval()` share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks.check import Check

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe


class ModeChanges(Check):
    """Observes each call of `train` or `eval` that is not part of another."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(torch.nn.Module, "train", _Hook(probe, cls))

    def changed(self, module: torch.nn.Module, training: bool) -> None:
        """The program has put a module into a mode."""


class _Hook(threading.local):
    """Wraps `Module.train`, which `eval` calls, and which calls itself for the parts of a module."""

    def __init__(self, probe: Probe, kind: type[ModeChanges]) -> None:
        self._probe = probe
        self._kind = kind
        self._is_inside = False

    def __call__(self, original: Callable[..., Any], module: Any, *args: Any, **kwargs: Any) -> Any:
        if self._is_inside:
            return original(module, *args, **kwargs)
        self._is_inside, was_training = True, module.training
        try:
            result = original(module, *args, **kwargs)
        finally:
            self._is_inside = False
        training = bool((*args, *kwargs.values(), True)[0])
        if training is not was_training:
            self._probe.forwards.change_modes()
        self._probe.checks.tell_one(self._kind, "changed", module, training)
        return result

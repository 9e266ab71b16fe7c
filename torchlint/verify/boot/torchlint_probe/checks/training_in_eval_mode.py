"""A model is trained in eval mode, because an evaluation did not switch it back.

Asks at each step for the modes in which the trained models were called with gradients. Yes if a model was trained in
training mode first, then in eval mode at the last ten steps or more, and has a layer that depends on the mode. Also yes
if it was in training mode until a function called `eval()` and the model without gradients, and the function neither
switched it back nor trained. The line is the last `eval()`.

Models or parts that are in eval mode from the start are frozen on purpose. A model that is attacked in eval mode and
then trained is in training mode at its last call.

Source: "Evaluation Mode" in PyTorch's notes on autograd mechanics.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.hooks import Hook
from torchlint_probe.modes import depends_on_mode, trains

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_STEPS = 10


class TrainingInEvalMode(Check):
    """Counts the steps of each model since it was in training mode."""

    name = "training-in-eval-mode"
    code = "TL110"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._switched: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        """The site of the last `eval()`;"""
        self._modes: weakref.WeakKeyDictionary[torch.nn.Module, bool] = weakref.WeakKeyDictionary()
        """whether its last call with gradients before a step was in training mode;"""
        self._row: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        """and the number of steps in eval mode since one in training mode."""
        self._validating: weakref.WeakKeyDictionary[torch.nn.Module, CodeType] = weakref.WeakKeyDictionary()
        """The function that put it into eval mode, if it was in training mode before;"""
        self._left: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        """and the models that such a function evaluated."""
        self._seen: dict[int, Sighting] = {}

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(torch.nn.Module, "eval", _Hook(probe))

    def switched(self, module: torch.nn.Module, was_training: bool) -> None:
        """The program has put a module into eval mode."""
        self._switched[module] = self.probe.sites.here()
        code = next(self.probe.sites.codes(), None)
        if was_training and code is not None and code.co_name != "<module>":
            self._validating[module] = code

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        code = self._validating.get(module)
        if torch.is_grad_enabled():
            self._modes[module] = module.training
            if code is not None and (module.training or code in self.probe.sites.codes()):
                self._validating.pop(module)
                self._left.discard(module)
        elif code is not None and module not in self._left and code in self.probe.sites.codes():
            self._left.add(module)

    def before_step(self, optimizer: Any) -> None:
        for module, training in list(self._modes.items()):
            row = self._row.get(module, -1)
            row = 0 if row < 0 and not training and module in self._left else row
            if row == (0 if training else -1) or not trains(optimizer, module):
                continue  # its mode is unchanged, or it belongs to another optimizer
            del self._modes[module]
            self._row[module] = 0 if training else row + 1
            if training:
                self._seen.pop(self._switched.get(module, 0), None)
            else:
                self._judge(module)

    def _judge(self, module: torch.nn.Module) -> None:
        site, row = self._switched.get(module, 0), self._row[module]
        layer = next((part for part in module.modules() if not part.training and depends_on_mode(part)), None)
        if row >= _STEPS and layer is not None:
            message = (
                f"the last {row:,} steps trained the model in eval mode, which changes its `{type(layer).__name__}`"
            )
            self._seen[site] = Sighting(site, message, {"steps": row}, self.probe.steps - row + 1)

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())


class _Hook(Hook):
    """Around `Module.eval`."""

    def __call__(self, original: Callable[..., Any], module: torch.nn.Module) -> Any:
        self._probe.checks.tell_one(TrainingInEvalMode, "switched", module, module.training)
        return original(module)

"""A model is trained in eval mode, because an evaluation did not switch it back.

At each step, the check reads the modes in which the trained models were called with gradients. It reports a problem if
a model with a layer that depends on the mode was first trained in training mode, then evaluated, and then trained in
eval mode in at least its last ten steps. It also reports a problem if the model was in training mode until a function
called `eval()` and ran the model without gradients, and the function neither switched it back nor trained. The reported
line is the last `eval()`.

The result is inconclusive if nothing was evaluated between the steps, or if the optimizer was created after the
`eval()`: then all its steps are in eval mode, which may be intended. A model that a new optimizer trains in eval mode
without an evaluation is frozen on purpose. So are models or parts that are in eval mode from the start. Adversarial
training is not reported: the attack runs the model in eval mode, but the last call before the step is in training mode.

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
_SAME = "the last {steps:,} steps trained the model in eval mode, which changes its `{layer}`"
_ALL = "all {steps:,} steps of this optimizer trained the model in eval mode, which changes its `{layer}`"
_ADVICE = "call `train()` before these steps, unless they are meant to run in eval mode"


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
        self._others: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        """How many optimizers there were when it was last put from training mode into eval mode;"""
        self._since: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        """its calls with gradients since the last backward,"""
        self._most: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        """and the most of these calls in training mode."""
        self._evaluated: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        """Modules that ran in eval mode, and no backward followed, since their last step in training mode."""
        self._how: weakref.WeakKeyDictionary[torch.nn.Module, tuple[bool, bool]] = weakref.WeakKeyDictionary()
        """Whether the optimizer is new and whether the model was evaluated, at its first step in eval mode."""
        self._seen: dict[int, Sighting] = {}

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(torch.nn.Module, "eval", _Hook(probe))

    def switched(self, module: torch.nn.Module, was_training: bool) -> None:
        """The program has put a module into eval mode."""
        self._switched[module] = self.probe.sites.here()
        if was_training:
            self._others[module] = self.probe.optimizers
        code = next(self.probe.sites.codes(), None)
        if was_training and code is not None and code.co_name != "<module>":
            self._validating[module] = code

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        code = self._validating.get(module)
        if torch.is_grad_enabled():
            calls = self._since[module] = self._since.get(module, 0) + 1
            if module.training:
                self._most[module] = max(calls, self._most.get(module, 0))
            elif calls > self._most.get(module, 0):
                self._evaluated.add(module)
            self._modes[module] = module.training
            if code is not None and (module.training or code in self.probe.sites.codes()):
                self._validating.pop(module)
                self._left.discard(module)
            return
        if not module.training:
            self._evaluated.add(module)
        if code is not None and module not in self._left and code in self.probe.sites.codes():
            self._left.add(module)

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        self._since.clear()

    def before_unseen_backward(self, roots: list[torch.Tensor]) -> None:
        self._since.clear()

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
                self._evaluated.discard(module)
                continue
            if not row:
                is_new = self.probe.order_of(optimizer) >= self._others.get(module, self.probe.optimizers)
                self._how[module] = is_new, self._was_evaluated(module)
            self._judge(module)

    def _was_evaluated(self, module: torch.nn.Module) -> bool:
        """Whether the module, a part of it or its wrapper was evaluated."""
        own = set(module.parameters())
        return any(item is module or not own.isdisjoint(item.parameters()) for item in list(self._evaluated))

    def _judge(self, module: torch.nn.Module) -> None:
        site, row = self._switched.get(module, 0), self._row[module]
        layer = next((part for part in module.modules() if not part.training and depends_on_mode(part)), None)
        is_new, was_evaluated = self._how.get(module, (False, True))
        if row >= _STEPS and layer is not None and (was_evaluated or not is_new):
            message = (_ALL if is_new else _SAME).format(steps=row, layer=type(layer).__name__)
            advice = _ADVICE if is_new or not was_evaluated else ""
            self._seen[site] = Sighting(site, message, {"steps": row}, self.probe.steps - row + 1, advice)

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())


class _Hook(Hook):
    """Around `Module.eval`."""

    def __call__(self, original: Callable[..., Any], module: torch.nn.Module) -> Any:
        self._probe.checks.tell_one(TrainingInEvalMode, "switched", module, module.training)
        return original(module)

"""training-in-eval-mode, dropout-ignores-mode: the modes in which modules run."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from torchlint_probe.claim import Claim, values_of
from torchlint_probe.graphs import leaves, nodes
from torchlint_probe.observer import LineObserver

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

_GENERATORS = ("cpu", "cuda")
"""Devices whose random numbers are followed."""
_BACKWARDS = 60
"""The number of observed backwards after the flagged line,"""
_CALLS = 60
"""and the number of module calls with gradients, for parts in training mode."""


class Modes(LineObserver):
    """In which mode are the modules of the line when a backward and then a step train them?

    Steps in `eval` mode trained a layer that depends on the mode; in `harmless` ones there is no such layer.
    Of the former, `late` ones trained a layer that had been called in training mode before, with an optimizer that had
    stepped before the line ran.
    """

    hears_calls = True

    def __init__(self, claim: Claim, probe: Probe) -> None:
        super().__init__(claim, probe)
        self._modules: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        """Each with the mode in which the last backward went through it."""
        self._was: list[tuple[nn.Module, bool]] = []
        self._left = _BACKWARDS
        self._calls = _CALLS
        self._trained: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        """Modules that were called in training mode, with gradients."""
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()
        self._earlier: weakref.WeakSet[Any] = weakref.WeakSet()
        """Optimizers that had stepped when the line switched a module from training mode."""

    def hear(self, module: nn.Module) -> None:
        if self._calls > 0 and torch.is_grad_enabled():
            self._calls -= 1
            self._trained.update(part for part in module.modules() if part.training)

    def before(self, frame: FrameType) -> None:
        found = [value for value in values_of(self.claim.names, frame) if isinstance(value, nn.Module)]
        self._was = [(module, module.training) for module in found]

    def after(self, frame: FrameType) -> None:
        was, self._was = self._was, []
        for module, training in was:
            if training and not module.training:
                self.counts["switches"] += 1
                self._earlier.update(self._stepped)
                self._modules.setdefault(module, "")

    def before_backward(self, roots: list[torch.Tensor]) -> None:
        if not self._modules or self._left <= 0:
            return
        self._left -= 1
        trained = {id(leaf) for leaf in leaves(nodes(roots))}
        for module in list(self._modules):
            if not trained.isdisjoint(map(id, module.parameters())):
                self._modules[module] = self._mode(module)

    def _mode(self, module: nn.Module) -> str:
        if module.training:
            return "train"
        layers = list(_depending(module))
        if not layers:
            return "harmless"
        late = next((layer for layer in layers if layer in self._trained), None)
        self.shown = type(late or layers[0]).__name__
        return "eval" if late is None else "late"

    def before_step(self, optimizer: Any, evaluates: bool) -> None:
        self._stepped.add(optimizer)
        for module, mode in list(self._modules.items()):
            if mode and trains(optimizer, module):
                mode = "eval" if mode == "late" and optimizer not in self._earlier else mode
                self.counts[mode] += 1
                self.counts["eval"] += mode == "late"
                self._modules[module] = ""


def trains(optimizer: Any, module: nn.Module) -> bool:
    """Whether an optimizer holds parameters of a module."""
    held = {id(leaf) for group in optimizer.param_groups for leaf in group["params"]}
    return any(id(leaf) in held for leaf in module.parameters())


def _depending(module: nn.Module) -> Iterator[nn.Module]:
    """The parts in eval mode that would behave differently in training mode."""
    return (part for part in module.modules() if not part.training and depends_on_mode(part))


def depends_on_mode(part: nn.Module) -> bool:
    """Whether a layer behaves differently in training mode and in eval mode."""
    if isinstance(part, nn.modules.batchnorm._NormBase):
        return bool(part.track_running_stats)
    if isinstance(part, (nn.modules.dropout._DropoutNd, nn.RNNBase, nn.MultiheadAttention)):
        return float(getattr(part, "p", getattr(part, "dropout", 0.0))) > 0
    if isinstance(part, nn.RReLU):
        return True
    if type(part).__module__.startswith("torch.nn."):
        return False
    methods = (method for kind in type(part).__mro__ if kind is not nn.Module for method in vars(kind).values())
    codes = (getattr(method, "__code__", None) for method in methods)
    return any("training" in code.co_names for code in codes if code is not None)


class Draws(LineObserver):
    """Does the statement draw random numbers while its module is in eval mode?"""

    def __init__(self, claim: Claim, probe: Probe) -> None:
        super().__init__(claim, probe)
        self._states: dict[FrameType, list[Any]] = {}

    def before(self, frame: FrameType) -> None:
        module = next(values_of(self.claim.names, frame), None)
        if isinstance(module, nn.Module):
            self.counts["training"] += module.training
            self.shown = type(module).__name__
            if not module.training and all(leaf.device.type in _GENERATORS for leaf in module.parameters()):
                self._states[frame] = _random_states()

    def after(self, frame: FrameType) -> None:
        before = self._states.pop(frame, None)
        if before is not None:
            self.counts["drew"] += any(map(_differ, before, _random_states()))
            self.counts["eval"] += 1


def _random_states() -> list[Any]:
    """The states of all generators, without waiting for a GPU."""
    states: list[Any] = [torch.get_rng_state()]
    if torch.cuda.is_initialized():
        states += [generator.get_offset() for generator in torch.cuda.default_generators]
    return states


def _differ(one: Any, other: Any) -> bool:
    return not torch.equal(one, other) if isinstance(one, torch.Tensor) else one != other

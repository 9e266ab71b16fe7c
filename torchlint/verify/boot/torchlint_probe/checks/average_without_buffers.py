"""A model follows the parameters of another one but not its buffers, so it normalizes with old statistics.

The check looks at models that are called without gradients and that no optimizer trains. It reports a problem if the
weights of such a model change between its calls but its batch normalization statistics never do, although the
statistics of a trained model with the same parameter names and shapes change. The model must use these statistics, in
eval mode. The reported line is the one that changes the weights. Copy the buffers too.

Source: `torch.optim.swa_utils.AveragedModel` in PyTorch's documentation, on `use_buffers` and `update_bn`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from torchlint_probe.checks._loads import memory
from torchlint_probe.checks.check import Check, Operated, Sighting

_CALLS = 3
_MODELS = 20
_CHANGING = ("mul_", "add_", "copy_", "lerp_", "sub_")
_OF_LISTS = ("_foreach_mul_", "_foreach_add_", "_foreach_copy_", "_foreach_lerp_")


class _Follower:
    """A model that no optimizer trains, as it was at its first call."""

    def __init__(self, model: nn.Module, layer: nn.Module, weight: torch.Tensor) -> None:
        self.layer = weakref.ref(layer)
        self.weight = weight.detach().clone()
        self.mean = layer.running_mean.clone()
        self.place = memory(weight)
        self.calls = 0


class AverageWithoutBuffers(Check):
    """Compares a weight and a statistic of each model with those of its first call."""

    name = "average-without-buffers"
    code = "TL324"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._models: weakref.WeakKeyDictionary[nn.Module, _Follower | None] = weakref.WeakKeyDictionary()
        self._places: dict[int, int] = {}
        self._trained: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._seen: dict[int, Sighting] = {}
        self._right: dict[int, Sighting] = {}

    def operators(self) -> Mapping[Any, Operated]:
        functions = [getattr(torch.Tensor, name) for name in _CHANGING]
        functions += [getattr(torch, name) for name in _OF_LISTS if hasattr(torch, name)]
        return dict.fromkeys(functions, self._changed)

    def _changed(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if not self._places or not args:
            return
        for tensor in args[0] if isinstance(args[0], (list, tuple)) else args[:1]:
            place = memory(tensor) if isinstance(tensor, torch.Tensor) else 0
            if place in self._places:
                self._places[place] = self.probe.sites.here()

    def called(self, module: nn.Module, args: Any, output: Any) -> None:
        if torch.is_grad_enabled():
            self._trained.add(module)
            return
        if module not in self._models and len(self._models) < _MODELS:
            follower = self._models[module] = _follower(module)
            if follower is not None:
                self._places[follower.place] = 0
        follower = self._models.get(module)
        layer = None if follower is None else follower.layer()
        if follower is not None and layer is not None:
            follower.calls += 1
            if follower.calls == _CALLS or follower.calls % 50 == 0:
                self._judge(module, follower, layer)

    def _judge(self, module: nn.Module, follower: _Follower, layer: nn.Module) -> None:
        leaves = dict(module.named_parameters())
        site = self._places.get(follower.place, 0)
        if not site or any(self.probe.checks.holds(leaf) for leaf in leaves.values()):
            return
        weight = next(leaf for leaf in leaves.values() if leaf.dim() > 1)
        if memory(weight) != follower.place or torch.equal(weight.detach(), follower.weight):
            return
        mean: Any = layer.running_mean
        if not torch.equal(mean, follower.mean):  # in training mode, they also follow its own batches
            message = f"the statistics of its `{type(layer).__name__}` change together with its weights"
            self._right[site] = Sighting(site, message, {"calls": follower.calls})
            return
        if layer.training:
            return
        shapes = {name: leaf.shape for name, leaf in leaves.items()}
        others = [item for item in list(self._trained) if item is not module and _shapes(item) == shapes]
        others = [item for item in others if any(self.probe.checks.holds(leaf) for leaf in item.parameters())]
        means = [found for item in others if (found := _normalization(item)) is not None]
        moved = [item for item in means if not torch.equal(item.running_mean, mean)]
        if moved:
            kind = type(layer).__name__
            message = (
                f"the weights of a `{type(module).__name__}` change here, but the statistics of its `{kind}` never do"
            )
            self._seen[site] = Sighting(site, message, {"calls": follower.calls})

    def acquittals(self) -> Iterator[Sighting]:
        yield from (seen for site, seen in list(self._right.items()) if site not in self._seen)

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())


def _follower(module: nn.Module) -> _Follower | None:
    layer = _normalization(module)
    weight = next((leaf for leaf in module.parameters() if leaf.dim() > 1), None)
    return None if layer is None or weight is None else _Follower(module, layer, weight)


def _normalization(module: nn.Module) -> nn.Module | None:
    """The first part that has running statistics."""
    return next(
        (part for part in module.modules() if isinstance(getattr(part, "running_mean", None), torch.Tensor)), None
    )


def _shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: leaf.shape for name, leaf in module.named_parameters()}

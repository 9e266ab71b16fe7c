"""Gradients with a graph are never freed, because the gradient, its graph and the tensor refer to each other.

After each `backward(create_graph=True)`, the check takes the first tensor whose `grad` has a graph. Later it asks
whether this graph still exists. It reports a problem if one line built at least ten graphs, and all of them still
exist. `torch.autograd.grad` returns gradients that are freed normally. After `backward`, set `grad` to None.

Source: the warning of PyTorch, "Using backward() with create_graph=True will create a reference cycle".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.contained import contained
from torchlint_probe.graphs import leaves, nodes, tensors_in
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_GRAPHS = 10
_KEY = "torchlint-gradient"


class _Count:
    """The graphs of gradients that one line made, and those that still exist."""

    def __init__(self) -> None:
        self.made = self.alive = 0
        self.most = 0


class _Life:
    """A marker in a node that is freed together with it."""

    def __init__(self, count: _Count) -> None:
        self._count = count
        count.alive += 1

    def __del__(self) -> None:
        self._count.alive -= 1


class GradientHoldsGraph(Check):
    """Counts lives."""

    name = "gradient-holds-graph"
    code = "TW504"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._counts: dict[int, _Count] = {}

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(torch.autograd, "backward", _Hook(probe))

    def gave(self, found: list[torch.Tensor]) -> None:
        """A backward has computed gradients with a graph for these tensors."""
        found = sorted(found, key=lambda leaf: isinstance(leaf, torch.nn.Parameter))  # parameters last
        held = next((leaf for leaf in found if leaf.grad is not None and leaf.grad.grad_fn is not None), None)
        if held is None or _KEY in held.grad.grad_fn.metadata:
            return
        count = self._counts.setdefault(self.probe.sites.here(), _Count())
        held.grad.grad_fn.metadata[_KEY] = _Life(count)
        count.made += 1
        if count.made == count.alive:
            count.most = count.made

    def acquittals(self) -> Iterator[Sighting]:
        for site, count in list(self._counts.items()):
            if count.made >= _GRAPHS and count.alive <= 1 and count.most <= 1:
                message = f"{count.made:,} backwards left gradients with a graph, and all but the last were freed"
                yield Sighting(site, message, {"graphs": count.made})

    def sightings(self) -> Iterator[Sighting]:
        for site, count in list(self._counts.items()):
            if count.most >= _GRAPHS:
                message = (
                    f"{count.most:,} graphs of gradients, one per backward with `create_graph=True`, were all "
                    "alive: they are never freed"
                )
                yield Sighting(site, message, {"graphs": count.most}, 0)


class _Hook(Hook):
    """Around `torch.autograd.backward`."""

    def __call__(self, original: Callable[..., Any], tensors: Any, *args: Any, **kwargs: Any) -> Any:
        creates = bool(kwargs.get("create_graph", args[2] if len(args) > 2 else False))
        found = self._leaves(tensors) if creates and self._probe.looking else None
        result = original(tensors, *args, **kwargs)
        if found:
            self._probe.checks.tell_one(GradientHoldsGraph, "gave", found)
        return result

    @contained
    def _leaves(self, tensors: Any) -> list[torch.Tensor]:
        return leaves(nodes(tensors_in(tensors)))

"""Parameters of a model get gradients that no optimizer uses, while other parameters of the same model are trained.

At every fifth step of an optimizer, the check looks at the models that ran, and lists their parameters that have a
gradient and are in no optimizer. It reports a problem if an optimizer that has stepped holds other parameters of the
same model, and the listed ones have not changed since the previous check. Parameters that the program updates by hand
do change. Causes are a part that was added after the optimizer was created, or a part that should be frozen and is not:
its gradients cost time and memory. The same applies to a whole network in training mode that no optimizer has, if the
optimizers hold parts of other networks. Some programs train only a head and accept that cost, so the result is
inconclusive, unless only biases and normalization parameters are left out. Parameters that do not require gradients are
frozen on purpose.

Source: "Optimizer, constructing it" in PyTorch's documentation of `torch.optim`.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.averages import sample
from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check, Sighting

_EVERY = 5
_LEAVES = 8
_NEXT = "add them to the optimizer, or freeze them with `requires_grad_(False)` to avoid their gradients"


class ParameterWithoutOptimizer(Check):
    """Compares the parameters of models and of optimizers."""

    name = "parameter-without-optimizer"
    code = "TW203"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._held: dict[int, int] = {}
        """By the identity of a parameter, the site of its optimizer."""
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._waiting: set[int] = set()
        """By identity, parameters of optimizers that have not stepped yet."""
        self._versions: dict[int, int] = {}
        self._seen: dict[int, Sighting] = {}
        self._networks: dict[int, Sighting] = {}
        """By the number of a network that no optimizer has."""
        self._known: weakref.WeakKeyDictionary[torch.nn.Module, Any] = weakref.WeakKeyDictionary()
        """By network, its number, identities and versions of its gradients, and some of its values."""
        self._numbers = itertools.count()

    def before_step(self, optimizer: Any) -> None:
        steps = self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        if steps % _EVERY:
            return
        self._held = {id(leaf): self.probe.made_at(item) for item in list(self._steps) for leaf in leaves_of(item)}
        before, self._versions = self._versions, {}
        waiting = [item for item in self.probe.all_optimizers if item not in self._steps]
        self._waiting = {id(leaf) for item in waiting for leaf in leaves_of(item)}
        for model in self.models:
            self._look(model, before)

    def _look(self, model: torch.nn.Module, before: dict[int, int]) -> None:
        leaves = list(model.parameters())
        sites = [self._held[id(leaf)] for leaf in leaves if id(leaf) in self._held]
        others = [leaf for leaf in leaves if id(leaf) not in self._held and id(leaf) not in self._waiting]
        free = [leaf for leaf in others if leaf.requires_grad and leaf.grad is not None]
        self._versions |= {id(leaf): leaf._version for leaf in free}
        still = [leaf for leaf in free if before.get(id(leaf)) == leaf._version]
        if not sites:
            self._look_at_whole(model, still if len(still) == len(leaves) else [])
            return
        site = max(set(sites), key=sites.count)
        self._seen.pop(site, None)
        is_chosen = all(leaf.dim() < 2 for leaf in leaves if id(leaf) in self._held)  # adapts norms or biases only
        if still and len(still) == len(free) and not is_chosen:
            message = f"{self.models.named(still)} of the model get gradients, but are in no optimizer"
            is_forgotten = all(leaf.dim() < 2 for leaf in still)  # biases and norms only: no weight was left out
            self._seen[site] = Sighting(site, message, {"parameters": len(still)}, advice="" if is_forgotten else _NEXT)

    def _look_at_whole(self, model: torch.nn.Module, still: list[torch.Tensor]) -> None:
        """A network of which no optimizer has a parameter; `still` are its parameters, if all have gradients."""
        gradients = [(id(leaf.grad), leaf.grad._version) for leaf in still if leaf.grad is not None]
        values = torch.cat([sample(leaf) for leaf in still[:_LEAVES]]) if still else torch.zeros(0)
        if model not in self._known:
            self._known[model] = next(self._numbers), [], values
        number, known_gradients, known_values = self._known[model]
        self._known[model] = number, gradients, values
        self._networks.pop(number, None)
        is_fed = gradients != known_gradients and torch.equal(values, known_values)
        known = {id(leaf) for other in self.models for leaf in other.parameters()}
        if not still or not is_fed or not model.training or not known.issuperset(self._held):
            return
        if any(self.probe.checks.holds(leaf) for leaf in still):
            return  # trained earlier, by an optimizer that is gone
        site = list(self._held.values())[-1]
        message = f"all parameters of {self.models.name(model)} get gradients, but are in no optimizer"
        self._networks[number] = Sighting(site, message, {"parameters": len(still)}, advice=_NEXT)

    def sightings(self) -> Iterator[Sighting]:
        yield from [*self._seen.values(), *self._networks.values()]

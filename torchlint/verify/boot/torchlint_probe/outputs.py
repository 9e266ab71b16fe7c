"""Inputs and results of module calls at a flagged statement: graphs that are unused, and graphs that go too far."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.claim import Claim
from torchlint_probe.graphs import leaves, nodes
from torchlint_probe.observer import Observer
from torchlint_probe.saved import saved_bytes
from torchlint_probe.values import are_zero

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

_CALLS = 40
_WEIGHED = 3
"""The number of graphs whose bytes are counted."""
_KEY = "torchlint-output"


class Followed:
    """The number of backwards through a graph. The hooks of its nodes keep nothing else alive."""

    def __init__(self) -> None:
        self.count = 0
        self.is_gone = False

    def __call__(self, gradients: Any) -> None:
        self.count += 1

    @staticmethod
    def tensors(output: Any) -> list[torch.Tensor]:
        """The results of a module that have a graph."""
        return [tensor for tensor in _flat(output) if tensor.grad_fn is not None]

    @classmethod
    def of(cls, output: Any) -> Followed | None:
        """Follow the graph of what a module has returned, if it has one."""
        tensors = cls.tensors(output)
        if not tensors:
            return None
        followed = cls()
        life = _Life(followed)
        for tensor in tensors:
            node: Any = tensor.grad_fn
            node.register_prehook(followed)
            node.metadata[_KEY] = life
        return followed


class _Life:
    """A marker in the nodes of a call's results that is freed with the last of them."""

    def __init__(self, visits: Followed) -> None:
        self._visits = visits

    def __del__(self) -> None:
        self._visits.is_gone = True


class CallObserver(Observer):
    """Observes calls of modules with parameters at the flagged statement, if no other module takes part in them."""

    hears_calls = True
    is_direct = False

    @property
    def is_done(self) -> bool:
        return self.counts["calls"] >= _CALLS

    def call(self, module: torch.nn.Module, args: Sequence[Any], output: Any) -> None:
        """A call has ended; some calls are examined."""
        if not self.is_done and next(module.parameters(), None) is not None:
            self.counts["calls"] += 1
            self.called(module, args, output)

    def called(self, module: torch.nn.Module, args: Sequence[Any], output: Any) -> None:
        """Examine one call."""


class Outputs(CallObserver):
    """evaluation-with-grad: does a backward ever use the graphs of what the flagged statement computes?

    Results are `without` a graph, or have one, which is `used` by a backward, or `unused` when it goes, or still there.
    """

    def __init__(self, claim: Claim, probe: Probe) -> None:
        super().__init__(claim, probe)
        self._visits: list[Followed] = []

    def called(self, module: torch.nn.Module, args: Sequence[Any], output: Any) -> None:
        self.counts["training"] += module.training
        self.counts["off"] += not torch.is_grad_enabled()
        followed = Followed.of(output)
        if followed is None:
            self.counts["without"] += 1
            return
        self.counts["with"] += 1
        if self.counts["with"] <= _WEIGHED and not self.probe.saved_hooks:
            self.counts["bytes"] = max(self.counts["bytes"], saved_bytes(Followed.tensors(output)))
        self._visits.append(followed)

    def settle(self) -> None:
        self.counts["used"] = sum(visits.count > 0 for visits in self._visits)
        self.counts["unused"] = sum(visits.is_gone and not visits.count for visits in self._visits)


def _flat(value: Any, depth: int = 3) -> list[torch.Tensor]:
    """The tensors in what a module has returned, also in containers in it."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)) or not depth:
        return []
    return [tensor for item in value for tensor in _flat(item, depth - 1)]


class _Fake:
    """A graph from the flagged statement's inputs: did a backward go through it, and did a step use its gradients?"""

    def __init__(self, sample: torch.Tensor) -> None:
        self.visits = Followed()
        self.leaf = weakref.ref(sample)
        """A parameter that the graph leads to, and that the module which was called does not have."""


class Fakes(CallObserver):
    """generator-graph-in-discriminator-step: are gradients computed through an input and then discarded?

    Inputs are `detached`, or lead to parameters whose gradients, after a backward, are `wasted` or
    `kept`. Some of the wasted ones go backward again and are `reused`.
    """

    def __init__(self, claim: Claim, probe: Probe) -> None:
        super().__init__(claim, probe)
        self._fakes: list[_Fake] = []
        self._wasted: list[Followed] = []

    def called(self, module: torch.nn.Module, args: Sequence[Any], output: Any) -> None:
        given = [tensor for tensor in _flat(tuple(args)) if tensor.grad_fn is not None]
        own = {id(leaf) for leaf in module.parameters()}
        others = (leaf for leaf in leaves(nodes(given)) if isinstance(leaf, torch.nn.Parameter))
        sample = next((leaf for leaf in others if id(leaf) not in own), None)
        if sample is None or not any(item.grad_fn is not None for item in _flat(output)):
            self.counts["detached"] += 1
            return
        fake = _Fake(sample)
        for tensor in given:
            node: Any = tensor.grad_fn
            node.register_prehook(fake.visits)
        self._fakes.append(fake)

    def before_backward(self, roots: list[torch.Tensor]) -> None:
        self._resolve(None)

    def before_step(self, optimizer: Any, evaluates: bool) -> None:
        self._resolve({id(leaf) for group in optimizer.param_groups for leaf in group["params"]})

    def _resolve(self, held: set[int] | None) -> None:
        """Find out whether the gradients are gone, or an optimizer with their parameter steps."""
        waiting = []
        for fake in self._fakes:
            leaf = fake.leaf()
            if leaf is None:
                continue
            if not fake.visits.count:
                waiting.append(fake)
            elif leaf.grad is None or are_zero([leaf.grad])[0]:
                self._wasted.append(fake.visits)
            elif held is not None and id(leaf) in held:
                self.counts["kept"] += 1
            else:
                waiting.append(fake)
        self._fakes = waiting[-_CALLS:]

    def settle(self) -> None:
        self.counts["wasted"] = len(self._wasted)
        self.counts["reused"] = sum(visits.count > 1 for visits in self._wasted)

"""The gradients of an optimizer, or of one of its groups, are exactly zero at every step: its parameters do not learn.

The check lists the parameters that have had only zero gradients so far. It reports a problem if all parameters of a
group that have gradients had only zeros in at least ten steps, and the learning rate of the group is above zero. If the
check did not measure some steps, the parameters must also be unchanged. Parameters that require no gradient, or get
none, are left out.

It also reports a problem if at least two weights and their gradients are entirely zero at each of the first ten
measured steps: a product of two matrices that both start at zero never moves.

Causes are an operator without a derivative (`argmax`, `round`, `sign`), a softmax over one value, or a mask without
elements. If torchlint stopped the program, or another group learns, the result is inconclusive: a loss weight may be
zero on purpose.

Source: "Autograd mechanics" in PyTorch's notes, "Gradients for non-differentiable functions".
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.ledger import Ledger

_STEPS = 10
_SAMPLED = 8
_VALUES = 64
_WAITING = 40
"""Steps after which the check ignores a group without gradients."""
_TO_ITS_END = "run it to its end, with --max-steps 0"
_LEARNS = "check whether the loss term that trains this group should be zero"


class _Group:
    """A group of parameters: those with only zero gradients so far, steps with gradients, and all steps."""

    def __init__(self) -> None:
        self.zero: dict[int, weakref.ref[torch.Tensor]] = {}
        self.steps = 0
        self.looks = 0
        self.is_done = False

    def look(self, leaves: list[torch.Tensor]) -> None:
        self.looks += 1
        given = [leaf for leaf in leaves if leaf.grad is not None]
        if not given:
            self.is_done = self.looks >= _WAITING and not self.steps
            return
        self.steps += 1
        for leaf in given:
            if leaf.grad is not None and _has_values(leaf.grad):
                self.is_done = True
                return
        self.zero |= {id(leaf): weakref.ref(leaf) for leaf in given}


class _Stuck:
    """The weights of an optimizer that were entirely zero so far, as were their gradients."""

    def __init__(self, leaves: list[torch.Tensor]) -> None:
        self.leaves = [weakref.ref(leaf) for leaf in leaves if leaf.dim() > 1]
        self.weights = len(self.leaves)
        self.steps = 0

    def look(self) -> None:
        self.steps += 1
        alive = [leaf for ref in self.leaves if (leaf := ref()) is not None]
        stuck = (leaf for leaf in alive if leaf.grad is not None and not _has_values(leaf.detach()))
        self.leaves = [weakref.ref(leaf) for leaf in stuck if leaf.grad is not None and not _has_values(leaf.grad)]


class GradientOfZero(Check):
    """Reads the gradients of groups that have had only zeros."""

    name = "gradient-of-zero"
    code = "TW212"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._groups: weakref.WeakKeyDictionary[Any, list[_Group]] = weakref.WeakKeyDictionary()
        self._seen: dict[int, Sighting] = {}
        self._samples: dict[int, list[tuple[weakref.ref[torch.Tensor], torch.Tensor]]] = {}
        """By site, a few initial values of each parameter,"""
        self._steps: dict[int, tuple[Ledger, int]] = {}
        """and the optimizer's step counter, with the number of measured steps."""
        self._unmoved: dict[int, Sighting] = {}
        """By site, the weights that are still zero after some steps,"""
        self._all_unmoved: set[int] = set()
        """and the sites of optimizers that train no other weights."""
        self._stuck: weakref.WeakKeyDictionary[Any, _Stuck] = weakref.WeakKeyDictionary()
        self._looks: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def before_step(self, optimizer: Any) -> None:
        groups = self._groups.setdefault(optimizer, [])
        while len(groups) < len(optimizer.param_groups):
            groups.append(_Group())
        pairs = list(zip(groups, optimizer.param_groups, strict=False))
        for group, given in pairs:
            if not group.is_done:
                group.look([leaf for leaf in given["params"] if leaf.requires_grad])
                if not _rate(given):
                    group.is_done = True
        self._looks[optimizer] = self._looks.get(optimizer, 0) + 1
        self._look_for_stuck(optimizer)
        self._judge(optimizer, [group for group, _ in pairs])

    def _look_for_stuck(self, optimizer: Any) -> None:
        stuck = self._stuck.get(optimizer)
        if stuck is None:
            leaves = [leaf for group in optimizer.param_groups for leaf in group["params"] if leaf.requires_grad]
            stuck = self._stuck[optimizer] = _Stuck(leaves)
        if stuck.leaves and stuck.steps < _STEPS:
            stuck.look()
            leaves = [leaf for ref in stuck.leaves if (leaf := ref()) is not None]
            if stuck.steps == _STEPS and len(leaves) > 1:
                numbers = {"parameters": len(leaves), "steps": stuck.steps}
                message = f"{self.models.named(leaves)} and their gradients are zero at all of {stuck.steps} steps"
                site = self.probe.made_at(optimizer)
                self._unmoved[site] = Sighting(site, f"{message}: none of them can move", numbers, 0)
                if len(leaves) == stuck.weights:
                    self._all_unmoved.add(site)

    def _judge(self, optimizer: Any, groups: list[_Group]) -> None:
        site = self.probe.made_at(optimizer)
        self._seen.pop(site, None)
        dead = [group for group in groups if not group.is_done and group.steps >= _STEPS]
        if not dead:
            return
        leaves = [leaf for group in dead for item in group.zero.values() if (leaf := item()) is not None]
        steps = min(group.steps for group in dead)
        message = f"the gradients of {self.models.named(leaves)} are exactly zero at all of {steps:,} steps"
        advice = "" if all(group in dead or not group.steps for group in groups) else _LEARNS
        self._seen[site] = Sighting(site, message, {"parameters": len(leaves), "steps": steps}, 0, advice)
        self._steps[site] = self.probe.ledgers.of(optimizer), self._looks[optimizer]
        if site not in self._samples:
            self._samples[site] = [(weakref.ref(leaf), _sample(leaf)) for leaf in leaves[:_SAMPLED]]

    def sightings(self) -> Iterator[Sighting]:
        is_open = self.probe.budget.reason or not self.probe.finished
        yield from (seen for site, seen in list(self._unmoved.items()) if site not in self._seen)
        for site, seen in list(self._seen.items()):
            made, looks = self._steps[site]
            if made.made > looks and not all(map(_stays, self._samples[site])):
                continue  # an unmeasured step has moved it
            if not is_open or seen.advice:
                yield seen
            elif site in self._all_unmoved:
                yield self._unmoved[site]  # later steps cannot move it either
            else:
                yield Sighting(site, seen.message, seen.numbers, 0, _TO_ITS_END)


def _sample(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.detach().reshape(-1)[:_VALUES].clone()


def _stays(sample: tuple[weakref.ref[torch.Tensor], torch.Tensor]) -> bool:
    """Whether a parameter still exists and has its old values."""
    leaf = sample[0]()
    return leaf is not None and torch.equal(_sample(leaf), sample[1])


def _rate(group: Any) -> float:
    return float(group.get("lr", 1))


def _has_values(gradient: torch.Tensor) -> bool:
    """Whether `gradient` has a nonzero value; NaN counts as one."""
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    return bool(values.count_nonzero())

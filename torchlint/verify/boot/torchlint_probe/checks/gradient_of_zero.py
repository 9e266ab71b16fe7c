"""The gradients of an optimizer, or of one of its groups, are exactly zero at every step: its parameters do not learn.

Asks at each step which parameters had gradients of zeros only so far, and looks no further at one that had another.
Yes if all parameters of a group that have gradients had nothing else at ten steps or more, and the rate of the group is
above zero; if steps were not looked at, the parameters must be what they were, too. Parameters that require no
gradient, or get none, are left out. An operator without a derivative (`argmax`, `round`, `sign`), a softmax over one
value, and a mask without an element look like this. If the program was stopped, or another group learns, that is a
suspicion: a weight of the loss may be zero on purpose.

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
"""Steps until a group that got no gradient is no longer looked at."""
_TO_ITS_END = "run it to its end, with --max-steps 0"
_LEARNS = "see whether the term of the loss that trains this group is meant to be zero"


class _Group:
    """Of a group of parameters: those that only had zeros so far, the steps with gradients, and all steps."""

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


class GradientOfZero(Check):
    """Looks at the gradients of groups that have had none but zeros."""

    name = "gradient-of-zero"
    code = "TW212"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._groups: weakref.WeakKeyDictionary[Any, list[_Group]] = weakref.WeakKeyDictionary()
        self._seen: dict[int, Sighting] = {}
        self._samples: dict[int, list[tuple[weakref.ref[torch.Tensor], torch.Tensor]]] = {}
        """By site, a few values of each parameter, as they were when it was seen first,"""
        self._steps: dict[int, tuple[Ledger, int]] = {}
        """and of the optimizer, what counts its steps, and how many were looked at."""
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
        self._judge(optimizer, [group for group, _ in pairs])

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
        for site, seen in list(self._seen.items()):
            made, looks = self._steps[site]
            if made.made > looks and not all(map(_stays, self._samples[site])):
                continue  # a step that was not looked at has moved it
            is_open = self.probe.budget.reason or not self.probe.finished
            yield Sighting(site, seen.message, seen.numbers, 0, _TO_ITS_END) if is_open and not seen.advice else seen


def _sample(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.detach().reshape(-1)[:_VALUES].clone()


def _stays(sample: tuple[weakref.ref[torch.Tensor], torch.Tensor]) -> bool:
    """Whether a parameter is there, and has the values that it had."""
    leaf = sample[0]()
    return leaf is not None and torch.equal(_sample(leaf), sample[1])


def _rate(group: Any) -> float:
    return float(group.get("lr", 1))


def _has_values(gradient: torch.Tensor) -> bool:
    """Whether it has a value that is not zero; one that is no number is."""
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    return bool(values.count_nonzero())

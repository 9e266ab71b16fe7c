"""lopsided-accumulation: how many backwards does each step use?"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from torchlint_probe.claim import Claim
from torchlint_probe.graphs import leaves, nodes
from torchlint_probe.observer import LineObserver

if TYPE_CHECKING:
    import torch

    from torchlint_probe.probe import Probe

_WINDOWS = 5
"""The number of counted steps per optimizer, and"""
_BACKWARDS = 400
_LEAVES = 50


class _Steps:
    """The steps of one optimizer: its number, its count, and the number of backwards at the last step."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.made = 0
        self.backwards = 0


class Windows(LineObserver):
    """The numbers of backwards that the first steps use, for optimizers that step at the finding's lines.

    They are counted under the optimizer's number and that of the step.
    """

    def __init__(self, claim: Claim, probe: Probe) -> None:
        super().__init__(claim, probe)
        self._steps: weakref.WeakKeyDictionary[Any, _Steps] = weakref.WeakKeyDictionary()
        self._elsewhere: weakref.WeakSet[Any] = weakref.WeakSet()
        """Optimizers whose first step was at another line: they are not what the finding is about."""
        self._optimizers = 0
        self._backwards: list[list[weakref.ref[torch.Tensor]]] = []
        """For each backward, the leaves that received gradients."""

    def before_backward(self, roots: list[torch.Tensor]) -> None:
        if len(self._backwards) < _BACKWARDS and self._is_counting:
            self._backwards.append([weakref.ref(leaf) for leaf in leaves(nodes(roots))[:_LEAVES]])

    @property
    def _is_counting(self) -> bool:
        """Whether an optimizer may step here whose first steps have not been counted; none is known before it steps."""
        owners = (ledger.owner() for ledger in self.probe.ledgers.of_optimizers if ledger.owner is not None)
        known = [owner for owner in owners if owner is not None]
        return not known or any(map(self._is_open, known))

    def _is_open(self, optimizer: Any) -> bool:
        steps = self._steps.get(optimizer)
        return optimizer not in self._elsewhere if steps is None else steps.made < _WINDOWS

    def after_step(self, optimizer: Any) -> None:
        steps = self._steps.get(optimizer)
        if steps is None:
            if optimizer in self._elsewhere or not self._is_about():
                self._elsewhere.add(optimizer)
                return
            steps = self._steps[optimizer] = _Steps(self._optimizers)
            self._optimizers += 1
        if steps.made < _WINDOWS and len(self._backwards) < _BACKWARDS:
            held = {id(leaf) for group in optimizer.param_groups for leaf in group["params"]}
            since = self._backwards[steps.backwards :]
            used = sum(any(id(leaf()) in held for leaf in backward if leaf() is not None) for backward in since)
            self.counts[f"{steps.number}.{steps.made}"] = used
            steps.made += 1
            steps.backwards = len(self._backwards)

    def _is_about(self) -> bool:
        """Whether an optimizer steps at the finding's lines."""
        stack = self.probe.sites.stacks[self.probe.sites.here()]
        return any(
            file == self.claim.file and any(first <= line <= last for first, last in self.claim.blocks)
            for file, line in stack
        )

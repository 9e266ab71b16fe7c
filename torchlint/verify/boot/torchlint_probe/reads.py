"""training-under-no-grad: parameters that flagged code reads by name, in addition to those of the modules it calls."""

from __future__ import annotations

from types import FrameType

import torch

from torchlint_probe.claim import Claim, values_of
from torchlint_probe.ledgers import Ledgers
from torchlint_probe.slots import Slot

_VISITS = 20


class Reads:
    """The leaves that an optimizer holds, by the name under which the code of one finding reads them."""

    def __init__(self, claim: Claim) -> None:
        self.slots: dict[str, Slot] = {}
        self._claim = claim
        self._visits = 0
        self._leaves: dict[str, torch.Tensor] = {}

    def enter(self, frame: FrameType) -> bool:
        """The code is about to run."""
        self._visits += 1
        for path in self._claim.names:
            for value in values_of((path,), frame):
                if isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad:
                    self._leaves["".join(path)] = value
        return self._visits < _VISITS

    def resolve(self, ledgers: Ledgers) -> None:
        """A step has ended: find the optimizers that train the leaves, and release the leaves."""
        while self._leaves:
            name, leaf = self._leaves.popitem()
            has_gradient = leaf.grad is not None
            for ledger in ledgers.of_optimizers:
                for slot in ledger.slots if ledger.made else ():
                    if slot.parameter() is leaf:
                        slot.had_gradient |= has_gradient
                        self.slots[name] = slot

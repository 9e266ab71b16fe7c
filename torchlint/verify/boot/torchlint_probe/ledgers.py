"""The ledgers of all optimizers, and of the leaves that belong to none."""

from __future__ import annotations

from typing import Any

import torch

from torchlint_probe.graphs import leaves, nodes
from torchlint_probe.ledger import Ledger
from torchlint_probe.manual import ManualUpdates

_WALKS = 3
"""The graphs of the first so many backwards are searched for leaves."""


class Ledgers:
    """Tells each ledger what happens to its gradients, and to those of the others."""

    def __init__(self) -> None:
        self.of_optimizers: list[Ledger] = []
        self.manual = ManualUpdates()
        self._by_optimizer: dict[int, Ledger] = {}
        self._walks = 0

    @property
    def all(self) -> list[Ledger]:
        """Those of optimizers, and the one of updates by hand."""
        return [*self.of_optimizers, self.manual.ledger]

    def of(self, optimizer: Any) -> Ledger:
        """The ledger of an optimizer, with the parameters that it has now."""
        ledger = self._by_optimizer.get(id(optimizer))
        if ledger is None or ledger.owner is None or ledger.owner() is not optimizer:
            ledger = Ledger(optimizer, type(optimizer).__name__)
            self._by_optimizer[id(optimizer)] = ledger
            self.of_optimizers.append(ledger)
        ledger.watch([parameter for group in optimizer.param_groups for parameter in group["params"]])
        return ledger

    def known(self, optimizer: Any) -> Ledger:
        """The ledger of an optimizer whose step has begun."""
        return self._by_optimizer[id(optimizer)]

    def add(self, optimizer: Any) -> None:
        """An optimizer has got parameters."""
        self.manual.release(self.of(optimizer).slots)

    def _living(self) -> list[Ledger]:
        return [ledger for ledger in self.of_optimizers if ledger.alive]

    def before_backward(self, roots: list[torch.Tensor], site: int, step: int) -> None:
        """A backward is about to add to gradients."""
        for ledger in self._living():
            ledger.before_backward()
        if self._walks < _WALKS:
            self._walks += 1
            owned = {id(slot.parameter()) for ledger in self.of_optimizers for slot in ledger.slots}
            self.manual.take([leaf for leaf in leaves(nodes(roots)) if id(leaf) not in owned])
        self.manual.before_backward(site, step)

    def after_backward(self, site: int) -> None:
        """A backward has ended well."""
        fed = [ledger for ledger in self._living() if ledger.after_backward(site)]
        if len(fed) == 1:
            fed[0].fed_alone()
        self.manual.after_backward(site)

    def stepped(self, ledger: Ledger) -> None:
        """The optimizer of a ledger has stepped."""
        for other in self.of_optimizers:
            if other is not ledger:
                other.spend(ledger)
        ledger.after_step()

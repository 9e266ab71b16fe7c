"""Leaves that belong to no optimizer: a program that changes them between two backwards updates them by hand."""

from __future__ import annotations

import weakref

import torch

from torchlint_probe.ledger import Ledger
from torchlint_probe.slots import STALE, USED, Slot

_LEAVES = 200
_SAMPLE = 64


class _Leaf:
    """A leaf as the last backward left it."""

    __slots__ = ("gradient", "gradient_version", "slot", "values", "version")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.gradient: weakref.ref[torch.Tensor] | None = None
        self.gradient_version = self.version = 0
        self.values: torch.Tensor | None = None

    def remember(self) -> None:
        """A backward has ended."""
        leaf = self.slot.parameter()
        gradient = None if leaf is None else leaf.grad
        if leaf is None or gradient is None:
            self.gradient = None
            return
        self.gradient, self.gradient_version = weakref.ref(gradient), gradient._version
        self.version = leaf._version
        self.values = leaf.detach().reshape(-1)[:_SAMPLE].clone()

    def was_updated(self) -> bool:
        """Whether the leaf has changed since; a change through `.data` shows in its values only."""
        leaf = self.slot.parameter()
        if leaf is None or self.gradient is None or self.values is None:
            return False
        return leaf._version != self.version or not torch.equal(leaf.detach().reshape(-1)[:_SAMPLE], self.values)


class ManualUpdates:
    """A ledger whose steps are seen one backward later."""

    def __init__(self) -> None:
        self.ledger = Ledger(None, "")
        self._leaves: list[_Leaf] = []

    def take(self, leaves: list[torch.Tensor]) -> None:
        """Follow leaves that gradients accumulate in."""
        known = {id(leaf.slot.parameter()) for leaf in self._leaves}
        new = [leaf for leaf in leaves if id(leaf) not in known]
        parameters = [leaf for held in self._leaves if (leaf := held.slot.parameter()) is not None]
        if new and len(parameters) < _LEAVES:
            self._watch([*parameters, *new][:_LEAVES])

    def release(self, slots: list[Slot]) -> None:
        """These belong to an optimizer after all."""
        owned = {id(slot.parameter()) for slot in slots}
        held = [leaf for kept in self._leaves if (leaf := kept.slot.parameter()) is not None]
        if self._leaves:
            self._watch([leaf for leaf in held if id(leaf) not in owned])

    def lose(self) -> None:
        """Nothing is looked at for a while."""
        for leaf in self._leaves:
            leaf.gradient = None

    def _watch(self, leaves: list[torch.Tensor]) -> None:
        self.ledger.watch(leaves)
        known = {id(leaf.slot): leaf for leaf in self._leaves}
        self._leaves = [known.get(id(slot)) or _Leaf(slot) for slot in self.ledger.slots]

    def before_backward(self, site: int, step: int) -> None:
        """Count an update that has happened since the last backward, and see what was cleared after it."""
        updated = [leaf for leaf in self._leaves if leaf.was_updated()]
        if updated:
            self.ledger.count(site, step, any(leaf.slot.state == STALE for leaf in updated))
            self.ledger.movement.moved += 1
        for leaf in updated:
            leaf.slot.state = USED
            leaf.slot.had_gradient = True
            leaf.slot.gradient, leaf.slot.version = leaf.gradient, leaf.gradient_version
        self.ledger.before_backward(False)

    def after_backward(self, site: int, thread: int) -> None:
        """Remember how the backward leaves them."""
        self.ledger.after_backward(site, thread)
        for leaf in self._leaves:
            leaf.remember()

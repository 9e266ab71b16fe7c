"""Leaves that belong to no optimizer: a program that changes them between two backwards updates them by hand.

Averages with other parameters change leaves as well, and are no updates.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

from torchlint_probe.averages import goes_downhill, is_average, sample
from torchlint_probe.ledger import Ledger
from torchlint_probe.slots import STALE, USED, Slot

_LEAVES = 200
_DECIDED = 3
"""A leaf that an average has changed so often in a row is always one."""
_NO_COPY = 0.9


class _Leaf:
    """A leaf as the last backward left it."""

    __slots__ = ("averaged", "gradient", "gradient_version", "slot", "values", "version")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.gradient: weakref.ref[torch.Tensor] | None = None
        self.gradient_version = self.version = 0
        self.values: torch.Tensor | None = None
        self.averaged = 0
        """How often in a row an average changed it."""

    @property
    def is_average(self) -> bool:
        """Whether it follows other parameters, as the weights of a teacher do."""
        return self.averaged >= _DECIDED

    def remember(self) -> None:
        """A backward has ended."""
        leaf = self.slot.parameter()
        gradient = None if leaf is None else leaf.grad
        if leaf is None or gradient is None or self.is_average:
            self.gradient = None
            return
        self.gradient, self.gradient_version = weakref.ref(gradient), gradient._version
        self.version = leaf._version
        self.values = sample(leaf)

    def was_updated(self) -> bool:
        """Whether the leaf has changed since; a change through `.data` shows in its values only."""
        leaf = self.slot.parameter()
        if leaf is None or self.gradient is None or self.values is None:
            return False
        return leaf._version != self.version or not torch.equal(sample(leaf), self.values)

    def change(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """How its values have changed, and the gradient that they had; None if that is gone."""
        leaf = self.slot.parameter()
        gradient = None if leaf is None else leaf.grad
        if leaf is None or gradient is None or gradient.is_sparse or self.values is None or self.gradient is None:
            return None
        held = self.gradient()
        if held is None or held is not gradient or held._version != self.gradient_version:
            return None
        return sample(leaf) - self.values, sample(gradient)


class _Source(NamedTuple):
    """A parameter that a leaf may average: its sample, and whether an optimizer owns it."""

    key: int
    is_owned: bool
    values: torch.Tensor


class ManualUpdates:
    """A ledger whose steps are observed one backward later."""

    def __init__(self, parameters: Callable[[], Iterable[torch.Tensor]]) -> None:
        """`parameters` are those of optimizers, which a leaf may be an average of."""
        self.ledger = Ledger(None, "")
        self._leaves: list[_Leaf] = []
        self._parameters = parameters
        self._sources: dict[torch.Size, list[_Source]] = {}
        """By shape, samples of what leaves may be averages of, as the last backward left it."""

    def take(self, leaves: list[torch.Tensor]) -> None:
        """Follow leaves that gradients accumulate in."""
        known = {id(leaf.slot.parameter()) for leaf in self._leaves}
        new = [leaf for leaf in leaves if id(leaf) not in known]
        parameters = [leaf for held in self._leaves if (leaf := held.slot.parameter()) is not None]
        if new and len(parameters) < _LEAVES:
            self._watch([*parameters, *new][:_LEAVES])

    def release(self, slots: list[Slot]) -> None:
        """These leaves belong to an optimizer after all."""
        owned = {id(slot.parameter()) for slot in slots}
        held = [leaf for kept in self._leaves if (leaf := kept.slot.parameter()) is not None]
        if self._leaves:
            self._watch([leaf for leaf in held if id(leaf) not in owned])

    def lose(self) -> None:
        """Stop observing for a while."""
        for leaf in self._leaves:
            leaf.gradient = None

    def _watch(self, leaves: list[torch.Tensor]) -> None:
        self.ledger.watch(leaves)
        known = {id(leaf.slot): leaf for leaf in self._leaves}
        self._leaves = [known.get(id(slot)) or _Leaf(slot) for slot in self.ledger.slots]

    def before_backward(self, site: int, step: int) -> None:
        """Count an update since the last backward, and find the gradients that were cleared after it."""
        updated = self._steps([leaf for leaf in self._leaves if leaf.was_updated()])
        if updated:
            self.ledger.count(site, step, any(leaf.slot.state == STALE for leaf in updated))
            self.ledger.movement.moved += 1
        for leaf in updated:
            leaf.slot.state = USED
            leaf.slot.had_gradient = True
            leaf.slot.gradient, leaf.slot.version = leaf.gradient, leaf.gradient_version
        self.ledger.before_backward(False)

    def after_backward(self, site: int, thread: int) -> None:
        """Store the leaves after the backward."""
        self.ledger.after_backward(site, thread)
        for leaf in self._leaves:
            leaf.remember()
        self._sources = self._samples()

    # -- averages

    def _steps(self, updated: list[_Leaf]) -> list[_Leaf]:
        """The leaves that a step has changed, and not an average, noise or a bound."""
        now = self._samples() if updated else {}
        stepped = [leaf for leaf in updated if not self._was_averaged(leaf, now)]
        changes = [change for leaf in stepped if (change := leaf.change()) is not None]
        is_known = len(changes) == len(stepped)
        if changes and is_known and not goes_downhill(*map(list, zip(*changes, strict=True))):
            return []
        return stepped

    def _was_averaged(self, leaf: _Leaf, now: dict[torch.Size, list[_Source]]) -> bool:
        own = leaf.slot.parameter()
        if own is None or leaf.values is None:
            return False
        sources = [*self._sources.get(own.shape, ()), *now.get(own.shape, ())]
        others = [item for item in sources if item.key != id(own) and item.values.device == own.device]
        found = is_average(leaf.values, sample(own), [item.values for item in others if item.is_owned])
        # If two leaves are always equal, either one may be the copy.
        found = found or is_average(leaf.values, sample(own), [item.values for item in others], _NO_COPY)
        leaf.averaged = leaf.averaged + 1 if found else 0
        return found

    def _samples(self) -> dict[torch.Size, list[_Source]]:
        """By the shapes of leaves, parameters of optimizers and other leaves of the same shape."""
        own = [leaf for held in self._leaves if not held.is_average and (leaf := held.slot.parameter()) is not None]
        shapes = {leaf.shape for leaf in own}
        found: dict[torch.Size, list[_Source]] = {}
        for is_owned, tensors in ((True, self._parameters()), (False, own)) if own else ():
            for item in tensors:
                if item.shape in shapes and not item.is_sparse:
                    found.setdefault(item.shape, []).append(_Source(id(item), is_owned, sample(item)))
        return found

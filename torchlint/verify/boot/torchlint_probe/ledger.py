"""The state of gradients between the steps of an optimizer: used, added to, cleared.

The state decides, not the calls. If a step has used a gradient and a backward then adds to it, the gradient is stale,
whatever code should have cleared it.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch

from torchlint_probe.movement import Movement
from torchlint_probe.norms import Norms
from torchlint_probe.rounds import Round
from torchlint_probe.slots import CLEAN, STALE, Mark, Slot, choose_samples, marks
from torchlint_probe.values import are_zero

_LOOKS = 20
"""The number of checks for gradients that were cleared in place, per optimizer."""

_Kept = list[tuple[Slot, torch.Tensor]]


class Ledger:
    """The gradients of one optimizer, or of the leaves that a program updates by hand.

    A round goes from one step to the next. `made` counts all steps. Everything else is about rounds that were followed
    from their start.
    """

    def __init__(self, owner: Any, name: str) -> None:
        self.owner = weakref.ref(owner) if owner is not None else None
        self.name = name
        self.slots: list[Slot] = []
        self.made = 0
        self.steps: Counter[int] = Counter()
        self.evaluations: Counter[int] = Counter()
        """The number of closure evaluations that used gradients."""
        self.stale: Counter[int] = Counter()
        self.wiped: Counter[int] = Counter()
        self.hungry: Counter[int] = Counter()
        self.leftover: Counter[int] = Counter()
        self.added: Counter[int] = Counter()
        self.added_stale: Counter[int] = Counter()
        self.first_stale: int | None = None
        self.summed = 0
        """Steps that used the sum of backwards from different places."""
        self.lost = 0
        """Steps that found some gradients, while others from a backward were gone."""
        self.clears = 0
        self.movement = Movement()
        self.norms = Norms()
        self.contested = False
        """Whether threads interfere with each other. Then the counts mean nothing."""
        self.users: set[int] = set()
        """The threads that have added to the gradients, or stepped on them. No other thread may even read them."""
        self.round = Round()
        self.is_followed = True
        self._signature: tuple[int, ...] = ()
        self._cleared = False
        self._looks = 0
        self._kept: list[tuple[Slot, torch.Tensor, int]] = []
        self._samples: list[Slot] = []
        self._unfed: list[Slot] = []
        self._given: list[Mark] = []
        """The sampled gradients as the last backward left them."""

    @property
    def alive(self) -> bool:
        return self.owner is None or self.owner() is not None

    @property
    def samples(self) -> list[Slot]:
        """The parameters whose values are sampled."""
        return self._samples

    @property
    def looked_at(self) -> int:
        """The number of such steps."""
        return sum(self.steps.values())

    def watch(self, parameters: list[torch.Tensor]) -> bool:
        """Update the optimizer's parameters; returns whether they have changed."""
        signature = (len(parameters), *(id(parameter) for parameter in (*parameters[:1], *parameters[-1:])))
        if signature == self._signature:
            return False
        self._signature = signature
        known = {id(slot.parameter()): slot for slot in self.slots if slot.parameter() is not None}
        self.slots = [known.get(id(parameter)) or Slot(parameter) for parameter in parameters]
        self._samples = choose_samples(self.slots)
        return True

    # -- not looking

    def lose(self) -> None:
        """The round cannot be followed any more; the next one starts with the next step."""
        self.is_followed = False
        self._kept, self._given = [], []
        self.norms.forget()
        self.round = Round()
        self._cleared = False
        for slot in self.slots:
            slot.state = CLEAN

    def rest(self) -> None:
        """Stop observing for a while, except whether parameters without a gradient get one."""
        self.lose()
        self._unfed = [slot for slot in self.slots if not slot.had_gradient]

    def pass_by(self, look: bool) -> None:
        """Record a step that is not followed; parameters without a gradient may be checked."""
        self.made += 1
        if look and self._unfed:
            for slot in self._unfed:
                slot.had_gradient = slot.current() is not None
            self._unfed = [slot for slot in self._unfed if not slot.had_gradient]

    # -- around a backward

    def before_backward(self, measure: bool) -> None:
        """Find the gradients that were cleared since the last step, and store the others."""
        kept: _Kept = []
        for slot in self.slots:
            if slot.state:
                gradient = slot.kept()
                if gradient is None:
                    self._clear(slot)
                else:
                    kept.append((slot, gradient))
        if kept:
            kept = self._settled(kept)
        self._note_clearing()
        if self.round.sites and (self.round.is_partly_spent or self.summed < _LOOKS) and self._samples_are_clear():
            self.round.clear()
        self._kept = [(slot, gradient, gradient._version) for slot, gradient in kept]
        if measure and kept:
            self.norms.remember(kept)
        self._given = marks(self._samples)

    def after_backward(self, site: int, thread: int) -> bool:
        """Find the gradients that grew. Those that had been used are stale now."""
        stale = False
        for slot, gradient, version in self._kept:
            now = slot.current()
            if now is None:
                self._clear(slot)
            elif now is not gradient or now._version != version:
                slot.state = STALE
                slot.gradient = weakref.ref(now)
                slot.version = now._version
                stale = True
        before, self._given = self._given, marks(self._samples)
        self._kept = []
        grew = stale or before != self._given
        if grew:
            self.users.add(thread)
            self.round.add(site, thread, stale)
            self.added[site] += 1
        if stale:
            self.norms.compare()
        self.norms.forget()
        return grew

    def _samples_are_clear(self) -> bool:
        gradients = [slot.current() for slot in self._samples]
        return all(are_zero([gradient for gradient in gradients if gradient is not None]))

    # -- around a step

    def before_step(self, site: int, step: int, measure: bool, evaluates: bool) -> None:
        """Count the step, and whether it uses stale gradients, or none at all.

        A step that `evaluates` a closure gets its gradients only then.
        """
        if not evaluates:
            self.consume(site, step)
        if self.is_followed:
            self.steps[site] += 1
        self.movement.before_step(self._samples)
        if measure:
            self.norms.measure(self._samples)

    def evaluated(self, site: int, step: int) -> None:
        """A closure has returned to its step, which uses the closure's gradients."""
        if self.is_followed:
            self.evaluations[site] += 1
        self.consume(site, step)
        self.use()

    def consume(self, site: int, step: int) -> None:
        """A step is about to use gradients, or a closure evaluation has returned to it."""
        found, stale = self._find()
        if not self.is_followed:
            return
        if stale and any(gradient._version != slot.version for slot, gradient in stale):
            stale = self._settled(stale)
        if stale:
            self._count_stale(site, step)
        elif self.round.has_leftover:
            self.leftover[site] += 1
            self._note_stale(step)
        self.summed += len(self.round.sites) > 1
        if not found or self._wiped_in_place():
            (self.wiped if self.round.is_fed else self.hungry)[site] += 1
        elif self.round.is_fed and any(identity and slot.current() is None for slot, identity, _ in self._given):
            self.lost += 1
        self._note_clearing()

    def _find(self) -> tuple[bool, _Kept]:
        """Whether there are gradients, and the stale ones."""
        found = False
        stale: _Kept = []
        for slot in self.slots:
            parameter = slot.parameter()
            gradient = None if parameter is None else parameter.grad
            if parameter is not None:
                slot.trainable = parameter.requires_grad
            if gradient is None:
                if slot.state:
                    self._clear(slot)
                continue
            found = slot.had_gradient = True
            if slot.state == STALE:
                if slot.kept() is None:
                    self._clear(slot)
                else:
                    stale.append((slot, gradient))
        return found, stale

    def _note_clearing(self) -> None:
        self.clears += self._cleared
        self._cleared = False

    def count(self, site: int, step: int, stale: bool) -> None:
        """A step that was not announced has happened, with or without stale gradients."""
        self.made += 1
        self.steps[site] += 1
        if stale:
            self._count_stale(site, step)

    def _count_stale(self, site: int, step: int) -> None:
        self.stale[site] += 1
        self._note_stale(step)
        self.added_stale.update(self.round.stale_sites)
        self.round.stale_sites.clear()

    def _note_stale(self, step: int) -> None:
        if self.first_stale is None:
            self.first_stale = step

    def use(self) -> None:
        """Mark the current gradients as used; the step itself has cleared those that are gone."""
        for slot in self.slots:
            slot.use()
            self._cleared |= self.round.is_fed and slot.had_gradient and slot.state == CLEAN
        self.is_followed = True
        self.round = Round()

    def after_step(self) -> None:
        """The step has used the current gradients."""
        self.made += 1
        self.use()
        self.movement.after_step()

    # -- reading values, where nothing else decides

    def _clear(self, slot: Slot) -> None:
        slot.state = CLEAN
        slot.gradient = None
        self._cleared = True

    def _settled(self, kept: _Kept) -> _Kept:
        """The gradients among `kept` that are nonzero: others have been cleared in place.

        If there are many, only samples are read. If the samples differ, the others count as cleared.
        """
        looked_at = [pair for pair in kept if pair[0].sampled] or kept[:4]
        zero = are_zero([gradient for _, gradient in looked_at])
        cleared = [pair for pair, is_zero in zip(looked_at, zero, strict=True) if is_zero]
        if not cleared:
            return kept
        everything = len(cleared) == len(looked_at)
        self._clear_all(kept if everything else cleared)
        return [] if everything else [pair for pair in looked_at if pair[0].state]

    def _clear_all(self, pairs: Iterable[tuple[Slot, torch.Tensor]]) -> None:
        for slot, _ in pairs:
            self._clear(slot)

    def _wiped_in_place(self) -> bool:
        """Whether only zeros are left of the last backward's gradients; only changed gradients are read."""
        touched = []
        for slot, identity, version in self._given:
            gradient = slot.current()
            if gradient is None and not identity:
                continue  # it never had one
            if gradient is None or (id(gradient) == identity and gradient._version == version):
                return False
            touched.append(gradient)
        if not touched or self._looks >= _LOOKS:
            return False
        self._looks += 1
        return all(are_zero(touched))

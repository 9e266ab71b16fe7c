"""What becomes of gradients between the steps of an optimizer: used, added to, cleared.

State, not calls: a gradient that a step has used and that a backward then adds to is stale, whoever should have
cleared it and however it is cleared elsewhere.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections import Counter
from typing import Any

import torch

CLEAN, USED, STALE = range(3)

_SAMPLES = 16
"""So many parameters of an optimizer have their values looked at, where identity and version do not tell."""

_NORM_LIMIT = 1_000_000
"""Norms are taken of gradients with so many elements in all."""

_MOVES = 3
"""At so many steps it is checked whether the parameters move."""

_LOOKS = 20
"""So often an optimizer's gradients are looked at for having been wiped in place."""


class Slot:
    """One parameter, and its gradient as it was last seen."""

    __slots__ = ("gradient", "had_gradient", "parameter", "sampled", "state", "trainable", "version")

    def __init__(self, parameter: torch.Tensor) -> None:
        self.parameter = weakref.ref(parameter)
        self.state = CLEAN
        self.gradient: weakref.ref[torch.Tensor] | None = None
        self.version = 0
        self.sampled = False
        self.had_gradient = False
        self.trainable = parameter.requires_grad

    def use(self) -> None:
        """A step has used the gradient."""
        parameter = self.parameter()
        gradient = None if parameter is None else parameter.grad
        if gradient is None:
            self.state = CLEAN
            return
        self.state = USED
        self.gradient = weakref.ref(gradient)
        self.version = gradient._version

    def kept(self) -> torch.Tensor | None:
        """The gradient, if it is still the one that was used."""
        parameter = self.parameter()
        gradient = None if parameter is None else parameter.grad
        if gradient is None or self.gradient is None or self.gradient() is not gradient:
            return None
        return gradient


_Mark = tuple[Slot, int, int]


class Ledger:
    """The gradients of one optimizer, or of the leaves that a program updates by hand.

    A round is what happens from one step to the next. `made` counts all steps, all else is of rounds that were
    followed from their beginning.
    """

    def __init__(self, owner: Any, name: str) -> None:
        self.owner = weakref.ref(owner) if owner is not None else None
        self.name = name
        self.slots: list[Slot] = []
        self.made = 0
        self.steps: Counter[int] = Counter()
        self.evaluations: Counter[int] = Counter()
        """How often closures of steps used gradients."""
        self.stale: Counter[int] = Counter()
        self.wiped: Counter[int] = Counter()
        self.hungry: Counter[int] = Counter()
        self.leftover: Counter[int] = Counter()
        self.added: Counter[int] = Counter()
        self.added_stale: Counter[int] = Counter()
        self.first_stale: int | None = None
        self.summed = 0
        """Steps that used the sum of what backwards from different places gave."""
        self.clears = 0
        self.moved = self.still = 0
        self.ratios: list[float] = []
        self.norm: float | None = None
        self.fresh: float | None = None
        self.contested = False
        """Whether threads get into each other's way: then nothing that was counted means anything."""
        self.feeders: set[int] = set()
        """The threads whose backwards have added to the gradients in this round."""
        self._signature: tuple[int, ...] = ()
        self._is_followed = True
        self._cleared = False
        self._fed = self._has_leftover = False
        self._fed_by: set[int] = set()
        self._added_up: set[int] = set()
        self._spent: set[int] = set()
        self._looks = 0
        self._stale_sites: set[int] = set()
        self._kept: list[tuple[Slot, torch.Tensor, int]] = []
        self._samples: list[Slot] = []
        self._unfed: list[Slot] = []
        self._given: list[_Mark] = []
        self._before: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._values: list[tuple[torch.Tensor, torch.Tensor]] = []

    @property
    def alive(self) -> bool:
        return self.owner is None or self.owner() is not None

    @property
    def looked_at(self) -> int:
        """How many steps were."""
        return sum(self.steps.values())

    def watch(self, parameters: list[torch.Tensor]) -> None:
        """Take the optimizer's parameters as they are now."""
        signature = (len(parameters), *(id(parameter) for parameter in (*parameters[:1], *parameters[-1:])))
        if signature == self._signature:
            return
        self._signature = signature
        known = {id(slot.parameter()): slot for slot in self.slots if slot.parameter() is not None}
        self.slots = [known.get(id(parameter)) or Slot(parameter) for parameter in parameters]
        self._sample()

    def _sample(self) -> None:
        """In equal stretches of the list, the smallest parameter: all parts of a model are looked at, cheaply."""
        for slot in self.slots:
            slot.sampled = False
        count = len(self.slots)
        bounds = [round(index * count / _SAMPLES) for index in range(_SAMPLES + 1)] if count > _SAMPLES else [0, count]
        if count <= _SAMPLES:
            chosen = list(self.slots)
        else:
            chosen = [min(self.slots[start:end], key=_size) for start, end in itertools.pairwise(bounds) if end > start]
        for slot in chosen:
            slot.sampled = True
        self._samples = chosen

    # -- not looking

    def lose(self) -> None:
        """The round can be followed no longer; the next one begins with the next step."""
        self._is_followed = False
        self._kept, self._given, self._before = [], [], []
        self._forget_round()
        self._cleared = False
        for slot in self.slots:
            slot.state = CLEAN

    def rest(self) -> None:
        """Nothing is looked at for a while, but whether parameters without a gradient get one."""
        self.lose()
        self._unfed = [slot for slot in self.slots if not slot.had_gradient]

    def pass_by(self, look: bool) -> None:
        """A step is made that is not followed; parameters without a gradient may be looked at."""
        self.made += 1
        if look and self._unfed:
            for slot in self._unfed:
                parameter = slot.parameter()
                slot.had_gradient = parameter is not None and parameter.grad is not None
            self._unfed = [slot for slot in self._unfed if not slot.had_gradient]

    # -- around a backward

    def before_backward(self, measure: bool) -> None:
        """See what was cleared since the last step, and remember what was not."""
        kept: list[tuple[Slot, torch.Tensor]] = []
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
        if self._added_up and (self._spent or self.summed < _LOOKS) and self._samples_are_clear():
            self._fed_by.clear()
            self._added_up.clear()
            self._spent.clear()
        self._kept = [(slot, gradient, gradient._version) for slot, gradient in kept]
        if measure and kept:
            self._before = [(gradient, gradient.detach().clone()) for slot, gradient in self._measured(kept)]
        self._given = self._marks()

    def after_backward(self, site: int, thread: int) -> bool:
        """See which gradients grew, and whether any did; those that had been used are stale now."""
        stale = False
        for slot, gradient, version in self._kept:
            parameter = slot.parameter()
            now = None if parameter is None else parameter.grad
            if now is None:
                self._clear(slot)
            elif now is not gradient or now._version != version:
                slot.state = STALE
                slot.gradient = weakref.ref(now)
                slot.version = now._version
                stale = True
        before, self._given = self._given, self._marks()
        self._kept = []
        grew = stale or before != self._given
        if grew:
            self._fed = True
            self._fed_by.add(site)
            self._added_up.add(site)
            self.feeders.add(thread)
            self.added[site] += 1
        if stale:
            self._stale_sites.add(site)
            self._compare()
        self._before = []
        return grew

    def fed_alone(self) -> None:
        """The last backward was for this optimizer only. What others had stepped on by then is a leftover."""
        self._has_leftover |= bool(self._spent)

    def spend(self, other: Ledger) -> None:
        """Another optimizer has stepped: the backwards that fed it have done what they were for."""
        self._spent |= self._fed_by & other._fed_by

    def _samples_are_clear(self) -> bool:
        gradients = [leaf.grad for slot in self._samples if (leaf := slot.parameter()) is not None]
        return all(_are_zero([gradient for gradient in gradients if gradient is not None]))

    def _marks(self) -> list[_Mark]:
        """Identity and version of the sampled gradients: they change when something is added."""
        marks = []
        for slot in self._samples:
            parameter = slot.parameter()
            if parameter is not None:
                gradient = parameter.grad
                marks.append((slot, id(gradient), 0 if gradient is None else gradient._version))
        return marks

    def _compare(self) -> None:
        """The norm of the gradient as it is, against that of what the last backward added."""
        if not self._before:
            return
        now = torch.stack([_dense(gradient).detach().float().norm() for gradient, _ in self._before]).norm()
        new = torch.stack(
            [(_dense(gradient).detach().float() - _dense(before).float()).norm() for gradient, before in self._before]
        ).norm()
        self.norm, self.fresh = float(now), float(new)
        if self.fresh > 0:
            self.ratios.append(self.norm / self.fresh)

    # -- around a step

    def before_step(self, site: int, step: int, measure: bool, evaluates: bool) -> None:
        """Count the step, and whether it uses stale gradients, or none at all.

        One that `evaluates` a closure gets its gradients only then.
        """
        if not evaluates:
            self.consume(site, step)
        if self._is_followed:
            self.steps[site] += 1
        if self.moved + self.still < _MOVES:
            self._values = [
                (parameter, parameter.detach().reshape(-1)[:64].clone())
                for slot in self._samples
                if (parameter := slot.parameter()) is not None and parameter.grad is not None
            ]
        if measure and self.norm is None:
            self._measure_norm()

    def evaluated(self, site: int, step: int) -> None:
        """A closure has returned to the step that called it: the step uses what it gave."""
        if self._is_followed:
            self.evaluations[site] += 1
        self.consume(site, step)
        self.use()

    def consume(self, site: int, step: int) -> None:
        """Gradients are about to be used, by a step or by a closure that one of its evaluations returns from."""
        stale: list[tuple[Slot, torch.Tensor]] = []
        empty = True
        for slot in self.slots:
            parameter = slot.parameter()
            gradient = None if parameter is None else parameter.grad
            if parameter is not None:
                slot.trainable = parameter.requires_grad
            if gradient is None:
                if slot.state:
                    self._clear(slot)
                continue
            empty = False
            slot.had_gradient = True
            if slot.state == STALE:
                if slot.kept() is None:
                    self._clear(slot)
                else:
                    stale.append((slot, gradient))
        if not self._is_followed:
            return
        if stale and any(gradient._version != slot.version for slot, gradient in stale):
            stale = self._settled(stale)
        if stale:
            self._count_stale(site, step)
        if self._has_leftover:
            self.leftover[site] += 1
            self._note_stale(step)
        self.summed += len(self._added_up) > 1
        if empty or self._wiped_in_place():
            (self.wiped if self._fed else self.hungry)[site] += 1
        self._note_clearing()

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
        self.added_stale.update(self._stale_sites)
        self._stale_sites.clear()

    def _note_stale(self, step: int) -> None:
        if self.first_stale is None:
            self.first_stale = step

    def use(self) -> None:
        """What gradients there are have been used; those that are gone have been cleared by the step itself."""
        for slot in self.slots:
            slot.use()
            self._cleared |= self._fed and slot.had_gradient and slot.state == CLEAN
        self._is_followed = True
        self._forget_round()

    def _forget_round(self) -> None:
        self._fed = self._has_leftover = False
        for sites in (self._fed_by, self._added_up, self._spent, self._stale_sites, self.feeders):
            sites.clear()

    def after_step(self) -> None:
        """The step has used what is there."""
        self.made += 1
        self.use()
        if self._values:
            moved = any(
                not torch.equal(parameter.detach().reshape(-1)[:64], before) for parameter, before in self._values
            )
            self.moved += moved
            self.still += not moved
            self._values = []

    # -- looking at values, where nothing else tells

    def _clear(self, slot: Slot) -> None:
        slot.state = CLEAN
        slot.gradient = None
        self._cleared = True

    def _settled(self, kept: list[tuple[Slot, torch.Tensor]]) -> list[tuple[Slot, torch.Tensor]]:
        """Those of `kept` that hold something: what is zero now has been cleared in place.

        Of many, samples are looked at; where they do not agree, the others count as cleared.
        """
        looked_at = [pair for pair in kept if pair[0].sampled] or kept[:4]
        zero = _are_zero([gradient for _, gradient in looked_at])
        cleared = [pair for pair, is_zero in zip(looked_at, zero, strict=True) if is_zero]
        for slot, _ in cleared:
            self._clear(slot)
        if not cleared:
            return kept
        if len(cleared) == len(looked_at):
            for slot, _ in kept:
                self._clear(slot)
            return []
        return [pair for pair in looked_at if pair[0].state]

    def _wiped_in_place(self) -> bool:
        """Whether nothing but zeros is left of what the last backward gave; only a changed gradient is looked at."""
        touched = []
        for slot, identity, version in self._given:
            parameter = slot.parameter()
            gradient = None if parameter is None else parameter.grad
            if gradient is None or (id(gradient) == identity and gradient._version == version):
                return False
            touched.append(gradient)
        if not touched or self._looks >= _LOOKS:
            return False
        self._looks += 1
        return all(_are_zero(touched))

    def _measured(self, kept: list[tuple[Slot, torch.Tensor]]) -> list[tuple[Slot, torch.Tensor]]:
        """Sampled gradients, as long as they are small enough to be copied; a sparse one changes its shape."""
        room = _NORM_LIMIT
        chosen = []
        for slot, gradient in kept:
            if slot.sampled and not gradient.is_sparse and gradient.numel() <= room:
                room -= gradient.numel()
                chosen.append((slot, gradient))
        return chosen

    def _measure_norm(self) -> None:
        gradients = [
            _dense(parameter.grad)
            for slot in self._samples
            if (parameter := slot.parameter()) is not None
            and parameter.grad is not None
            and parameter.grad.numel() <= _NORM_LIMIT // _SAMPLES
        ]
        if gradients:
            norms = torch._foreach_norm([gradient.detach() for gradient in gradients])
            self.norm = self.fresh = float(torch.stack([norm.float() for norm in norms]).norm())


def _size(slot: Slot) -> int:
    parameter = slot.parameter()
    return 0 if parameter is None else parameter.numel()


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """The values themselves: of a sparse tensor those that are there, of a sharded one those of this rank."""
    local = getattr(tensor, "_local_tensor", None)
    if local is not None:
        tensor = local
    return tensor._values() if tensor.is_sparse else tensor


def _are_zero(gradients: list[torch.Tensor]) -> list[bool]:
    """Which gradients hold nothing but zeros."""
    if all(_begins_with_a_number(gradient) for gradient in gradients):
        return [False] * len(gradients)
    flags = [_dense(gradient).detach().any() for gradient in gradients]
    if len({flag.device for flag in flags}) == 1 and flags[0].device.type != "cpu":
        return [not flag for flag in torch.stack(flags).tolist()]  # one wait for the device, not one each
    return [not bool(flag) for flag in flags]


def _begins_with_a_number(gradient: torch.Tensor) -> bool:
    """Whether the first element in memory is something else than zero: quicker than any operator, and often enough."""
    if type(gradient) is not torch.Tensor or gradient.layout is not torch.strided or not gradient.is_cpu:
        return False
    if not gradient.numel():
        return False
    return bool(ctypes.string_at(gradient.data_ptr(), gradient.element_size()).strip(_ZEROS))


_ZEROS = b"\x00\x80"
"""What zeros of either sign consist of."""

"""cleared-before-step: which gradients does a flagged line clear, and does the next step miss them?

Gradients of some parameters are no evidence about the others, and only the start of an update shows whether the step
misses one. Gradients that are cleared after the step has used them do not count.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING

from torchlint_probe.claim import Claim
from torchlint_probe.discards import Discards
from torchlint_probe.slots import Slot
from torchlint_probe.values import are_zero

if TYPE_CHECKING:
    import torch

    from torchlint_probe.ledger import Ledger
    from torchlint_probe.ledgers import Ledgers

_CLEARINGS = 60
"""The line is observed until it has cleared gradients so often,"""
_VISITS = 600
"""or has run so often."""


class _Seen:
    """One gradient before the line runs."""

    __slots__ = ("gradient", "slot", "unused", "version")

    def __init__(self, slot: Slot, gradient: torch.Tensor) -> None:
        self.slot = slot
        self.gradient = weakref.ref(gradient)
        self.version = gradient._version
        self.unused = slot.unused() is not None

    def is_cleared(self) -> bool:
        """Whether each gradient is gone or all zeros. If many were changed, only samples are read."""
        now = self.slot.current()
        if now is None:
            return True
        is_same = self.gradient() is now
        if is_same and (now._version == self.version or not self.slot.sampled):
            return False
        return are_zero([now])[0]


class Clearing:
    """The observations about one finding."""

    def __init__(self, claim: Claim, ledgers: Ledgers) -> None:
        self.claim = claim
        self.visits = 0
        """Visits of the line by a thread whose gradients could be read."""
        self._left = _VISITS
        self.clearings: Counter[Ledger] = Counter()
        """How often it has cleared gradients, used or not, and of which optimizers."""
        self.robbed = 0
        """Steps and evaluations that missed gradients cleared by the line."""
        self.parameters = 0
        """The maximum number of parameters whose gradients such a step missed."""
        self.first: int | None = None
        self.discards: list[int] = []
        """For each step, the number of useless backwards: the line cleared their gradients unused."""
        self._discards: dict[Ledger, Discards] = {}
        self._is_done = False
        self._all = ledgers
        self._before: dict[FrameType, dict[Ledger, list[_Seen]]] = {}
        self._taken: dict[Ledger, list[Slot]] = {}
        self._victims: set[Slot] = set()

    @property
    def starved(self) -> int:
        """Parameters whose gradients the line has cleared, and that had none at any step."""
        return sum(not slot.had_gradient for slot in self._victims)

    def enter(self, frame: FrameType) -> bool:
        """The line is about to run."""
        self._left -= 1
        with self._all.reading() as ledgers:
            self.visits += bool(ledgers)
            self._before[frame] = {
                ledger: [_Seen(slot, gradient) for slot in ledger.slots if (gradient := slot.current()) is not None]
                for ledger in ledgers
            }
        return True

    def leave(self, frame: FrameType, error: BaseException | None) -> bool:
        """The line has run."""
        before = self._before.pop(frame, {})
        with self._all.reading() as ledgers:
            for ledger in ledgers:
                cleared = [item for item in before.get(ledger, ()) if item.is_cleared()]
                if cleared:
                    self.clearings[ledger] += 1
                    self._take(ledger, [item.slot for item in cleared if item.unused])
        self._is_done = sum(self.clearings.values()) >= _CLEARINGS or self._left <= 0
        return not self._is_done

    def _take(self, ledger: Ledger, slots: Sequence[Slot]) -> None:
        if slots and ledger.is_followed and ledger.round.is_fed:
            self._taken.setdefault(ledger, []).extend(slots)
            self._victims.update(slots)
            self._discards.setdefault(ledger, Discards()).throw(ledger)

    def forget(self, ledger: Ledger) -> None:
        """Another backward is about to run."""
        self._taken.pop(ledger, None)

    def end(self, ledger: Ledger) -> None:
        """The step has ended: it has used the gradients that were cleared since it began."""
        self._taken.pop(ledger, None)
        self._discards.pop(ledger, None)

    def feed(self, ledger: Ledger) -> None:
        """A backward has computed gradients."""
        if not self._is_done:
            self._discards.setdefault(ledger, Discards()).feed(ledger)

    def use(self, ledger: Ledger, step: int) -> None:
        """An update is about to begin: does it miss gradients?"""
        discards = self._discards.pop(ledger, None)
        if ledger.is_followed and ledger in self.clearings and not self._is_done:
            self.discards.append(0 if discards is None else discards.use(ledger))
        missed = [slot for slot in self._taken.pop(ledger, ()) if _is_missed(slot)]
        if missed and ledger.is_followed:
            self.robbed += 1
            self.parameters = max(self.parameters, len(missed))
            self.first = step if self.first is None else self.first


def _is_missed(slot: Slot) -> bool:
    gradient = slot.current()
    return gradient is None or are_zero([gradient])[0]

"""Which steps are looked at: all of the first ones, then short runs of steps, at random and ever greater distances."""

from __future__ import annotations

import random

FIRST = 40
"""The first so many steps are all looked at: as many as the default budget has."""
_RUN = 8
_GAP = 60
_GROWTH = 1.5
_WIDEST = 3_000


class Sampling:
    """Random distances, or a defect with a period could always fall between. Its generator is its own."""

    def __init__(self) -> None:
        self._random = random.Random(0)
        self._start, self._end = 0, FIRST
        self._gap: float = _GAP

    def covers(self, step: int) -> bool:
        """Whether a step is looked at. Steps are asked for in their order."""
        if step >= self._end:
            self._start = step + self._random.randrange(int(self._gap) // 2, int(self._gap) * 3 // 2)
            self._end = self._start + _RUN
            self._gap = min(self._gap * _GROWTH, _WIDEST)
        return step >= self._start

    def extend(self, step: int) -> None:
        """Look at the steps that follow: too little has been seen of something."""
        if step < self._start:
            self._start = self._end = step
        self._end = max(self._end, step + _RUN)

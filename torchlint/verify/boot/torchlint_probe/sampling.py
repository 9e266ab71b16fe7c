"""The selection of observed steps: all of the first ones, then short runs at random, growing distances."""

from __future__ import annotations

import random

FIRST = 40
"""The number of first steps that are all observed, equal to the default budget."""
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
        """Whether a step is observed. Calls must be in the order of steps."""
        if step >= self._end:
            self._start = step + self._random.randrange(int(self._gap) // 2, int(self._gap) * 3 // 2)
            self._end = self._start + _RUN
            self._gap = min(self._gap * _GROWTH, _WIDEST)
        return step >= self._start

    def extend(self, step: int) -> None:
        """Observe the following steps, because there is too little evidence about something."""
        if step < self._start:
            self._start = self._end = step
        self._end = max(self._end, step + _RUN)

"""Do graphs pile up? From the lives of graphs, in visits of the line that keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile

from torchlint.verify.evidence import Kept

_RISE = 5
"""A pile grows by so many graphs, or"""
_SLOPE = 0.5
"""keeps at least this share of the graphs that are made."""
_SETTLED = 2
"""A number that stays level this many times longer than it rose is bounded, so it is not a pile."""
_FALL = 0.4
"""A pass has ended if no more than this share of the pile is left."""
_PEAK = 3
_AGAIN = 2
_LONG = 8
"""A graph that so many backwards have not used will not be used any more."""

Life = Sequence[int]
"""Visit of birth, last backward, visit of death; -1 for none."""


class Pattern(Enum):
    """The number of older graphs from visit to visit."""

    NONE = "none"
    BOUNDED = "bounded"
    PILE = "pile"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Pile:
    """A pattern, and the largest number of older graphs at the same time.

    `pending` may still go backward. `falls` is how often all piled-up graphs were released.
    """

    pattern: Pattern
    peak: int = 0
    start: int = 0
    pending: int = 0
    falls: int = 0

    @property
    def returns(self) -> bool:
        """Whether its height is the length of a pass, again and again."""
        return self.falls >= _AGAIN


def pile(kept: Kept, lives: Sequence[Life], ended: bool) -> Pile:
    """The pattern of these lives; `ended` means that no backward will follow."""
    pending = _pending(kept, [] if ended else lives)
    counted = [life for life in lives if life not in pending]
    heights = _heights(kept, counted)
    peak, waiting = max(heights), sum(life[0] + 2 <= kept.visits for life in pending)
    rise = _highest_rise(heights, {life[0] for life in counted})
    falls = _falls(heights)
    if rise.is_pile:
        return Pile(Pattern.PILE, peak, rise.start, waiting, falls)
    if _never_ends(kept, counted):
        return Pile(Pattern.PILE, len(counted), 0, waiting)
    if falls >= _AGAIN:
        return Pile(Pattern.PILE, peak, 0, waiting, falls)
    if not peak:
        return Pile(Pattern.NONE, pending=waiting)
    return Pile(Pattern.BOUNDED if rise.is_settled else Pattern.UNCLEAR, peak, rise.start, waiting)


def _pending(kept: Kept, lives: Sequence[Life]) -> list[Life]:
    """The graphs that are alive and may still go backward; none if others were released that never did."""
    waiting = [life for life in lives if life[1] < 0 and life[2] < 0]
    if _uses_late(kept, lives):
        return waiting
    if sum(life[1] < 0 <= life[2] for life in lives) >= _RISE:
        return []
    return [life for life in waiting if kept.backwards[-1] - kept.backwards[max(0, life[0] - 1)] < _LONG]


def _uses_late(kept: Kept, lives: Sequence[Life]) -> bool:
    """Whether graphs are kept for a later backward: one was used after two visits or more."""
    return any(used >= 0 and kept.backwards[min(born + 1, kept.visits - 1)] <= used for born, used, *_ in lives)


def _heights(kept: Kept, lives: Sequence[Life]) -> list[int]:
    """At each visit, the number of earlier visits with a live graph that no backward will use.

    A variable keeps its graph until it is bound again, so the previous visit does not count. A graph only counts
    after another backward has followed the one that used it.
    """
    older: list[set[int]] = [set() for _ in range(kept.visits + 1)]
    for born, used, died, *_ in lives:
        last = died if died >= 0 else kept.visits
        for visit in range(born + 2, min(last, kept.visits) + 1):
            if used < 0 or kept.backwards[visit - 1] >= used + 2:
                older[visit].add(born)
    return [len(births) for births in older]


@dataclass(frozen=True)
class _Rise:
    """A stretch in which the number of graphs does not fall, and the number of level visits after it."""

    start: int = 0
    visits: int = 0
    births: int = 0
    rise: int = 0
    level: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether it is bounded: level for much longer than it rose."""
        return self.level > _SETTLED * self.visits + _RISE

    @property
    def is_pile(self) -> bool:
        """Whether it is high, of at least every other graph that was made, and not bounded."""
        return self.rise >= _RISE and not self.is_settled and self.rise >= _SLOPE * self.births


def _highest_rise(heights: Sequence[int], births: set[int]) -> _Rise:
    best = _Rise()
    start = 0
    for index in range(1, len(heights)):
        if heights[index] < heights[index - 1] or heights[index] == heights[start]:
            start = index
        rise = heights[index] - heights[start]
        if rise > best.rise:
            made = sum(start <= birth + 2 <= index for birth in births)
            best = _Rise(start, index - start, made, rise, _level(heights[index:]))
    return best


def _level(heights: Sequence[int]) -> int:
    """The number of visits at which the height stays equal within one, and above zero."""
    return sum(1 for _ in takewhile(lambda height: height and abs(height - heights[0]) <= 1, heights)) - 1


def _never_ends(kept: Kept, lives: Sequence[Life]) -> bool:
    """Whether few visits all keep their graphs permanently, with many backwards in between."""
    born = {life: kept.backwards[max(0, life[0] - 1)] for life in map(tuple, lives)}
    for_good = {
        moment for life, moment in born.items() if life[2] < 0 and kept.backwards[-1] - max(life[1], moment) >= _LONG
    }
    spread = max(for_good, default=0) - min(for_good, default=0)
    return len(for_good) >= _PEAK and spread >= _LONG and all(life[2] < 0 for life in lives)


def _falls(heights: Sequence[int]) -> int:
    """How often it rises with each visit and then falls to zero; 0 if it does not always rise like this."""
    peaks: list[bool] = []
    top = start = 0
    for index, height in enumerate(heights):
        if top >= _PEAK and height <= _FALL * top:
            peaks.append(top >= _SLOPE * (index - start))
            top, start = height, index
        top = max(top, height)
    return len(peaks) if all(peaks) else 0

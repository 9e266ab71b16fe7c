"""Rules about autograd graphs that live longer than they should."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence, Kept
from torchlint.verify.verdict import Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH_VISITS = 8
_RISE = 5
"""A pile is one that rises by so many iterations' graphs."""
_SLOPE = 0.5
"""Of the graphs that are made, a pile keeps at least this share."""
_SETTLED = 2
"""What then stays level for so many times as long as it rose is bounded, and no pile."""
_RETAINED = 3
_GROWING = 0.8


def undetached_accumulation(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by graphs of earlier iterations that pile up, refuted by graphs and container that do not."""
    kept = next((item for item in evidence.keeps if item.claim == claim.index), None)
    if kept is None or not kept.visits:
        return not_reached()
    heights = _heights(kept)
    pile = _highest_rise(heights, {born for born, _, _ in kept.lives})
    numbers: dict[str, float] = {"visits": kept.visits, "graphs_kept": max(heights)}
    if kept.bound > pile.rise >= _RISE:
        filled = f"has not been filled in {times(kept.visits, 'visit')}"
        return inconclusive(f"the deque of {times(kept.bound, 'item')} {filled}", numbers)
    if pile.is_one:
        return _piled_up(kept, pile, evidence, numbers)
    if not pile.is_low and not pile.is_settled:
        return inconclusive(f"{times(pile.rise, 'older graph')} were alive at once: neither a pile nor none", numbers)
    if kept.visits < _ENOUGH_VISITS:
        return inconclusive(f"only {times(kept.visits, 'visit')} of the line", numbers)
    if not kept.tensors and not kept.items:
        return inconclusive("what the line keeps could not be followed by its name", numbers)
    held = f"the {kept.container} holds no pile of them" if kept.container else "no container of them was seen"
    return refuted(
        f"graphs do not outlive their iteration: in {times(kept.visits, 'visit')} there were never more than "
        f"{max(heights):,} older ones, and {held}",
        numbers,
    )


def _piled_up(kept: Kept, pile: _Rise, evidence: Evidence, numbers: dict[str, float]) -> Verdict:
    reason = f"graphs of {times(pile.rise, 'earlier iteration')} are alive at once, in {times(kept.visits, 'visit')}"
    memory = _growth(evidence)
    if memory is not None:
        numbers = {**numbers, "bytes_per_step": memory}
        reason += f"; memory grows by {memory:,.0f} bytes a step"
    return confirmed(reason, numbers, pile.start)


def _heights(kept: Kept) -> list[int]:
    """At each visit, of how many earlier ones a graph is alive that no backward is still to use.

    A variable keeps its graph until it is bound again, so the visit before does not count, nor does a graph before
    another backward has followed the one that used it.
    """
    older: list[set[int]] = [set() for _ in range(kept.visits + 1)]
    for born, used, died in kept.lives:
        last = died if died >= 0 else kept.visits
        for visit in range(born + 2, min(last, kept.visits) + 1):
            if used < 0 or kept.backwards[visit - 1] >= used + 2:
                older[visit].add(born)
    return [len(births) for births in older]


@dataclass(frozen=True)
class _Rise:
    """A stretch in which the number of graphs does not fall, and for how many visits it then stays level."""

    start: int = 0
    visits: int = 0
    births: int = 0
    rise: int = 0
    level: int = 0

    @property
    def is_low(self) -> bool:
        return self.rise < _RISE

    @property
    def is_settled(self) -> bool:
        """Whether it is bounded: level for much longer than it rose."""
        return self.level > _SETTLED * self.visits + _RISE

    @property
    def is_one(self) -> bool:
        """Whether it is a pile: high, of at least every other graph that was made, and not bounded."""
        return not self.is_low and not self.is_settled and self.rise >= _SLOPE * self.births


def _highest_rise(heights: Sequence[int], births: set[int]) -> _Rise:
    best = _Rise()
    start = 0
    for index in range(1, len(heights)):
        if heights[index] < heights[index - 1]:
            start = index
        rise = heights[index] - heights[start]
        if rise > best.rise:
            made = sum(start <= birth + 2 <= index for birth in births)
            best = _Rise(start, index - start, made, rise, _level(heights[index:]))
    return best


def _level(heights: Sequence[int]) -> int:
    """For how many visits the height stays what it is, give or take one."""
    return sum(1 for _ in takewhile(lambda height: abs(height - heights[0]) <= 1, heights)) - 1


def _growth(evidence: Evidence) -> float | None:
    """Bytes that memory grew by at a step in the last two thirds of the run; None on a CPU, where it is noise."""
    points = [(record["step"], record["memory"]) for record in evidence.series if "memory" in record]
    points = points[len(points) // 3 :]
    if evidence.process.device == "cpu" or len(points) < 2 or points[-1][0] == points[0][0]:
        return None
    return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


def retain_graph_in_loop(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by retained graphs that no later backward meets, or that grow; refuted by those that one does."""
    seen = [item for item in evidence.retention if evidence.is_at(item.site, claim.file, claim.lines[:1])]
    calls = sum(item.calls for item in seen)
    if not seen:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but no graph was retained there")
        return not_reached()
    judged, reused = sum(item.judged for item in seen), sum(item.reused for item in seen)
    sizes = max((item.sizes for item in seen), key=len)
    numbers: dict[str, float] = {"retained": calls, "looked_at": judged, "reused": reused}
    if _is_growing(sizes):
        numbers |= {"first_nodes": sizes[0], "last_nodes": sizes[-1]}
        return confirmed(
            f"the graph grows from {sizes[0]:,} to {times(sizes[-1], 'node')} in {times(len(sizes), 'backward')}: "
            "earlier iterations are never cut off",
            numbers,
            0,
        )
    if judged >= _RETAINED and reused == 0:
        return confirmed(f"no later backward met any of {times(judged, 'retained graph')}", numbers, 0)
    if judged >= _RETAINED and reused * 2 >= judged:
        return refuted(
            f"a later backward met {reused:,} of {times(judged, 'retained graph')}, and they do not grow",
            numbers,
        )
    return inconclusive(f"{reused:,} of {times(judged, 'retained graph')} were used again", numbers)


def _is_growing(sizes: Sequence[int]) -> bool:
    pairs = list(pairwise(sizes))
    rises = sum(later > earlier for earlier, later in pairs)
    return len(sizes) > _RETAINED and rises >= _GROWING * len(pairs) and sizes[-1] >= 1.5 * sizes[0]

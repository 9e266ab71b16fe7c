"""retain-graph-in-loop: does a backward use the retained graph again?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence
from torchlint.verify.verdict import MORE_STEPS, READ, Verdict, confirmed, inconclusive, not_reached, refuted, times

_RETAINED = 3
_GROWING = 0.8


def retain_graph_in_loop(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by retained graphs that no later backward uses, or that grow; refuted by used ones."""
    seen = [item for item in evidence.retention if evidence.is_at(item.site, claim.file, claim.lines[:1])]
    calls = sum(item.calls for item in seen)
    if not seen:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but retained no graph", advice=READ)
        return not_reached()
    judged, reused = sum(item.judged for item in seen), sum(item.reused for item in seen)
    sizes = max((item.sizes for item in seen), key=len)
    numbers: dict[str, float] = {"retained": calls, "judged": judged, "reused": reused}
    if _is_growing(sizes):
        numbers |= {"first_nodes": sizes[0], "last_nodes": sizes[-1]}
        return confirmed(
            f"the graph grows from {sizes[0]:,} to {times(sizes[-1], 'node')} in {times(len(sizes), 'backward')}: "
            "it includes all earlier iterations",
            numbers,
            0,
        )
    if judged >= _RETAINED and reused == 0:
        return confirmed(f"no later backward used any of {times(judged, 'retained graph')}", numbers, 0)
    if judged >= _RETAINED and reused * 2 >= judged:
        return refuted(
            f"a later backward used {reused:,} of {times(judged, 'retained graph')}, and they do not grow",
            numbers,
        )
    reason = f"{reused:,} of {times(judged, 'retained graph')} were used again"
    return inconclusive(reason, numbers, READ if judged >= _RETAINED else MORE_STEPS, doubtful=reused < judged)


def _is_growing(sizes: Sequence[int]) -> bool:
    pairs = list(pairwise(sizes))
    rises = sum(later > earlier for earlier, later in pairs)
    return len(sizes) > _RETAINED and rises >= _GROWING * len(pairs) and sizes[-1] >= 1.5 * sizes[0]

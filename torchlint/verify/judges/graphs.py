"""undetached-accumulation: graphs that live too long, and their holders."""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence, Kept
from torchlint.verify.judges.piles import Life, Pattern, Pile, pile
from torchlint.verify.verdict import (
    READ,
    Verdict,
    confirmed,
    inconclusive,
    not_reached,
    refuted,
    size,
    strongest,
    times,
)

_ENOUGH = 8
"""The minimum number of visits that refutes a finding."""
_HUGE = 1_000
"""A deque with so many items or more does not bound memory in practice."""
_FEW_BYTES = 1_024
NO_GRAD = "if nothing is trained here, use torch.no_grad()"
_LOOKED_AT = 0.8


def undetached_accumulation(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by graphs of earlier iterations in the container, refuted if neither it nor nearby code keeps any."""
    kept = [item for item in evidence.keeps if item.claim == claim.index and item.visits]
    if not kept:
        return not_reached()
    return strongest([_of_one_thread(item, evidence, is_short=claim.is_short) for item in kept])


def _of_one_thread(kept: Kept, evidence: Evidence, *, is_short: bool) -> Verdict:
    ended = evidence.has_ended
    is_own = kept.holder.startswith("=")
    held = pile(kept, [_held(life) for life in kept.lives if life[3] or is_own], ended)
    numbers: dict[str, float] = {"visits": kept.visits, "graphs_kept": held.peak}
    if held.pattern is Pattern.PILE:
        if kept.emptied and held.falls:
            return _emptied(kept, held, numbers)
        if is_short and len(set(kept.backwards)) <= held.falls + 1:
            reason = (
                f"at most {times(held.peak, 'graph')} of one pass existed at the same time, and no backward used them"
            )
            return inconclusive(f"{reason}: a prediction?", numbers, NO_GRAD)
        if _HUGE > kept.bound > held.peak:
            reason = (
                f"the deque of {times(kept.bound, 'item')} was not full after {times(kept.visits, 'run')} of the line"
            )
            return inconclusive(reason, numbers, doubtful=True)
        return _piled_up(kept, held, evidence, numbers)
    if held.pattern is Pattern.UNCLEAR and not _is_full(kept, held):
        reason = f"at most {times(held.peak, 'older graph')} existed at the same time: too few to decide"
        return inconclusive(reason, numbers, doubtful=True)
    if held.pending:
        reason = f"{times(held.pending, 'older graph')} are kept, and a later backward may use them"
        return inconclusive(reason, numbers, doubtful=True)
    others = [life for life in kept.lives if not life[3] or life[4] >= 0]
    return _not_held(kept, held, pile(kept, others, ended), numbers)


def _held(life: Life) -> Life:
    """The lives of graphs in the container: graphs that it has released do not count."""
    born, used, died, seen, left = life
    return born, used, (died if left < 0 else left if died < 0 else min(left, died)), seen, left


def _emptied(kept: Kept, held: Pile, numbers: dict[str, float]) -> Verdict:
    """A window: the loop that fills the container also empties it, so its size does not depend on the data."""
    reason = f"the loop empties `{kept.shown}` itself: at most {times(held.peak, 'older graph')}"
    if not held.returns:
        return inconclusive(f"{reason}, but that happened only once", numbers, doubtful=True)
    return refuted(
        f"{reason}, released {times(held.falls, 'time')} in {times(kept.visits, 'run')} of the line", numbers
    )


def _is_full(kept: Kept, held: Pile) -> bool:
    """Whether the kept graphs are items of a deque that has long been full."""
    return 0 <= kept.bound < _HUGE and held.peak <= kept.bound and kept.visits >= 2 * kept.bound + _ENOUGH


def _piled_up(kept: Kept, held: Pile, evidence: Evidence, numbers: dict[str, float]) -> Verdict:
    name = kept.holder.removeprefix("=") or (_shown(kept) if kept.shown else "")
    holder = f"`{name}`" if name else f"a {kept.container}"
    each = ", released only all together" if held.returns else ""
    runs = f"{times(kept.visits, 'run')} of the line"
    reason = f"{holder} keeps the graphs of {times(held.peak, 'earlier iteration')}{each}, in {runs}"
    memory = _growth(evidence)
    if memory is None:
        memory = _weight(kept.weights)
    if memory is not None:
        numbers = {**numbers, "bytes_per_step": memory}
        if memory >= _FEW_BYTES:
            reason = f"memory grows by about {size(memory)} a step: {reason}"
    return confirmed(reason, numbers, kept.steps[min(held.start, kept.visits - 1)])


def _shown(kept: Kept) -> str:
    """The container as it is written, marked as its items."""
    return f"{kept.shown}[...]" if kept.container in ("list", "dict", "deque", "tuple", "set") else kept.shown


def _weight(weights: list[int]) -> float | None:
    """The bytes that a visit adds: those of one graph, or the growth of a graph that continues from visit to visit."""
    if not weights:
        return None
    first, last = weights[0], weights[-1]
    return (last - first) / 8 if last > 1.3 * first else last


def _growth(evidence: Evidence) -> float | None:
    """Memory growth per step in bytes, in the last two thirds of the run; None on a CPU, where it is noise."""
    points = [(record["step"], record["memory"]) for record in evidence.series if "memory" in record]
    points = points[len(points) // 3 :]
    if evidence.process.device == "cpu" or len(points) < 2 or points[-1][0] == points[0][0]:
        return None
    return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


def _not_held(kept: Kept, held: Pile, others: Pile, numbers: dict[str, float]) -> Verdict:
    """The container holds no pile. Are there graphs with an unknown holder?"""
    is_clean = not kept.graphs and kept.clean >= _LOOKED_AT * (kept.visits - 2) and kept.clean >= 2
    elsewhere = f"; `{kept.holder}` holds the {times(others.peak, 'older graph')}" if kept.holder else ""
    if others.pattern in (Pattern.PILE, Pattern.UNCLEAR) and not (is_clean and kept.holder):
        reason = (
            f"graphs of {times(others.peak, 'earlier iteration')} are alive, but it is unknown what this line keeps"
        )
        return inconclusive(f"{reason}{elsewhere}", numbers, READ, doubtful=True)
    if kept.visits < _ENOUGH:
        return inconclusive(f"the line ran only {times(kept.visits, 'time')}", numbers)
    if is_clean:
        reason = f"in {times(kept.clean, 'run')} of the line, the stored {kept.container} held no graph{elsewhere}"
        return refuted(reason, numbers)
    if not kept.tensors and not kept.clean and not kept.graphs:
        return inconclusive("the value that the line keeps could not be followed by its name", numbers, READ)
    limit = f"there were never more than {held.peak:,} older ones" if held.peak else "there were no older ones"
    reason = f"graphs do not outlive their iteration: in {times(kept.visits, 'run')} of the line, {limit}"
    return refuted(f"{reason}, and {_what_is_held(kept)}", numbers)


def _what_is_held(kept: Kept) -> str:
    return f"the {kept.container} holds no pile of them" if kept.container else "no container of them was observed"

"""Rules about switches and calls that cost time."""

from __future__ import annotations

from statistics import median

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence
from torchlint.verify.verdict import CUDA, Verdict, confirmed, inconclusive, not_reached, refuted, times

_RARE = 0.2
"""The maximum number of calls per step that are not a habit."""
_COST = 0.01
"""The minimum share of a step's time for a call to count."""
_ENOUGH_STEPS = 10
_ON = 8
_FEW = 2


def empty_cache_in_loop(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed on a GPU by calls in steps that release memory or cost time; a CPU cannot tell the cost."""
    seen = [item for item in evidence.caches if evidence.is_at(item.site, claim.file, claim.lines[:1])]
    calls = sum(item.calls for item in seen)
    if not calls:
        return inconclusive("the line ran without a call") if claim.index in evidence.reached else not_reached()
    steps = evidence.steps
    numbers: dict[str, float] = {"calls": calls, "steps": steps}
    if steps >= _ENOUGH_STEPS and calls <= _RARE * steps:
        return refuted(f"{times(calls, 'call')} in {times(steps, 'step')}: not in every iteration", numbers)
    if evidence.process.device == "cpu":
        return inconclusive(
            f"{times(calls, 'call')} in {times(steps, 'step')}; only a GPU shows their cost", numbers, CUDA
        )
    spent = sum(item.seconds for item in seen) * 1000
    released = sum(item.released for item in seen)
    total = sum(record["ms"] for record in evidence.series) * evidence.stride
    share = spent / total if total else 0.0
    numbers |= {"released_bytes": released, "milliseconds": spent, "share_of_time": share}
    if steps >= _ENOUGH_STEPS and (released > 0 or share > _COST):
        return confirmed(
            f"{times(calls, 'call')} in {times(steps, 'step')}: {released:,} bytes released, {share:.1%} of the time",
            numbers,
            0,
        )
    reason = f"{times(calls, 'call')} took {share:.1%} of the time but released nothing"
    return inconclusive(reason, numbers, "run it with a model and batches as large as in training")


def anomaly_detection_left_on(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps that ran with it; refuted by steps without it although the line ran."""
    anomaly = evidence.anomaly
    on = sum(steps for site, steps in anomaly.on_sites if evidence.is_at(site, claim.file, claim.lines[:1]))
    if not on and claim.index in evidence.reached:  # an option of a library that switches it on elsewhere
        on = sum(steps for site, steps in anomaly.on_sites if site in anomaly.library_sites)
    numbers: dict[str, float] = {"steps_on": on, "steps_off": anomaly.steps_off}
    if on >= _ON:
        reason = f"on in {times(on, 'step')}"
        with_it, without = anomaly.on_ms[-5:], anomaly.off_ms[-5:]
        if len(with_it) >= 3 and len(without) >= 3 and median(without) > 0:
            numbers |= {"ms_on": median(with_it), "ms_off": median(without)}
            reason += f"; a step takes {median(with_it):.3g} ms with it, {median(without):.3g} ms without"
        return confirmed(reason, numbers, 0)
    if claim.index not in evidence.reached and not on:
        return not_reached()
    if on <= _FEW and anomaly.steps_off >= _ON:
        return refuted(f"on in {on:,} and off in {times(anomaly.steps_off, 'step')}", numbers)
    return inconclusive(f"on in {on:,}, off in {times(anomaly.steps_off, 'step')}: too few", numbers)

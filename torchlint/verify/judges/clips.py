"""Rules about clipping: does the step use what the clipping has left?"""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence, Observed
from torchlint.verify.verdict import MORE_STEPS, READ, Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3
_SEEN = 2


def clip_outside_step(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps on gradients beyond the bound, which a backward gave after the clipping."""
    seen = evidence.of_claim(claim.index)
    undecided = _undecided(claim, evidence, seen)
    if undecided is not None:
        return undecided
    if seen["fresh"] >= _SEEN:
        return confirmed(
            f"{times(seen['fresh'], 'step')} of {seen['steps']:,.0f} looked at used gradients that came after the "
            f"clipping, and were beyond its bound: a norm of {seen['used']:.3g} instead of {seen['limit']:.3g}",
            _numbers(seen),
            int(seen["first"]),
        )
    return _kept(seen)


def clip_before_unscale(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps that use a small part of what the clipping has left: the rest was the loss scale."""
    seen = evidence.of_claim(claim.index)
    undecided = _undecided(claim, evidence, seen)
    if undecided is not None:
        return undecided
    if seen["shrunk"] >= _SEEN:
        return confirmed(
            f"what was clipped to a norm of {seen['limit']:.3g} was divided by about "
            f"{seen['limit'] / seen['used']:,.0f} before the step used it ({times(seen['shrunk'], 'step')} of "
            f"{seen['steps']:,.0f} looked at)",
            _numbers(seen),
            int(seen["first"]),
        )
    return _kept(seen)


def _numbers(seen: Observed) -> dict[str, float]:
    return seen.numbers("calls", "steps", "fresh", "kept", "shrunk", "smaller", "limit", "used")


def _undecided(claim: Claim, evidence: Evidence, seen: Observed) -> Verdict | None:
    """What can be said without looking at the steps."""
    if not seen["calls"]:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but called nothing of PyTorch that clips", advice=READ)
        return not_reached()
    if seen["unbounded"] == seen["calls"]:
        return inconclusive("its bound is infinite: it measures the norm, and clips nothing", _numbers(seen), READ)
    if seen["closures"]:
        return inconclusive("a closure computes the gradients of the step: they were not seen", _numbers(seen), READ)
    return None


def _kept(seen: Observed) -> Verdict:
    """Refuted if steps use what was clipped as it is, and nothing speaks against it."""
    numbers, against = _numbers(seen), seen["fresh"] + seen["shrunk"] + seen["smaller"]
    if seen["kept"] >= _ENOUGH and not against:
        return refuted(
            f"the clipping made gradients smaller, and {times(seen['kept'], 'step')} of {seen['steps']:,.0f} looked at "
            "used them as it left them",
            numbers,
        )
    if not seen["kept"] and not against:
        reason = f"in {times(seen['steps'], 'step')} looked at, no gradient was both beyond the bound and used"
        return inconclusive(reason, numbers, "let it run until gradients are larger than the bound")
    reason = f"steps used what it left {times(seen['kept'], 'time')}, and other gradients {times(against, 'time')}"
    return inconclusive(reason, numbers, MORE_STEPS if against < _SEEN else READ, doubtful=against > 0)

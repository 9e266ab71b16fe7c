"""Rules about clipping: does the step use the clipped gradients?"""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence, Observed
from torchlint.verify.verdict import MORE_STEPS, READ, Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3
_SEEN = 2
_WITHOUT_STEP = 2
"""The statements of a finding about micro-batches: the clipping and the backward. Others name a step, too."""


def clip_outside_step(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps on gradients beyond the bound that a backward added after the clipping.

    Also by several clippings for each step, if they made gradients smaller.
    """
    seen = evidence.of_claim(claim.index)
    undecided = _undecided(claim, evidence, seen)
    if undecided is not None:
        return undecided
    if seen["fresh"] >= _SEEN:
        return confirmed(
            f"{times(seen['fresh'], 'step')} of {seen['steps']:,.0f} used gradients from after the clipping, "
            f"and exceeded its bound: a norm of {seen['used']:.3g} instead of {seen['limit']:.3g}",
            _numbers(seen),
            int(seen["first"]),
        )
    is_often = seen["steps"] >= _SEEN and seen["kept"] and seen["calls"] >= 2 * seen["steps"]
    if is_often and len(claim.lines) == _WITHOUT_STEP:
        return confirmed(
            "several clippings for each step made the sum of the earlier micro-batches smaller again and again",
            _numbers(seen),
        )
    return _kept(seen)


def clip_before_unscale(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps that use a small part of the clipped gradients: the rest was the loss scale."""
    seen = evidence.of_claim(claim.index)
    undecided = _undecided(claim, evidence, seen)
    if undecided is not None:
        return undecided
    if seen["shrunk"] >= _SEEN:
        return confirmed(
            f"gradients clipped to a norm of {seen['limit']:.3g} were divided by about "
            f"{seen['limit'] / seen['used']:,.0f} before the step used them ({times(seen['shrunk'], 'step')} of "
            f"{seen['steps']:,.0f})",
            _numbers(seen),
            int(seen["first"]),
        )
    return _kept(seen)


def _numbers(seen: Observed) -> dict[str, float]:
    return seen.numbers("calls", "steps", "fresh", "kept", "shrunk", "smaller", "limit", "used")


def _undecided(claim: Claim, evidence: Evidence, seen: Observed) -> Verdict | None:
    """The verdict if the steps cannot decide."""
    if not seen["calls"]:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but called no clipping function of PyTorch", advice=READ)
        return not_reached()
    if seen["unbounded"] == seen["calls"]:
        return inconclusive("its bound is infinite: it measures the norm and clips nothing", _numbers(seen), READ)
    if seen["closures"]:
        return inconclusive("the gradients were not observed: a closure computes them", _numbers(seen), READ)
    return None


def _kept(seen: Observed) -> Verdict:
    """Refuted if steps use the clipped gradients unchanged, and there is no evidence against it."""
    numbers, against = _numbers(seen), seen["fresh"] + seen["shrunk"] + seen["smaller"]
    if seen["kept"] >= _ENOUGH and not against:
        return refuted(
            f"the clipping made gradients smaller, and {times(seen['kept'], 'step')} of {seen['steps']:,.0f} "
            "used them unchanged",
            numbers,
        )
    if not seen["kept"] and not against:
        reason = f"in {times(seen['steps'], 'step')}, no used gradient exceeded the bound"
        return inconclusive(reason, numbers, "let it run until gradients are larger than the bound")
    reason = f"steps used clipped gradients {times(seen['kept'], 'time')}, others {times(against, 'time')}"
    return inconclusive(reason, numbers, MORE_STEPS if against < _SEEN else READ, doubtful=against > 0)

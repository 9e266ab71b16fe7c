"""Rules about the inputs of loss functions."""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence
from torchlint.verify.verdict import MORE_STEPS, READ, Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3


def softmax_before_cross_entropy(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed if all inputs are distributions over the classes; refuted if none has values that allow it."""
    return _probabilities(claim, evidence, "every row of its input was in [0, 1] and added up to one")


def sigmoid_before_bce_with_logits(claim: Claim, evidence: Evidence) -> Verdict:
    """The same for values between 0 and 1."""
    return _probabilities(claim, evidence, "all values of its input were in [0, 1]")


def _probabilities(claim: Claim, evidence: Evidence, what: str) -> Verdict:
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("calls", "low", "high")
    if not seen["calls"]:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but no call of this loss was observed", numbers, READ)
        return not_reached()
    is_sum_of_interest = claim.rule == "softmax-before-cross-entropy"
    like = seen["probable"] + (0 if is_sum_of_interest else seen["odd"])
    if like == seen["calls"] >= _ENOUGH:
        return confirmed(f"in {times(like, 'call')} {what}: these are probabilities, not logits", numbers, 0)
    if seen["outside"] == seen["calls"] >= _ENOUGH:
        reason = f"its input was not a probability in any of {times(seen['calls'], 'call')}: values from "
        return refuted(f"{reason}{seen['low']:.3g} to {seen['high']:.3g}", numbers)
    reason = f"in {like:,.0f} of {times(seen['calls'], 'call')}, the input could be probabilities"
    few = seen["calls"] < _ENOUGH
    return inconclusive(reason, numbers, MORE_STEPS if few else READ, doubtful=like > 0 or seen["odd"] > 0)


def loss_without_activation(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by values that no activation returns; refuted if there are none, and rows are log-probabilities."""
    seen = evidence.of_claim(claim.index)
    if seen["binary"]:
        return _values(claim, evidence, seen["outside"], "values outside of [0, 1]", seen["odd"] + seen["probable"])
    return _values(claim, evidence, seen["above"], "values above 0, which no log-probability has", seen["logarithms"])


def kl_div_input(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by inputs above zero, or targets below it; refuted if there are none."""
    seen = evidence.of_claim(claim.index)
    wrong = max(seen["above"], seen["below"])
    what = (
        "an input above 0, which is not a log-probability"
        if seen["above"]
        else "a target below 0, which is not a probability"
    )
    return _values(claim, evidence, wrong, what, seen["logarithms"])


def _values(claim: Claim, evidence: Evidence, wrong: float, what: str, right: float) -> Verdict:
    """The verdict, by the numbers of wrong and correct calls; the others are undecided."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("calls", "low", "high")
    if not seen["calls"]:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but no call of this loss was observed", numbers, READ)
        return not_reached()
    if wrong == seen["calls"]:
        values = f"{seen['low']:.3g} to {seen['high']:.3g}"
        return confirmed(f"each of {times(wrong, 'call')} had {what}: inputs are from {values}", numbers, 0)
    if right == seen["calls"] >= _ENOUGH and not wrong:
        return refuted(f"none of {times(right, 'call')} had {what}", numbers)
    reason = f"of {times(seen['calls'], 'call')}, {wrong:,.0f} had {what}"
    return inconclusive(reason, numbers, MORE_STEPS if seen["calls"] < _ENOUGH else READ, doubtful=wrong > 0)

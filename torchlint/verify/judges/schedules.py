"""Rules about learning-rate schedules: do they move, and when?"""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence
from torchlint.verify.verdict import MORE_STEPS, READ, Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3
_TO_THE_END = "let the program run to its end: --max-steps 0"


def scheduler_never_stepped(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed if it does not move until the program ends; refuted as soon as it moves."""
    seen = evidence.of_claim(claim.index)
    numbers = {"steps": seen["steps"], "moves": seen["moves"]}
    if not seen["made"]:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but no schedule of PyTorch was observed", advice=READ)
        return not_reached()
    if seen["moves"]:
        moved = f"the schedule moved {times(seen['moves'], 'time')} in {times(seen['steps'], 'step')} of its optimizer"
        return refuted(moved, numbers)
    if seen["steps"] < _ENOUGH:
        return inconclusive(f"its optimizer made only {times(seen['steps'], 'step')}", numbers)
    if seen["gone"] == seen["made"]:
        reason = f"the schedule was freed, and never moved in {times(seen['steps'], 'step')} of its optimizer"
        return confirmed(reason, numbers, 0)
    if evidence.has_ended:
        steps = times(seen["steps"], "step")
        return confirmed(f"the program ended after {steps} of the optimizer, and the schedule never moved", numbers, 0)
    reason = f"it did not move in {times(seen['steps'], 'step')}, but may do so later"
    return inconclusive(reason, numbers, _TO_THE_END, doubtful=True)


def scheduler_before_optimizer(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by a schedule that the line moves before the first step; refuted by one that it moves after that."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("moves", "steps", "between", "behind")
    if not seen["moves"]:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but moved no schedule of PyTorch", numbers, READ)
        return not_reached()
    if seen["untrained"] and seen["steps"]:
        return confirmed(
            "the line moved the schedule before its optimizer had made a step, or had gradients for one: the first "
            "value of the schedule was never used",
            numbers,
            0,
        )
    if seen["unstepped"] and seen["between"] >= _ENOUGH and not seen["behind"]:
        reason = f"the line moved the schedule before the first step, and {times(seen['between'], 'time')} between a "
        return confirmed(f"{reason}backward and the step that uses it", numbers, 0)
    if seen["unstepped"] or seen["untrained"]:
        reason = "the schedule moved before the first step: a gradient scaler that skips steps looks the same"
        return inconclusive(reason, numbers, READ if seen["behind"] else MORE_STEPS, doubtful=True)
    steps, moves = times(seen["steps"], "step"), times(seen["moves"], "time")
    reason = (
        f"the optimizer had made a step when the line first moved the schedule; {steps} in all, and it moved {moves}"
    )
    return refuted(reason, numbers)

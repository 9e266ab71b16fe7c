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
        moved = (
            f"the schedule stepped {times(seen['moves'], 'time')} in {times(seen['steps'], 'step')} of its optimizer"
        )
        return refuted(moved, numbers)
    if seen["steps"] < _ENOUGH:
        return inconclusive(f"its optimizer took only {times(seen['steps'], 'step')}", numbers)
    if seen["gone"] == seen["made"]:
        reason = f"the schedule was freed, and never stepped in {times(seen['steps'], 'step')} of its optimizer"
        return confirmed(reason, numbers, 0)
    if evidence.has_ended:
        steps = times(seen["steps"], "step")
        return confirmed(
            f"the program ended after {steps} of the optimizer, and the schedule never stepped", numbers, 0
        )
    reason = f"it did not step in {times(seen['steps'], 'step')} of its optimizer, but may do so later"
    return inconclusive(reason, numbers, _TO_THE_END, doubtful=True)


def scheduler_before_optimizer(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by a schedule that the line moves before the first step; refuted by one that it moves after that."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("moves", "steps", "between", "behind")
    if not seen["moves"]:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but stepped no schedule of PyTorch", numbers, READ)
        return not_reached()
    if seen["untrained"] and seen["steps"]:
        return confirmed(
            "the line stepped the schedule before its optimizer had taken a step, or had gradients for one: the first "
            "value of the schedule was never used",
            numbers,
            0,
        )
    if seen["unstepped"] and seen["between"] >= _ENOUGH and not seen["behind"]:
        between = f"{times(seen['between'], 'time')} between a backward and the step that uses it"
        return confirmed(f"the line stepped the schedule before the optimizer's first step, and {between}", numbers, 0)
    if seen["unstepped"] or seen["untrained"]:
        reason = "the schedule stepped before its optimizer: a gradient scaler that skips steps looks the same"
        return inconclusive(reason, numbers, READ if seen["behind"] else MORE_STEPS, doubtful=True)
    steps, moves = times(seen["steps"], "step"), times(seen["moves"], "time")
    both = f"{steps} of the optimizer, and the schedule stepped {moves}"
    reason = f"the optimizer had taken a step when the line first stepped the schedule; in all {both}"
    return refuted(reason, numbers)

"""Rules about training and evaluation mode, and about graphs that evaluation builds."""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence
from torchlint.verify.verdict import (
    MORE_STEPS,
    READ,
    Verdict,
    confirmed,
    inconclusive,
    not_reached,
    refuted,
    size,
    times,
)

_ENOUGH = 3
_SEEN = 2


def training_in_eval_mode(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps that train in eval mode after others that did not; refuted by steps in training mode."""
    seen = evidence.of_claim(claim.index)
    numbers = {"steps_in_eval_mode": seen["eval"] + seen["harmless"], "steps_in_training_mode": seen["train"]}
    if not seen["switches"]:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but switched no module to eval mode", numbers, READ)
        return not_reached()
    if seen["late"] >= _SEEN:
        return confirmed(
            f"{times(seen['late'], 'step')} trained the module in eval mode, which changes its {seen.shown}, "
            "after earlier steps in training mode",
            numbers,
        )
    if seen["eval"]:
        steps = times(seen["eval"], "step")
        reason = (
            f"{steps} trained it in eval mode, but its optimizer made none before in training mode: it may be intended"
        )
        return inconclusive(reason, numbers, READ, doubtful=True)
    if seen["harmless"] >= _ENOUGH:
        steps = times(seen["harmless"], "step")
        return refuted(f"{steps} trained it in eval mode, but no layer of it depends on the mode", numbers)
    if seen["train"] >= _ENOUGH:
        reason = f"it was in training mode again in all {times(seen['train'], 'step')} that followed"
        return refuted(reason, numbers)
    return inconclusive("too few steps trained the module after the line ran", numbers)


def dropout_ignores_mode(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by random numbers that the line draws in eval mode; refuted if it draws none."""
    seen = evidence.of_claim(claim.index)
    numbers = {"visits_in_eval_mode": seen["eval"], "drew_random_numbers": seen["drew"]}
    if not seen["visits"]:
        return not_reached()
    if seen["drew"]:
        reason = (
            f"`{seen.shown}` was in eval mode in {times(seen['eval'], 'run')} of the line, and it drew random numbers "
        )
        return confirmed(f"{reason}in {seen['drew']:,.0f} of them", numbers)
    if seen["eval"] >= _ENOUGH:
        return refuted(f"in {times(seen['eval'], 'run')} in eval mode, the line drew no random numbers", numbers)
    if seen["training"] and not seen["eval"]:
        return inconclusive("the line only ran in training mode", numbers, "also run an evaluation")
    return inconclusive(f"the line ran in eval mode only {times(seen['eval'], 'time')}", numbers, MORE_STEPS)


def evaluation_with_grad(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by graphs that are freed without a backward; refuted if there are none, or they are used."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("calls", "with", "used", "unused", "bytes")
    if not seen["calls"]:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but called no module with parameters", numbers, READ)
        return not_reached()
    unused = seen["with"] - seen["used"] if evidence.has_ended else seen["unused"]
    if unused >= _ENOUGH and not seen["used"] and not seen["training"]:
        return confirmed(
            f"{times(seen['calls'], 'call')} in eval mode built {times(unused, 'graph')} that no backward used; one "
            f"graph keeps {size(seen['bytes'])}",
            numbers,
        )
    if seen["calls"] >= _ENOUGH and not seen["with"]:
        off = "gradients were off" if seen["off"] == seen["calls"] else "nothing in them requires gradients"
        return refuted(f"{times(seen['calls'], 'call')} built no graph: {off}", numbers)
    if seen["used"] >= _ENOUGH and not unused:
        return refuted(f"a backward used the graphs of {times(seen['used'], 'call')}, and none was dropped", numbers)
    if unused:
        why = "others were used" if seen["used"] else "some calls were in training mode" if seen["training"] else "few"
        return inconclusive(f"no backward used {times(unused, 'graph')}, but {why}", numbers, READ, doubtful=True)
    return inconclusive(f"no graph of {times(seen['calls'], 'call')} was dropped so far", numbers)

"""Rules about parts of models: created again in each pass, or with useless gradients."""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence
from torchlint.verify.verdict import (
    CUDA,
    MORE_STEPS,
    READ,
    Verdict,
    confirmed,
    inconclusive,
    not_reached,
    refuted,
    times,
)

_ENOUGH = 3
_GONE = 2


def module_created_in_forward(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by parts that are created and freed again and again; refuted by parts that stay."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("made", "gone", "alive", "owned", "since")
    if not seen["visits"] and claim.index not in evidence.reached:
        return not_reached()
    if not seen["made"]:
        return inconclusive("the line ran, but created no part in a forward pass", numbers, READ)
    if seen["gone"] >= _GONE and not seen["owned"]:
        return confirmed(
            f"{times(seen['made'], 'part')} created in {times(seen['visits'], 'run')} of the line, no optimizer "
            f"ever held one of them, and {seen['gone']:,.0f} are freed",
            numbers,
            0,
        )
    if not seen["gone"] and seen["since"] >= _ENOUGH:
        kept = f"{times(seen['made'], 'part')} created that still exist, and none was created in the last "
        return refuted(f"{kept}{times(seen['since'], 'call')} of the function", numbers)
    reason = f"{times(seen['made'], 'part')} created: {seen['gone']:,.0f} freed, {seen['owned']:,.0f} with an optimizer"
    return inconclusive(reason, numbers, MORE_STEPS, doubtful=seen["gone"] > 0)


def generator_graph_in_discriminator_step(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by unused gradients that a backward computes through the input."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("calls", "detached", "wasted", "reused", "kept")
    if not seen["calls"]:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but called no module with parameters", numbers, READ)
        return not_reached()
    if seen["kept"] or seen["reused"]:
        what = "a step used them" if seen["kept"] else "another backward took the same path"
        reason = f"gradients were computed through the input of the line, and {what}: check whether that is intended"
        return inconclusive(reason, numbers, READ, doubtful=True)
    if seen["wasted"] >= _ENOUGH:
        backwards = times(seen["wasted"], "backward")
        reason = f"{backwards} went through the input of the line to parameters of another module, whose gradients "
        return confirmed(f"{reason}were cleared before a step used them", numbers, 0)
    if seen["detached"] == seen["calls"] >= _ENOUGH:
        reason = f"the input of the line led to no parameters of other modules in {times(seen['calls'], 'call')}"
        return refuted(reason, numbers)
    return inconclusive(f"too few of {times(seen['calls'], 'call')} had a backward pass", numbers)


def parameter_lost_by_move(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed if the line binds a tensor that is not a leaf; refuted if the move made no copy."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("visits", "leaves", "lost")
    if not seen["visits"] and claim.index not in evidence.reached:
        return not_reached()
    if seen["lost"]:
        reason = f"the bound tensor was not a leaf in {times(seen['lost'], 'run')} of the line: no optimizer accepts it"
        return confirmed(reason, numbers, 0)
    if seen["leaves"] and seen.shown.startswith("cpu"):
        reason = "the move made no copy here, on a CPU: the bound tensor is a leaf"
        return inconclusive(reason, numbers, CUDA, doubtful=True)
    if seen["leaves"]:
        reason = f"the bound tensor is a leaf on {seen.shown} in all {times(seen['leaves'], 'run')} of the line"
        return refuted(reason, numbers)
    return inconclusive("the bound tensor could not be followed by its name", numbers, READ)


def unregistered_module(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by parameters with gradients that neither the module nor an optimizer has; refuted if the module does.

    Parameters that only an optimizer has are trained, but are missing in checkpoints.
    """
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("parameters", "known", "held", "fed", "steps")
    if not seen["visits"] and claim.index not in evidence.reached:
        return not_reached()
    if not seen["parameters"]:
        return inconclusive("the line ran, but no parameters were found in its container", numbers)
    count = times(seen["parameters"], "parameter")
    if seen["known"]:
        return refuted(f"the module itself knows {seen['known']:,.0f} of {count}", numbers)
    if seen["held"]:
        reason = f"an optimizer holds {seen['held']:,.0f} of {count}, but the module does not know them"
        return inconclusive(reason, numbers, READ, doubtful=True)
    if seen["fed"] and seen["steps"] >= _ENOUGH:
        reason = f"{count} in it: {seen['fed']:,.0f} got gradients, but neither the module nor an optimizer has one"
        return confirmed(reason, numbers, 0)
    return inconclusive(f"{count} in it, of which {seen['fed']:,.0f} got gradients", numbers)

"""Rules about parts of models: made anew in each pass, or trained through for nothing."""

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
    """Confirmed by things that are made, and gone, again and again; refuted by those that stay."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("made", "gone", "alive", "owned", "since")
    if not seen["visits"] and claim.index not in evidence.reached:
        return not_reached()
    if not seen["made"]:
        return inconclusive("the line ran, but was not seen to make a part in a forward pass", numbers, READ)
    if seen["gone"] >= _GONE and not seen["owned"]:
        return confirmed(
            f"{times(seen['made'], 'part')} made in {times(seen['visits'], 'visit')}, no optimizer ever had one of "
            f"them, and {seen['gone']:,.0f} are gone",
            numbers,
            0,
        )
    if not seen["gone"] and seen["since"] >= _ENOUGH:
        kept = f"{times(seen['made'], 'part')} made, still there, and none was made in the last "
        return refuted(f"{kept}{times(seen['since'], 'call')} of the function", numbers)
    reason = f"{times(seen['made'], 'part')} made: {seen['gone']:,.0f} gone, {seen['owned']:,.0f} with an optimizer"
    return inconclusive(reason, numbers, MORE_STEPS, doubtful=seen["gone"] > 0)


def generator_graph_in_discriminator_step(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by gradients that a backward computes through the input, and that nobody uses."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("calls", "detached", "wasted", "reused", "kept")
    if not seen["calls"]:
        if claim.index in evidence.reached:
            return inconclusive("the line ran, but called no module with parameters", numbers, READ)
        return not_reached()
    if seen["kept"] or seen["reused"]:
        what = "a step used them" if seen["kept"] else "another backward went the same way"
        reason = f"gradients were computed through what the line was given, and {what}: see whether that is meant"
        return inconclusive(reason, numbers, READ, doubtful=True)
    if seen["wasted"] >= _ENOUGH:
        backwards = times(seen["wasted"], "backward")
        reason = (
            f"{backwards} went on through what the line was given, to parameters of another module, whose gradients "
        )
        return confirmed(f"{reason}were cleared before a step used them", numbers, 0)
    if seen["detached"] == seen["calls"] >= _ENOUGH:
        reason = f"what the line was given led to no parameters but its own in {times(seen['calls'], 'call')}"
        return refuted(reason, numbers)
    return inconclusive(f"of {times(seen['calls'], 'call')} too few went backward", numbers)


def parameter_lost_by_move(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed if what the line binds is no leaf; refuted if the move has made no copy."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("visits", "leaves", "lost")
    if not seen["visits"] and claim.index not in evidence.reached:
        return not_reached()
    if seen["lost"]:
        reason = f"what the line has bound is no leaf at {times(seen['lost'], 'visit')}: no optimizer takes it"
        return confirmed(reason, numbers, 0)
    if seen["leaves"] and seen.shown.startswith("cpu"):
        reason = "the move made no copy here, on a CPU: what the line has bound is a leaf"
        return inconclusive(reason, numbers, CUDA, doubtful=True)
    if seen["leaves"]:
        reason = f"what the line has bound is a leaf on {seen.shown} at all of {times(seen['leaves'], 'visit')}"
        return refuted(reason, numbers)
    return inconclusive("what the line binds could not be followed by its name", numbers, READ)


def unregistered_module(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by parameters with gradients that neither the module nor an optimizer has; refuted if the module does.

    Those that only an optimizer has are trained, and are missing in checkpoints.
    """
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("parameters", "known", "held", "fed", "steps")
    if not seen["visits"] and claim.index not in evidence.reached:
        return not_reached()
    if not seen["parameters"]:
        return inconclusive("the line ran, and no parameters were seen in what it keeps", numbers)
    count = times(seen["parameters"], "parameter")
    if seen["known"]:
        return refuted(f"the module itself knows {seen['known']:,.0f} of {count}", numbers)
    if seen["held"]:
        reason = f"an optimizer holds {seen['held']:,.0f} of {count}, and the module does not know them"
        return inconclusive(reason, numbers, READ, doubtful=True)
    if seen["fed"] and seen["steps"] >= _ENOUGH:
        reason = f"{count} in it: {seen['fed']:,.0f} got gradients, and neither the module nor an optimizer has one"
        return confirmed(reason, numbers, 0)
    return inconclusive(f"{count} in it, of which {seen['fed']:,.0f} got gradients", numbers)

"""Rules about optimizers that are made again or hold old tensors, and about settings."""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence
from torchlint.verify.verdict import CUDA, MORE_STEPS, Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3


def rebuilt_optimizer(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by a second optimizer for the same parameters; refuted if there is none until the end."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("first", "again", "steps")
    if seen["again"]:
        made = times(seen["again"] + 1, "optimizer")
        return confirmed(f"{made} from this line stepped on the same parameters, each with new moments", numbers)
    if not seen["steps"]:
        return not_reached("no optimizer of this line has stepped")
    if seen["steps"] >= _ENOUGH and evidence.has_ended:
        made = times(seen["first"], "optimizer")
        return refuted(f"{made} from this line made {times(seen['steps'], 'step')}, never two on one model", numbers)
    return inconclusive("one optimizer from this line has stepped so far", numbers)


def optimizer_of_old_tensor(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed if the optimizer does not hold what the name means after the line. Another device may differ."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("visits", "lost", "kept", "steps")
    if seen["lost"] and seen["steps"]:
        visits = times(seen["lost"], "run")
        return confirmed(f"after {visits} of the line, no optimizer holds the new tensor, but it steps on", numbers)
    if not seen["visits"]:
        return not_reached()
    if seen["kept"] and not seen["lost"]:
        return inconclusive("the optimizer still holds the tensor, on this device", numbers, CUDA)
    return inconclusive("no optimizer held the tensor, or none stepped afterwards", numbers)


def benchmark_with_deterministic(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps with both settings; refuted by three steps without."""
    seen = evidence.of_claim(claim.index)
    numbers = seen.numbers("steps", "both")
    if claim.index not in evidence.reached:
        return not_reached()
    if seen["both"]:
        return confirmed(f"both settings were on at {seen['both']:,.0f} of {times(seen['steps'], 'step')}", numbers, 0)
    if seen["steps"] >= _ENOUGH:
        return refuted(f"the settings were never on together in {times(seen['steps'], 'step')}", numbers)
    return inconclusive("too few steps after the line", numbers, MORE_STEPS)

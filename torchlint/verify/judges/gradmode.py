"""training-under-no-grad: did what an optimizer trains ever get a gradient?"""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence, Forward
from torchlint.verify.verdict import Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3
_NO_GRAPH = "does not require grad"


def training_under_no_grad(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by a backward that fails for want of a graph, or by modules whose parameters never get a gradient."""
    forwards = [item for item in evidence.forwards if evidence.is_at(item.site, claim.file, claim.blocks)]
    if not forwards and claim.index not in evidence.reached:
        return not_reached()
    failed = [item for item in evidence.backwards if any(_NO_GRAPH in error for error in item.errors)]
    if failed and (forwards or any(_is_near(claim, evidence, item.site) for item in failed)):
        count = sum(sum(item.errors.values()) for item in failed)
        first = min(item.first_error for item in failed)
        reason = f"{times(count, 'backward')} failed: the loss has no graph"
        return confirmed(reason, {"failed_backwards": count}, first)
    steps = sum(item.total(item.steps) for item in evidence.optimizers)
    untrained = [item for item in forwards if item.owned and not item.fed]
    if untrained and steps >= _ENOUGH:
        return _untrained(untrained, steps)
    return _trained(claim, evidence, forwards, steps)


def _untrained(modules: list[Forward], steps: int) -> Verdict:
    names = ", ".join(sorted({item.module for item in modules}))
    owned = max(item.owned for item in modules)
    return confirmed(
        f"the {times(owned, 'parameter')} of {names}, which runs here without gradients, had none in "
        f"{times(steps, 'step')} of the optimizer that holds them",
        {"parameters": owned, "steps": steps},
        0,
    )


def _trained(claim: Claim, evidence: Evidence, forwards: list[Forward], steps: int) -> Verdict:
    """Refuted if all that is trained gets gradients and moves."""
    stepped = [item for item in evidence.optimizers if item.total(item.steps)]
    fed = sum(item.trainable - item.without_gradient for item in stepped)
    moved = all(item.moved for item in stepped)
    numbers: dict[str, float] = {"steps": steps, "parameters_with_gradient": fed}
    if steps >= _ENOUGH and fed and moved and not any(item.errors for item in evidence.backwards):
        return refuted(
            f"what runs here without gradients is not trained by it: {times(fed, 'parameter')} got gradients and "
            f"moved in {times(steps, 'step')}",
            numbers,
        )
    return inconclusive(f"the code ran, but only {times(steps, 'step')} with gradients were seen", numbers)


def _is_near(claim: Claim, evidence: Evidence, site: int) -> bool:
    return evidence.is_at(site, claim.file, (*claim.lines, *claim.blocks, claim.scope))

"""training-under-no-grad: did what an optimizer trains ever get a gradient?"""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence, Optimizer, total
from torchlint.verify.verdict import Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3
_NO_GRAPH = "does not require grad"


def training_under_no_grad(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by a backward that fails for want of a graph, or by parameters that never get a gradient."""
    forwards = [item for item in evidence.forwards if evidence.is_at(item.site, claim.file, claim.blocks)]
    if not forwards and claim.index not in evidence.reached:
        return not_reached()
    failed = [item for item in evidence.backwards if any(_NO_GRAPH in error for error in item.errors)]
    if failed and (forwards or any(_is_near(claim, evidence, item.site) for item in failed)):
        count = sum(sum(item.errors.values()) for item in failed)
        reason = f"{times(count, 'backward')} failed: the loss has no graph"
        return confirmed(reason, {"failed_backwards": count}, min(item.first_error for item in failed))
    stepped = [item for item in evidence.optimizers if item.steps]
    steps = sum(total(item.steps) for item in stepped)
    untrained = {item.module: item.owned for item in forwards if item.owned and not item.fed}
    untrained |= {f"`{item.name}`": 1 for item in evidence.reads if item.claim == claim.index and not item.fed}
    if not untrained and stepped and not any(item.fed for item in stepped):
        untrained = {item.module: item.owned for item in evidence.forwards if item.owned}
    if untrained and steps >= _ENOUGH:
        return _untrained(untrained, steps)
    return _trained(evidence, stepped, steps)


def _untrained(parameters: dict[str, int], steps: int) -> Verdict:
    """`parameters` of an optimizer, counted by the module or name that runs without gradients."""
    count = sum(parameters.values())
    return confirmed(
        f"{times(count, 'parameter')} of {', '.join(sorted(parameters))}, which runs without gradients, had none in "
        f"{times(steps, 'step')} of the optimizer",
        {"parameters": count, "steps": steps},
        0,
    )


def _trained(evidence: Evidence, stepped: list[Optimizer], steps: int) -> Verdict:
    """Refuted if all that is trained gets gradients and moves."""
    fed, unfed = sum(item.fed for item in stepped), sum(item.without_gradient for item in stepped)
    numbers: dict[str, float] = {"steps": steps, "parameters_with_gradient": fed, "parameters_without": unfed}
    if unfed and steps >= _ENOUGH:
        return inconclusive(f"{times(unfed, 'parameter')} never got a gradient, but not for what is seen here", numbers)
    moved = all(item.moved for item in stepped)
    if steps >= _ENOUGH and fed and moved and not any(item.errors for item in evidence.backwards):
        return refuted(
            f"what runs here without gradients is not trained by it: all {times(fed, 'parameter')} got gradients and "
            f"moved in {times(steps, 'step')}",
            numbers,
        )
    return inconclusive(f"the code ran, but only {times(steps, 'step')} with gradients were seen", numbers)


def _is_near(claim: Claim, evidence: Evidence, site: int) -> bool:
    return evidence.is_at(site, claim.file, (*claim.lines, *claim.blocks, claim.scope))

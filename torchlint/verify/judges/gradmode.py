"""training-under-no-grad: did the optimizer's parameters ever get a gradient?"""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Cut, Evidence, Forward, Optimizer, total
from torchlint.verify.verdict import Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3
_NAMES = 4
"""The maximum number of parameters in a message."""
_NO_GRAPH = "does not require grad"


def training_under_no_grad(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by a backward that fails without a graph, or by parameters that never get a gradient."""
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
    untrained = {item.module: item for item in forwards if item.owned and not item.fed}
    reads = [item.name for item in evidence.reads if item.claim == claim.index and not item.fed]
    if not untrained and not reads and (_is_backward(claim, evidence) or not any(item.fed for item in stepped)):
        untrained = {item.module: item for item in evidence.forwards if item.owned and not item.fed}
    if (untrained or reads) and steps >= _ENOUGH:
        return _untrained(list(untrained.values()), reads, steps)
    cut = max((item for item in evidence.cuts if _is_about(claim, evidence, item)), key=_count, default=None)
    if cut is not None and cut.count >= _ENOUGH:
        return _cut_off(cut)
    return _trained(evidence, stepped, steps)


def _untrained(forwards: list[Forward], reads: list[str], steps: int) -> Verdict:
    """Parameters of an optimizer, in modules or by their own name, that run without gradients."""
    count = sum(item.owned for item in forwards) + len(reads)
    names = [f"{item.module}.{name}" for item in forwards for name in item.unfed] + reads
    shown = ", ".join(f"`{name}`" for name in names[:_NAMES])
    more = f" and {count - _NAMES:,} more" if count > _NAMES else ""
    return confirmed(
        f"{times(count, 'parameter')} never got a gradient in {times(steps, 'step')} of the optimizer, because the "
        f"code runs without gradients: {shown}{more}",
        {"parameters": count, "steps": steps},
        0,
    )


def _is_about(claim: Claim, evidence: Evidence, cut: Cut) -> bool:
    return evidence.is_at(cut.at, claim.file, (*claim.blocks, *claim.lines)) or evidence.is_at(
        cut.site, claim.file, (claim.statement,)
    )


def _count(cut: Cut) -> int:
    return cut.count


def _cut_off(cut: Cut) -> Verdict:
    """A part of the loss whose graph does not reach its inputs; other parts may train the same parameters."""
    reason = (
        f"a part of the loss does not reach `{cut.sources}`: `{cut.results}` is computed from it without gradients, "
        f"and goes into a layer of the same loss ({times(cut.count, 'backward')})"
    )
    return confirmed(reason, {"backwards": cut.count}, 0)


def _trained(evidence: Evidence, stepped: list[Optimizer], steps: int) -> Verdict:
    """Refuted if all trained parameters get gradients and move."""
    fed, unfed = sum(item.fed for item in stepped), sum(item.without_gradient for item in stepped)
    numbers: dict[str, float] = {"steps": steps, "parameters_with_gradient": fed, "parameters_without": unfed}
    if unfed and steps >= _ENOUGH:
        return inconclusive(f"{times(unfed, 'parameter')} never got a gradient, but not because of this code", numbers)
    moved = all(item.moved for item in stepped)
    if steps >= _ENOUGH and fed and moved and not any(item.errors for item in evidence.backwards):
        return refuted(
            f"this code does not stop training: all {times(fed, 'parameter')} got gradients and "
            f"moved in {times(steps, 'step')}",
            numbers,
        )
    return inconclusive(f"the code ran, but only {times(steps, 'step')} with gradients were observed", numbers)


def _is_backward(claim: Claim, evidence: Evidence) -> bool:
    """Whether the claim is about a backward. If so, the code without gradients is elsewhere."""
    return any(evidence.is_at(item.site, claim.file, (claim.statement,)) for item in evidence.backwards)


def _is_near(claim: Claim, evidence: Evidence, site: int) -> bool:
    return evidence.is_at(site, claim.file, (*claim.lines, *claim.blocks, claim.scope))

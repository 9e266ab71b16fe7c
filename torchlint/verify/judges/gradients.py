"""Rules about the life of gradients between steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Cleared, Evidence, Optimizer, total
from torchlint.verify.judges.optimizers import concerned
from torchlint.verify.verdict import READ, Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3
"""The minimum number of steps without the defect that refutes a finding."""
_EACH = 5
"""The number of steps in a row that is not an accident."""
_STALE = 2
_MORE = 1.2
"""The minimum ratio to a fresh gradient that is reported as too large; smaller ones may point elsewhere."""


def missing_zero_grad(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps that use gradients again; refuted by steps that never do together with clearings."""
    optimizers = concerned(claim, evidence)
    unknown = _unknown(claim, evidence, optimizers)
    if unknown is not None:
        return unknown
    steps = _all(optimizers, "steps")
    stale = _all(optimizers, "stale") + _all(optimizers, "leftover")
    if stale >= _STALE:
        return _stale(optimizers, steps, stale)
    clears = sum(item.clears for item in optimizers)
    numbers: dict[str, float] = {"steps": steps, "stale_steps": stale, "clears": clears}
    if not stale and steps >= _ENOUGH and clears >= _ENOUGH - 1:
        cleared = f"they were cleared {times(clears, 'time')}"
        summed = sum(item.summed for item in optimizers)
        if summed:
            numbers["summed_steps"] = summed
            cleared += f"; {times(summed, 'step')} used the sum of backwards from several places"
        return refuted(f"none of {_uses(optimizers)} used stale gradients; {cleared}", numbers)
    few = f"{stale:,} of {_uses(optimizers)} used stale gradients, {times(clears, 'clearing')}"
    return inconclusive(f"{few}: too few", numbers, doubtful=bool(stale))


def _all(optimizers: Iterable[Optimizer], what: str) -> int:
    """The counts of this name, of all optimizers and sites."""
    return sum(total(getattr(item, what)) for item in optimizers)


def _uses(optimizers: Iterable[Optimizer]) -> str:
    """The number of times that gradients were used: `40 steps`, or `62 evaluations of the closure in 40 steps`."""
    steps = times(_all(optimizers, "steps"), "step")
    evaluations = _all(optimizers, "evaluations")
    return f"{times(evaluations, 'evaluation')} of the closure in {steps}" if evaluations else steps


def _unknown(claim: Claim, evidence: Evidence, optimizers: list[Optimizer]) -> Verdict | None:
    """The verdict if no step belongs to the claim, or the owner of its gradients is unknown."""
    steps = _all(optimizers, "steps")
    if not steps:
        return _no_steps(claim, evidence)
    if any(item.contested for item in optimizers):
        reason = "several threads add to the same gradients and step on them: their owner is unclear"
        return inconclusive(reason, {"steps": steps}, "run it with one training thread", doubtful=True)
    return None


def _stale(optimizers: list[Optimizer], steps: int, stale: int) -> Verdict:
    numbers: dict[str, float] = {"steps": steps, "stale_steps": stale}
    evaluations = _all(optimizers, "evaluations")
    if evaluations:
        numbers["evaluations"] = evaluations
    ratios = [ratio for item in optimizers for ratio in item.ratios]
    size = ""
    if ratios:
        numbers["norm_ratio"] = median(ratios)
        if median(ratios) >= _MORE:
            size = f"; these gradients were about {_rounded(median(ratios))} times too large"
    if _all(optimizers, "stale"):
        reason = f"{stale:,} of {_uses(optimizers)} used gradients that an earlier step had already used"
    else:
        reason = f"{stale:,} of {_uses(optimizers)} used leftover gradients of a backward for another optimizer's step"
    first = min((item.first_stale for item in optimizers if item.first_stale >= 0), default=None)
    return confirmed(f"{reason}{size}", numbers, first)


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def cleared_before_step(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps whose gradients were cleared after a backward, or all but those of the last backward."""
    cleared = next((item for item in evidence.clearings if item.claim == claim.index), None)
    touched = [] if cleared is None else [evidence.optimizers[place] for place, _ in cleared.optimizers]
    touched = [item for item in touched if item.steps]
    optimizers = concerned(claim, replace(evidence, optimizers=touched) if touched else evidence) or touched
    unknown = _unknown(claim, evidence, optimizers)
    if unknown is not None:
        return unknown
    steps = _all(optimizers, "steps")
    wiped = _all(optimizers, "wiped")
    numbers: dict[str, float] = {"steps": steps, "wiped_steps": wiped}
    if wiped >= _STALE:
        reason = f"{wiped:,} of {_uses(optimizers)} found no gradients: they were cleared after the backward"
        return confirmed(f"these steps train nothing: {reason}", numbers)
    if cleared is not None and cleared.robbed >= _STALE:
        return _robbed(cleared, _uses(optimizers), numbers)
    if cleared is not None and sum(map(bool, cleared.discards)) >= _STALE:
        return _discarded(cleared, numbers)
    return _all_found(optimizers, cleared, numbers)


def _discarded(cleared: Cleared, numbers: dict[str, float]) -> Verdict:
    """Gradients are cleared and replaced before a step uses them, the same number before each step if it is regular."""
    steps, thrown = len(cleared.discards), sum(cleared.discards)
    numbers = {**numbers, "discarded_backwards": thrown, "steps_looked_at": steps}
    seen = f"the gradients of {thrown:,} of {thrown + steps:,} backwards were cleared here before a step had used them"
    if steps >= _EACH and all(cleared.discards):
        last = median(cleared.discards) + 1
        return confirmed(f"each step only uses the last of {last:,.0f} backwards: {seen}", numbers, 0)
    return inconclusive(f"{seen}, but not before each step", numbers, READ, doubtful=True)


def _robbed(cleared: Cleared, uses: str, numbers: dict[str, float]) -> Verdict:
    """The verdict if only some of the gradients are cleared."""
    parameters = times(cleared.parameters, "parameter")
    reason = (
        f"these steps do not train {parameters}: {cleared.robbed:,} of {uses} missed gradients that this line cleared "
        "after the backward"
    )
    numbers = {**numbers, "robbed_steps": cleared.robbed, "parameters": cleared.parameters}
    return confirmed(reason, numbers, cleared.first if cleared.first >= 0 else None)


def _all_found(optimizers: list[Optimizer], cleared: Cleared | None, numbers: dict[str, float]) -> Verdict:
    """Refuted if every gradient was there and the parameters moved with it."""
    steps, wiped, hungry = (_all(optimizers, what) for what in ("steps", "wiped", "hungry"))
    lost = sum(item.lost for item in optimizers)
    if cleared is not None and (cleared.robbed or cleared.starved):
        reason = f"the gradients of {times(max(cleared.parameters, cleared.starved), 'parameter')} were cleared here"
        return inconclusive(f"{reason}, and no step was observed to use others", numbers, doubtful=True)
    if lost and (cleared is None or not cleared.visits):
        reason = f"{times(lost, 'step')} missed some of the gradients, but the clearing line was not observed"
        return inconclusive(reason, numbers, READ, doubtful=True)
    unmoved = sum(item.unmoved for item in optimizers)
    if unmoved:
        reason = f"{times(unmoved, 'parameter')} had gradients before the step but did not move"
        return inconclusive(reason, numbers, READ, doubtful=True)
    fed = _all(optimizers, "added")
    if not wiped and steps - hungry >= _ENOUGH and fed >= _ENOUGH and all(item.moved for item in optimizers):
        found = f"{times(steps - hungry, 'step')} found the gradients of {times(fed, 'backward')}"
        return refuted(f"{found}, and none had lost them", numbers)
    reason = f"{wiped:,} of {times(steps, 'step')} found no gradients: too few"
    return inconclusive(reason, numbers, doubtful=bool(wiped))


def step_without_backward(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps without a gradient from any backward before them."""
    optimizers = concerned(claim, evidence)
    unknown = _unknown(claim, evidence, optimizers)
    if unknown is not None:
        return unknown
    steps = _all(optimizers, "steps")
    hungry = _all(optimizers, "hungry")
    numbers: dict[str, float] = {"steps": steps, "empty_steps": hungry}
    if hungry:
        reason = f"{hungry:,} of {times(steps, 'step')} had no backward before them and updated nothing"
        return confirmed(reason, numbers)
    fed = sum(item.fed for item in optimizers)
    if steps >= _ENOUGH and fed and all(item.moved for item in optimizers):
        return refuted(f"all {times(steps, 'step')} had gradients, and {times(fed, 'parameter')} moved", numbers)
    return inconclusive(f"only {times(steps, 'step')} observed", numbers)


def _no_steps(claim: Claim, evidence: Evidence) -> Verdict:
    """The verdict if the code ran without a step, or did not run."""
    if claim.index in evidence.reached or any(
        evidence.is_at(item.site, claim.file, claim.lines) for item in evidence.backwards
    ):
        advice = READ if evidence.steps else "run it until an optimizer steps: raise --max-steps and --max-seconds"
        return inconclusive("the code ran, but none of its optimizer steps was observed", advice=advice)
    return not_reached()

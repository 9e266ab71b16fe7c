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
"""Steps without the defect that it takes to refute a finding."""
_EACH = 5
"""So many steps in a row are no accident."""
_STALE = 2
_MORE = 1.2
"""A gradient that is so much larger than a fresh one is said to be too large; one that is not may point elsewhere."""


def missing_zero_grad(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps that use gradients again, refuted by steps that never do and clearings that were seen."""
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
    """How often gradients were used: `40 steps`, or `62 evaluations of the closure in 40 steps`."""
    steps = times(_all(optimizers, "steps"), "step")
    evaluations = _all(optimizers, "evaluations")
    return f"{times(evaluations, 'evaluation')} of the closure in {steps}" if evaluations else steps


def _unknown(claim: Claim, evidence: Evidence, optimizers: list[Optimizer]) -> Verdict | None:
    """What there is to say if no step belongs to the claim, or nobody knows whose gradients it used."""
    steps = _all(optimizers, "steps")
    if not steps:
        return _no_steps(claim, evidence)
    if any(item.contested for item in optimizers):
        reason = "several threads add to the same gradients and step on them: whose they are cannot be told"
        return inconclusive(reason, {"steps": steps}, "run it with one thread that trains", doubtful=True)
    return None


def _stale(optimizers: list[Optimizer], steps: int, stale: int) -> Verdict:
    numbers: dict[str, float] = {"steps": steps, "stale_steps": stale}
    evaluations = _all(optimizers, "evaluations")
    if evaluations:
        numbers["evaluations"] = evaluations
    ratios = [ratio for item in optimizers for ratio in item.ratios]
    sentence = "steps use old gradients again"
    if ratios:
        numbers["norm_ratio"] = median(ratios)
        if median(ratios) >= _MORE:
            sentence = f"the gradients that steps use are about {_rounded(median(ratios))} times too large"
    if _all(optimizers, "stale"):
        reason = f"{stale:,} of {_uses(optimizers)} used gradients that an earlier step had used already"
    else:
        reason = (
            f"{stale:,} of {_uses(optimizers)} used what is left of a backward that another optimizer has stepped on"
        )
    first = min((item.first_stale for item in optimizers if item.first_stale >= 0), default=None)
    return confirmed(f"{sentence}: {reason}", numbers, first)


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def cleared_before_step(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps that found their gradients gone after a backward, or all but those of the last one."""
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
        reason = f"{wiped:,} of {_uses(optimizers)} found no gradients: cleared after the backward"
        return confirmed(f"these steps train nothing: {reason}", numbers)
    if cleared is not None and cleared.robbed >= _STALE:
        return _robbed(cleared, _uses(optimizers), numbers)
    if cleared is not None and sum(map(bool, cleared.discards)) >= _STALE:
        return _discarded(cleared, numbers)
    return _all_found(optimizers, cleared, numbers)


def _discarded(cleared: Cleared, numbers: dict[str, float]) -> Verdict:
    """Gradients are cleared before a step has used them, and replaced: as many before each step if it is the rule."""
    steps, thrown = len(cleared.discards), sum(cleared.discards)
    numbers = {**numbers, "discarded_backwards": thrown, "steps_looked_at": steps}
    seen = f"the gradients of {thrown:,} of {thrown + steps:,} backwards were cleared here before a step had used them"
    if steps >= _EACH and all(cleared.discards):
        last = median(cleared.discards) + 1
        return confirmed(f"each step uses the last of {last:,.0f} backwards only: {seen}", numbers, 0)
    return inconclusive(f"{seen}, but not before each step", numbers, READ, doubtful=True)


def _robbed(cleared: Cleared, uses: str, numbers: dict[str, float]) -> Verdict:
    """A part of the gradients is cleared."""
    parameters = times(cleared.parameters, "parameter")
    reason = (
        f"these steps do not train {parameters}: {cleared.robbed:,} of {uses} missed gradients that were cleared here "
        "after the backward"
    )
    numbers = {**numbers, "robbed_steps": cleared.robbed, "parameters": cleared.parameters}
    return confirmed(reason, numbers, cleared.first if cleared.first >= 0 else None)


def _all_found(optimizers: list[Optimizer], cleared: Cleared | None, numbers: dict[str, float]) -> Verdict:
    """Nothing was cleared too early, if every gradient was there and the parameters moved by it."""
    steps, wiped, hungry = (_all(optimizers, what) for what in ("steps", "wiped", "hungry"))
    lost = sum(item.lost for item in optimizers)
    if cleared is not None and (cleared.robbed or cleared.starved):
        reason = f"the gradients of {times(max(cleared.parameters, cleared.starved), 'parameter')} were cleared here"
        return inconclusive(f"{reason}, and it was not seen that a step used others", numbers, doubtful=True)
    if lost and (cleared is None or not cleared.visits):
        reason = f"{times(lost, 'step')} missed some of the gradients; who cleared them was not seen"
        return inconclusive(reason, numbers, READ, doubtful=True)
    unmoved = sum(item.unmoved for item in optimizers)
    if unmoved:
        reason = f"{times(unmoved, 'parameter')} had gradients before the step, and did not move"
        return inconclusive(reason, numbers, READ, doubtful=True)
    fed = _all(optimizers, "added")
    if not wiped and steps - hungry >= _ENOUGH and fed >= _ENOUGH and all(item.moved for item in optimizers):
        found = f"{times(steps - hungry, 'step')} found the gradients of {times(fed, 'backward')}"
        return refuted(f"{found}, none had lost them", numbers)
    reason = f"{wiped:,} of {times(steps, 'step')} found no gradients: too few"
    return inconclusive(reason, numbers, doubtful=bool(wiped))


def step_without_backward(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps before which no backward gave any gradient."""
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
    return inconclusive(f"only {times(steps, 'step')} seen", numbers)


def _no_steps(claim: Claim, evidence: Evidence) -> Verdict:
    """The code ran without a step, or did not run."""
    if claim.index in evidence.reached or any(
        evidence.is_at(item.site, claim.file, claim.lines) for item in evidence.backwards
    ):
        advice = READ if evidence.steps else "run it until an optimizer steps: raise --max-steps and --max-seconds"
        return inconclusive("the code ran, but no step of an optimizer was seen that belongs to it", advice=advice)
    return not_reached()

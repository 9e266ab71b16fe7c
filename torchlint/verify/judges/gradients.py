"""Rules about the life of gradients between steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from torchlint.verify.claims import Claim, Lines
from torchlint.verify.evidence import Evidence, Optimizer, total
from torchlint.verify.verdict import Verdict, confirmed, inconclusive, not_reached, refuted, times

Counts = list[list[int]]
_ENOUGH = 3
"""Steps without the defect that it takes to refute a finding."""
_STALE = 2


def missing_zero_grad(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps that use gradients again, refuted by steps that never do and clearings that were seen."""
    optimizers = _concerned(claim, evidence)
    steps = _all(optimizers, "steps")
    if not steps:
        return _no_steps(claim, evidence)
    stale = _all(optimizers, "stale")
    leftover = _all(optimizers, "leftover")
    if stale + leftover >= _STALE:
        return _stale(optimizers, steps, stale, leftover)
    clears = sum(item.clears for item in optimizers)
    numbers = {"steps": steps, "stale_steps": stale + leftover, "clears": clears}
    if stale + leftover == 0 and steps >= _ENOUGH and clears >= _ENOUGH - 1:
        cleared = f"they were cleared {times(clears, 'time')}"
        return refuted(f"none of {times(steps, 'step')} used stale gradients; {cleared}", numbers)
    few = f"{stale + leftover:,} of {times(steps, 'step')} used stale gradients, {times(clears, 'clearing')}"
    return inconclusive(f"{few}: too few", numbers)


def _all(optimizers: list[Optimizer], what: str) -> int:
    """The counts of this name, of all optimizers and sites."""
    return sum(total(getattr(item, what)) for item in optimizers)


def _stale(optimizers: list[Optimizer], steps: int, stale: int, leftover: int) -> Verdict:
    numbers: dict[str, float] = {"steps": steps, "stale_steps": stale + leftover}
    ratios = [ratio for item in optimizers for ratio in item.ratios]
    if stale:
        reason = f"{stale:,} of {times(steps, 'step')} used gradients that an earlier step had used already"
    else:
        reason = (
            f"{leftover:,} of {times(steps, 'step')} used what is left of a backward "
            "that another optimizer has stepped on"
        )
    if ratios:
        numbers["norm_ratio"] = median(ratios)
        reason += f"; accumulated : fresh gradient norm {median(ratios):.3g} (median)"
    first = min((item.first_stale for item in optimizers if item.first_stale >= 0), default=None)
    return confirmed(reason, numbers, first)


def cleared_before_step(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps that found their gradients gone after a backward."""
    optimizers = _concerned(claim, evidence)
    steps = _all(optimizers, "steps")
    if not steps:
        return _no_steps(claim, evidence)
    wiped = _all(optimizers, "wiped")
    hungry = _all(optimizers, "hungry")
    numbers: dict[str, float] = {"steps": steps, "wiped_steps": wiped}
    if wiped >= _STALE:
        return confirmed(f"{wiped:,} of {times(steps, 'step')} found no gradients: cleared after the backward", numbers)
    fed = _all(optimizers, "added")
    if not wiped and steps - hungry >= _ENOUGH and fed >= _ENOUGH:
        found = f"{times(steps - hungry, 'step')} found the gradients of {times(fed, 'backward')}"
        return refuted(f"{found}, none had lost them", numbers)
    return inconclusive(f"{wiped:,} of {times(steps, 'step')} found no gradients: too few", numbers)


def step_without_backward(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by steps before which no backward gave any gradient."""
    optimizers = _concerned(claim, evidence)
    steps = _all(optimizers, "steps")
    if not steps:
        return _no_steps(claim, evidence)
    hungry = _all(optimizers, "hungry")
    numbers: dict[str, float] = {"steps": steps, "empty_steps": hungry}
    if hungry:
        return confirmed(
            f"{hungry:,} of {times(steps, 'step')} had no backward before them and updated nothing", numbers
        )
    fed = sum(item.fed for item in optimizers)
    if steps >= _ENOUGH and fed and all(item.moved for item in optimizers):
        return refuted(f"all {times(steps, 'step')} had gradients, and {times(fed, 'parameter')} moved", numbers)
    return inconclusive(f"only {times(steps, 'step')} seen", numbers)


def _no_steps(claim: Claim, evidence: Evidence) -> Verdict:
    """The code ran without a step, or did not run."""
    if claim.index in evidence.reached or _ran(evidence, claim.lines, claim.file):
        return inconclusive("the code ran, but no step of an optimizer was seen that belongs to it")
    return not_reached()


def _ran(evidence: Evidence, lines: Iterable[Lines], file: str) -> bool:
    return any(evidence.is_at(item.site, file, lines) for item in evidence.backwards)


def _concerned(claim: Claim, evidence: Evidence) -> list[Optimizer]:
    """The optimizers that a claim is about: those that step on its lines, else those that its backward feeds.

    Where neither is known, those that step in the same function. Of each only what belongs to the claim.
    """
    stepping = _stepping(claim, evidence, claim.lines)
    if stepping:
        return stepping
    fed = [item for item in evidence.optimizers if _at(item.added, claim, evidence, claim.lines)]
    if len(fed) > 1:
        fed = _nearest(fed, claim, evidence)
    if fed:
        return [replace(item, stale=_at(item.added_stale, claim, evidence, claim.lines)) for item in fed if item.steps]
    if claim.index not in evidence.reached:
        return []
    stepped = [item for item in evidence.optimizers if item.steps]
    return _stepping(claim, evidence, (claim.scope,)) or (stepped if len(stepped) == 1 else [])


def _stepping(claim: Claim, evidence: Evidence, lines: Iterable[Lines]) -> list[Optimizer]:
    """The optimizers that step on these lines, with what happened in these steps."""
    lines = tuple(lines)
    narrowed = [
        replace(
            item,
            steps=_at(item.steps, claim, evidence, lines),
            stale=_at(item.stale, claim, evidence, lines),
            leftover=_at(item.leftover, claim, evidence, lines),
            wiped=_at(item.wiped, claim, evidence, lines),
            hungry=_at(item.hungry, claim, evidence, lines),
        )
        for item in evidence.optimizers
    ]
    return [item for item in narrowed if item.steps]


def _at(counts: Counts, claim: Claim, evidence: Evidence, lines: Iterable[Lines]) -> Counts:
    """The counts of sites on these lines."""
    lines = tuple(lines)
    return [[site, count] for site, count in counts if evidence.is_at(site, claim.file, lines)]


def _nearest(fed: list[Optimizer], claim: Claim, evidence: Evidence) -> list[Optimizer]:
    """Of several optimizers that a backward feeds, those whose step is the next one below it in the file."""
    below = [(line, item) for item in fed if (line := _next_step(item, claim, evidence)) is not None]
    if not below:
        return fed
    first = min(line for line, _ in below)
    return [item for line, item in below if line == first]


def _next_step(optimizer: Optimizer, claim: Claim, evidence: Evidence) -> int | None:
    """The first line from the claim's on, in its file, on which the optimizer steps."""
    lines = [
        line
        for site, _ in optimizer.steps
        for file, line in evidence.stacks[site][:1]
        if evidence.files[file] == claim.file and line >= claim.statement[1]
    ]
    return min(lines, default=None)

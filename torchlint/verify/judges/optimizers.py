"""The optimizers that a claim is about, and the part of their evidence that belongs to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence, Optimizer
from torchlint.verify.statements import Lines

Counts = list[list[int]]


def concerned(claim: Claim, evidence: Evidence) -> list[Optimizer]:
    """Optimizers that step on the claim's lines, else those that its backward feeds; only the claim's part of each.

    A backward that does not feed an optimizer is no evidence about it. If neither is known, those that step in the
    same function.
    """
    fed = [item for item in evidence.optimizers if _at(item.added, claim, evidence, (claim.statement,))]
    stepping = _stepping(claim, evidence, claim.lines, fed or evidence.optimizers)
    if stepping:
        return stepping
    fed = fed or [item for item in evidence.optimizers if _at(item.added, claim, evidence, claim.lines)]
    if len(fed) > 1:
        fed = _nearest(fed, claim, evidence)
    if fed:
        return [replace(item, stale=_at(item.added_stale, claim, evidence, claim.lines)) for item in fed if item.steps]
    if claim.index not in evidence.reached:
        return []
    stepped = [item for item in evidence.optimizers if item.steps]
    return _stepping(claim, evidence, (claim.scope,), stepped) or (stepped if len(stepped) == 1 else [])


def _stepping(
    claim: Claim, evidence: Evidence, lines: Iterable[Lines], optimizers: Iterable[Optimizer]
) -> list[Optimizer]:
    """The optimizers that step on these lines, with the evidence of these steps."""
    lines = tuple(lines)
    narrowed = [
        replace(
            item,
            steps=_at(item.steps, claim, evidence, lines),
            evaluations=_at(item.evaluations, claim, evidence, lines),
            stale=_at(item.stale, claim, evidence, lines),
            leftover=_at(item.leftover, claim, evidence, lines),
            wiped=_at(item.wiped, claim, evidence, lines),
            hungry=_at(item.hungry, claim, evidence, lines),
        )
        for item in optimizers
    ]
    return [item for item in narrowed if item.steps]


def _at(counts: Counts, claim: Claim, evidence: Evidence, lines: Iterable[Lines]) -> Counts:
    """The counts of sites on these lines."""
    lines = tuple(lines)
    return [[site, count] for site, count in counts if evidence.is_at(site, claim.file, lines)]


def _nearest(fed: list[Optimizer], claim: Claim, evidence: Evidence) -> list[Optimizer]:
    """The optimizers that step below the backward and before the next one, if it feeds several."""
    below = [(line, item) for item in fed if (line := _next(item.steps, claim, evidence)) is not None]
    if not below:
        return fed
    first = min(line for line, _ in below)
    others = _next([[item.site, item.count] for item in evidence.backwards], claim, evidence, first)
    return [item for line, item in below if others is None or line < others]


def _next(counts: Counts, claim: Claim, evidence: Evidence, after: int | None = None) -> int | None:
    """The first line of these sites in the claim's file, below its statement, or after a line."""
    last = claim.statement[1] - 1 if after is None else after
    lines = [
        line
        for site, _ in counts
        for file, line in evidence.stacks[site][:1]
        if evidence.files[file] == claim.file and line > last
    ]
    return min(lines, default=None)

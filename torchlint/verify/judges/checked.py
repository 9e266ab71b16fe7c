"""Rules that a check of watched runs decides: it observed the defect at the line, or the opposite."""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence
from torchlint.verify.verdict import CHECKS, READ, Verdict, inconclusive, not_reached, refuted, sighted


def by_check(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by a problem at a line of the finding, or in code that the line calls."""
    check, lines = CHECKS[claim.rule], (*claim.lines, *claim.blocks)
    seen = [item for item in evidence.sightings if item.check == check and evidence.is_at(item.site, claim.file, lines)]
    if seen:
        return sighted(min(seen, key=lambda item: bool(item.advice)), evidence)
    right = (item for item in evidence.acquittals if item.check == check)
    found = next((item for item in right if evidence.is_at(item.site, claim.file, lines)), None)
    if found is not None:
        return refuted(found.message, found.numbers)
    if claim.index in evidence.reached:
        return inconclusive("the line ran, but the run showed neither the defect nor the opposite")
    return not_reached()


def worker_seeding(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by workers that return the same batches or draw the same numbers.

    That is the case if the finding's line made their loader, or if there is one loader: its seeds are set elsewhere.
    Different batches refute nothing: random numbers may repeat although their samples differ.
    """
    check, lines = CHECKS[claim.rule], (*claim.lines, *claim.blocks)
    seen = [item for item in evidence.sightings if item.check == check]
    others = [item for item in evidence.acquittals if item.check == check]
    own = [item for item in seen if evidence.is_at(item.site, claim.file, lines)]
    if own or (len(seen) == 1 and not others):
        return sighted((own or seen)[0], evidence)
    if not seen and not others:
        return not_reached("no loader got three batches from each of several workers")
    what = "one of several loaders has workers with equal batches" if seen else "workers returned different batches"
    return inconclusive(f"{what}: the run did not show whether random numbers repeat", advice=READ)

"""Rules that a check of watched runs asks the same: it has seen the defect at the line, or the opposite."""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence
from torchlint.verify.verdict import CHECKS, READ, Verdict, inconclusive, not_reached, refuted, sighted


def by_check(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by what the check has seen at a line of the finding, or in code that the line calls."""
    check, lines = CHECKS[claim.rule], (*claim.lines, *claim.blocks)
    seen = [item for item in evidence.sightings if item.check == check and evidence.is_at(item.site, claim.file, lines)]
    if seen:
        return sighted(min(seen, key=lambda item: bool(item.advice)), evidence)
    right = (item for item in evidence.acquittals if item.check == check)
    found = next((item for item in right if evidence.is_at(item.site, claim.file, lines)), None)
    if found is not None:
        return refuted(found.message, found.numbers)
    if claim.index in evidence.reached:
        return inconclusive("the line ran, and neither the defect nor the opposite was seen")
    return not_reached()


def worker_seeding(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by workers that give the same batches, where the program has one loader: the seeds are set elsewhere.

    Batches that differ refute nothing, since numbers may repeat while the samples they change differ.
    """
    check = CHECKS[claim.rule]
    seen = [item for item in evidence.sightings if item.check == check]
    others = [item for item in evidence.acquittals if item.check == check]
    if len(seen) == 1 and not others:
        return sighted(seen[0], evidence)
    if not seen and not others:
        return not_reached("no loader with several workers gave three batches of each")
    what = "one of several loaders has workers that give the same" if seen else "workers gave different batches"
    return inconclusive(f"{what}: whether numbers repeat in them was not seen", advice=READ)

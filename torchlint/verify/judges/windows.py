"""lopsided-accumulation: does the first step have fewer backwards than later ones?"""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence, Observed
from torchlint.verify.verdict import READ, Verdict, confirmed, inconclusive, not_reached, refuted, strongest

_ENOUGH = 3


def lopsided_accumulation(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by a first step on part of a window; refuted if all windows are equal."""
    seen = evidence.of_claim(claim.index)
    if not seen["visits"] and claim.index not in evidence.reached:
        return not_reached()
    optimizers = {name.partition(".")[0] for name in seen.counts if name[:1].isdigit()}
    if not optimizers:
        return inconclusive("no optimizer stepped at the line of the finding")
    return strongest([_of(_windows(seen, number)) for number in sorted(optimizers)])


def _windows(seen: Observed, number: str) -> list[int]:
    """The number of backwards between the first steps of one optimizer."""
    sizes = {int(name.partition(".")[2]): size for name, size in seen.counts.items() if name.startswith(f"{number}.")}
    return [int(size) for _, size in sorted(sizes.items())]


def _of(windows: list[int]) -> Verdict:
    numbers: dict[str, float] = {f"backwards_of_step_{number}": size for number, size in enumerate(windows, 1)}
    shown = ", ".join(map(str, windows))
    if len(windows) < _ENOUGH:
        return inconclusive(f"too few steps: {shown} backwards", numbers)
    first, *others = windows
    if len(set(others)) > 1:
        return inconclusive(f"the steps used {shown} backwards: they form no regular window", numbers, READ)
    if first == others[0]:
        return refuted(f"each of the first steps used as many backwards: {shown}", numbers)
    if first and others[0] % first == 0:
        return confirmed(f"the first step used {first:,} of {others[0]:,} backwards: {shown}", numbers, 0)
    return inconclusive(f"the steps used {shown} backwards: the first window differs", numbers, READ)

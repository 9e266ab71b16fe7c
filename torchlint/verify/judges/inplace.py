"""Rules about changes in place."""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Changed, Evidence
from torchlint.verify.verdict import Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3
_VERSION = "modified by an inplace operation"


def inplace_on_saved_tensor(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by an error of PyTorch about what this line changed; refuted by backwards that passed it."""
    change = _change(claim, evidence)
    if change is None or not change.hits:
        return not_reached()
    error = _error(change)
    if error is not None:
        return error
    numbers = _numbers(change)
    if not claim.raises:
        return _overwritten(change, numbers)
    passed = change.passed if change.tracked else change.backwards_after
    if change.bumps >= _ENOUGH and passed >= _ENOUGH and not _unexplained(evidence):
        return refuted(
            f"changed {times(change.bumps, 'time')} in place, and {times(passed, 'backward')} passed without an error",
            numbers,
        )
    if not change.bumps and change.share:
        return inconclusive("the line changes values without autograd noticing: look at the gradients", numbers)
    if not change.bumps:
        return inconclusive(f"in {times(change.hits, 'visit')} no named tensor was seen to change", numbers)
    return inconclusive(
        f"changed {times(change.bumps, 'time')}, with {times(passed, 'backward')} through it: too few", numbers
    )


def _overwritten(change: Changed, numbers: dict[str, float]) -> Verdict:
    """The claim that an old name is read again: are there new values under it?"""
    if change.bumps and change.share:
        return confirmed(f"{change.share:.0%} of the elements are different afterwards", numbers, 0)
    return inconclusive("the values were not seen to change", numbers)


def inplace_on_leaf(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by PyTorch raising at the line; refuted by the line running through."""
    change = _change(claim, evidence)
    if change is None or not change.hits:
        return not_reached()
    error = _error(change)
    if error is not None:
        return error
    numbers = _numbers(change)
    if change.bumps or change.share:  # PyTorch raises or it does not: that needs no statistics
        return refuted(f"ran {times(change.hits, 'time')} and changed values, and PyTorch did not raise", numbers)
    return inconclusive(
        f"ran {times(change.hits, 'time')} without an error, and was not seen to change anything", numbers
    )


def _change(claim: Claim, evidence: Evidence) -> Changed | None:
    return next((item for item in evidence.changes if item.claim == claim.index), None)


def _error(change: Changed) -> Verdict | None:
    """The verdict if PyTorch itself has complained."""
    raised = {**change.errors, **change.matched}
    if not raised:
        return None
    count = sum(raised.values())
    message = next(iter(raised)).split(". Hint:")[0]
    where = "at this line" if change.errors else "in a backward, about the storage that this line changed"
    numbers = {"errors": count, "visits": change.hits}
    return confirmed(f"PyTorch raised {where}: {message}", numbers, max(change.first_error, 0))


def _numbers(change: Changed) -> dict[str, float]:
    return {"visits": change.hits, "changes": change.bumps, "backwards_passed": change.passed}


def _unexplained(evidence: Evidence) -> bool:
    """Whether a backward found a saved tensor changed, and no flagged line was found to have done it."""
    errors = [count for item in evidence.backwards for error, count in item.errors.items() if _VERSION in error]
    return sum(errors) > sum(count for change in evidence.changes for count in change.matched.values())

"""Rules about changes in place."""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Changed, Evidence
from torchlint.verify.verdict import READ, Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3
_VERSION = "modified by an inplace operation"


def inplace_on_saved_tensor(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by an error of PyTorch about what this line changed; refuted by backwards that passed it."""
    change = _change(claim, evidence)
    if _VERSION in evidence.error and evidence.was_compiling(claim.file, claim.statement):
        message = evidence.error[evidence.error.index("one of the variables") :].split(". Hint:")[0]
        return confirmed(f"torch.compile failed on this code: {message}", {"errors": 1}, 0)
    if change is None:
        return not_reached()
    decided = _decided(change)
    if decided is not None:
        return decided
    numbers = _numbers(change)
    if not claim.raises:
        return _overwritten(change, numbers)
    if change.silent:
        return _silent(change, numbers)
    if change.untried:
        reason = "the line changes what a custom Function holds, and whether its backward uses that could not be tried"
        return inconclusive(reason, numbers, READ, doubtful=True)
    passed = change.passed if change.tracked else change.backwards_after
    if change.bumps >= _ENOUGH and passed >= _ENOUGH and not _unexplained(evidence):
        return refuted(
            f"changed {times(change.bumps, 'time')} in place, and {times(passed, 'backward')} passed without an error",
            numbers,
        )
    if not change.bumps and change.share:
        return inconclusive("the line changes values without autograd noticing: look at the gradients", numbers, READ)
    if not change.bumps:
        return inconclusive(f"in {times(change.hits, 'visit')} no named tensor was seen to change", numbers, READ)
    return inconclusive(
        f"changed {times(change.bumps, 'time')}, with {times(passed, 'backward')} through it: too few", numbers
    )


def _silent(change: Changed, numbers: dict[str, float]) -> Verdict:
    count = max(change.silent.values())
    names = ", ".join(f"`{name}`" for name in change.silent)
    reason = (
        f"gradients are wrong, and PyTorch does not notice: {names} went backward with the changed values, and gives "
        f"other gradients for them ({times(count, 'backward')} tried)"
    )
    return confirmed(reason, {**numbers, "wrong_backwards": count}, 0)


def _overwritten(change: Changed, numbers: dict[str, float]) -> Verdict:
    """The claim that an old name is read again: are there new values under it?"""
    if change.bumps and change.share:
        return confirmed(f"{change.share:.0%} of the elements are different afterwards", numbers, 0)
    return inconclusive("the values were not seen to change", numbers)


def inplace_on_leaf(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by PyTorch raising at the line; refuted by the line running through."""
    change = _change(claim, evidence)
    if change is None:
        return not_reached()
    decided = _decided(change)
    if decided is not None:
        return decided
    numbers = _numbers(change)
    if change.bumps or change.share:  # PyTorch raises or it does not: that needs no statistics
        return refuted(f"ran {times(change.hits, 'time')} and changed values, and PyTorch did not raise", numbers)
    if change.leaves >= _ENOUGH and any(path[-1] == ".data" for path in claim.names):
        reason = f"ran {times(change.leaves, 'time')} on a leaf that requires gradients, and PyTorch did not raise"
        return refuted(f"{reason}: `.data` is no part of the graph", numbers)
    return inconclusive(
        f"ran {times(change.hits, 'time')} without an error, and was not seen to change anything", numbers
    )


def _change(claim: Claim, evidence: Evidence) -> Changed | None:
    return next((item for item in evidence.changes if item.claim == claim.index), None)


def _decided(change: Changed) -> Verdict | None:
    """The verdict if the line did not run, or PyTorch itself has complained."""
    if not change.hits:
        return not_reached()
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

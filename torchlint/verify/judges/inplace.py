"""Rules about in-place changes."""

from __future__ import annotations

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Changed, Evidence
from torchlint.verify.verdict import READ, Verdict, confirmed, inconclusive, not_reached, refuted, times

_ENOUGH = 3
_VERSION = "modified by an inplace operation"


def inplace_on_saved_tensor(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed by PyTorch's error about a tensor that this line changed; refuted by backwards without an error."""
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
        reason = "the line changes a tensor of a custom Function, and it is unknown whether its backward uses it"
        return inconclusive(reason, numbers, READ, doubtful=True)
    passed = change.passed if change.tracked else change.backwards_after
    if change.bumps >= _ENOUGH and passed >= _ENOUGH and not _unexplained(evidence):
        return refuted(
            f"{times(change.bumps, 'in-place change')} and {times(passed, 'backward')} without an error",
            numbers,
        )
    if not change.bumps and change.share:
        return inconclusive("autograd does not notice this change: check the gradients", numbers, READ)
    if not change.bumps:
        return inconclusive(f"in {times(change.hits, 'run')} of the line, no named tensor changed", numbers, READ)
    return inconclusive(f"{times(change.bumps, 'change')} with {times(passed, 'backward')}: too few", numbers)


def _silent(change: Changed, numbers: dict[str, float]) -> Verdict:
    count = max(change.silent.values())
    names = ", ".join(f"`{name}`" for name in change.silent)
    reason = (
        f"gradients are wrong, and PyTorch does not notice: {names} went backward with the changed values, which give "
        f"other gradients ({times(count, 'backward')} tested)"
    )
    return confirmed(reason, {**numbers, "wrong_backwards": count}, 0)


def _overwritten(change: Changed, numbers: dict[str, float]) -> Verdict:
    """The claim that an old name is read again: does it have new values?"""
    if change.bumps and change.share:
        return confirmed(f"{change.share:.0%} of the elements differ afterwards", numbers, 0)
    return inconclusive("no change of the values was observed", numbers)


def inplace_on_leaf(claim: Claim, evidence: Evidence) -> Verdict:
    """Confirmed if PyTorch raises at the line; refuted if the line runs without an error."""
    change = _change(claim, evidence)
    if change is None:
        return not_reached()
    decided = _decided(change)
    if decided is not None:
        return decided
    numbers = _numbers(change)
    if change.bumps or change.share:  # a single visit is enough: PyTorch always raises, or never
        return refuted(f"ran {times(change.hits, 'time')} and changed values, but PyTorch did not raise", numbers)
    if change.leaves >= _ENOUGH and any(path[-1] == ".data" for path in claim.names):
        reason = f"ran {times(change.leaves, 'time')} on a leaf that requires gradients, but PyTorch did not raise"
        return refuted(f"{reason}: `.data` is not part of the graph", numbers)
    return inconclusive(f"ran {times(change.hits, 'time')} without an error, and no change was observed", numbers)


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
    """Whether a backward found a saved tensor changed, but no flagged line did it."""
    errors = [count for item in evidence.backwards for error, count in item.errors.items() if _VERSION in error]
    return sum(errors) > sum(count for change in evidence.changes for count in change.matched.values())

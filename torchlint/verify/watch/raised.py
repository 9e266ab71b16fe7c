"""Errors of backwards that ended the program or occurred repeatedly, and the rules that name them."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.verify.evidence import Backwards, Evidence
from torchlint.verify.verdict import Verdict, confirmed, inconclusive, times

RULES = {
    "second-backward": "backward through the graph a second time",
    "nonscalar-backward": "can be implicitly created only for scalar outputs",
}
"""By rule, a part of PyTorch's message."""
_IGNORED = 5
_SHARE = 0.1
_LOST = "do these batches count? Then mend the error; otherwise leave them out before"
_OFTEN = 3
"""An error that is raised and caught so often is not a deliberate test."""


def raised(evidence: Evidence) -> Iterator[tuple[str, int, Verdict]]:
    """Rules, each with the site of the backward that raised, and the verdict."""
    for item in evidence.backwards:
        for rule, complaint in RULES.items():
            errors = {error: count for error, count in item.errors.items() if complaint in error}
            count = sum(errors.values())
            if count and (complaint in evidence.error or count >= _OFTEN):
                yield rule, item.site, _verdict(item, next(iter(errors)), count)


def _verdict(item: Backwards, error: str, count: int) -> Verdict:
    often = "" if count == 1 else f", {times(count, 'time')}"
    numbers = {"errors": count, "backwards": item.count}
    return confirmed(f"PyTorch raised at this line{often}: {error.split('. ')[0]}", numbers, item.first_error)


def ignored(evidence: Evidence) -> Iterator[tuple[str, int, Verdict]]:
    """An error that training code raised again and again, and that the program ignored.

    If the program made steps, it may have tried again, or left out bad data on purpose.
    """
    found = max(evidence.raised, key=lambda item: item.count, default=None)
    if found is None or evidence.error or found.count < _IGNORED:
        return
    count = times(found.count, "time")
    if not evidence.steps:
        reason = f"this line raised an error {count}, and the program continued without a step: {found.error[:200]}"
        yield "program-error", found.site, confirmed(reason, {"errors": found.count}, 0)
    elif found.is_late and found.count >= _SHARE * evidence.steps:
        reason = f"this line raised an error {count} in {times(evidence.steps, 'step')}, and the program continued"
        numbers = {"errors": found.count, "steps": evidence.steps}
        yield "program-error", found.site, inconclusive(f"{reason}: {found.error[:200]}", numbers, _LOST)

"""Whether one batch is learned, and what is suspected if it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torchlint.verify.session import Judged, Verification
from torchlint.verify.verdict import Answer

NAME = "one-batch"
_LEARNING = 20
_SUSPECTS = (
    "training-under-no-grad",
    "step-without-backward",
    "cleared-before-step",
    "missing-zero-grad",
    "nonfinite-value",
    "parameter-without-gradient",
    "parameter-without-optimizer",
    "parameter-never-moves",
    "zero-learning-rate",
    "dead-units",
    "vanishing-gradients",
    "update-too-large",
    "broadcast-loss",
    "constant-loss",
)
_UNSUSPECTED = (
    "try a learning rate ten times as large and as small, then a loss that is summed where it is averaged, then the "
    "model in eval mode: nothing else that was looked at is wrong"
)


def notes(seen: Verification, checks: Sequence[str]) -> list[str]:
    """That one batch was learned, if that was asked; that it was not is a finding."""
    names = {item.finding.name for item in seen.judged}
    if NAME not in checks or NAME in names:
        return []
    if seen.steps < _LEARNING:
        return [f"One batch, again and again, for {seen.steps:,} steps only: too few to say whether it is learned."]
    return ["One batch, again and again, is learned: no loss stayed above a tenth of what it was at first."]


def _is_unlearned(item: Judged) -> bool:
    return item.finding.name == NAME and item.verdict.answer is Answer.CONFIRMED


def suspected(judged: tuple[Judged, ...]) -> tuple[Judged, ...]:
    """If one batch is not learned, whatever else was seen is suspected of it, the likeliest first."""
    others = {item.finding.name: item.finding for item in reversed(judged) if item.finding.name != NAME}
    known = [name for name in _SUSPECTS if name in others]
    named = [f"`{name}` at line {others[name].span.start.line}" for name in known]
    advice = f"look at {', '.join(named)}" if named else _UNSUSPECTED
    return tuple(
        replace(item, verdict=replace(item.verdict, advice=advice)) if _is_unlearned(item) else item for item in judged
    )

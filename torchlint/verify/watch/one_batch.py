"""Whether the model learns one batch, and the suspects if it does not."""

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
    "the run showed nothing else wrong: try a learning rate ten times as large and as small; then a sum instead of a "
    "mean in the loss; then the model in eval mode"
)


def notes(seen: Verification, checks: Sequence[str]) -> list[str]:
    """A note that the model learned one batch, if the run tested that. The opposite is a finding."""
    names = {item.finding.name for item in seen.judged}
    if NAME not in checks or NAME in names:
        return []
    if seen.steps < _LEARNING:
        return [f"The run repeated one batch for only {seen.steps:,} steps: too few to say whether it is learned."]
    return ["One repeated batch is learned: no loss stayed above a tenth of its first value."]


def _is_unlearned(item: Judged) -> bool:
    return item.finding.name == NAME and item.verdict.answer is Answer.CONFIRMED


def suspected(judged: tuple[Judged, ...]) -> tuple[Judged, ...]:
    """If one batch is not learned, all other problems are suspects, the most likely first."""
    others = {item.finding.name: item.finding for item in reversed(judged) if item.finding.name != NAME}
    known = [name for name in _SUSPECTS if name in others]
    named = [f"`{name}` at line {others[name].span.start.line}" for name in known]
    advice = f"look at {', '.join(named)}" if named else _UNSUSPECTED
    return tuple(
        replace(item, verdict=replace(item.verdict, advice=advice)) if _is_unlearned(item) else item for item in judged
    )

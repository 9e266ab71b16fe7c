"""Groups of bytes for the `triggers` of rules: without one of a group nothing in a file goes backward, steps, ..."""

from __future__ import annotations

from torchlint.pytorch.effects import (
    Clears,
    Clips,
    DetectsAnomaly,
    EvaluatesModule,
    FreesCache,
    GoesBackward,
    GradMode,
    Keeps,
    Result,
    Steps,
    SwitchesGradMode,
)
from torchlint.pytorch.table import functions_with, shortest, words, words_for

BACKWARD = words(GoesBackward)
STEP = words(Steps)
CLEAR = words(Clears)
CLIP = words(Clips)
EVAL = words(EvaluatesModule)
KEEP = words(Keeps)
EMPTY_CACHE = words(FreesCache)
ANOMALY = words(DetectsAnomaly)
SCHEDULER = words_for(Result.SCHEDULER)
NO_GRAD = shortest(
    name.rpartition(".")[2]
    for name, effect in functions_with(SwitchesGradMode).items()
    if isinstance(effect, SwitchesGradMode) and effect.to is not GradMode.ON
)


def holds(data: bytes, words: tuple[bytes, ...]) -> bool:
    """Whether one of the words of a group is in a file."""
    return any(word in data for word in words)

"""Groups of bytes for the `triggers` of rules: without one of a group nothing in a file goes backward, steps, ..."""

from __future__ import annotations

from torchlint.pytorch.api import ACCUMULATING_IN_PLACE
from torchlint.pytorch.effects import (
    Clears,
    Clips,
    DetectsAnomaly,
    DropsElements,
    EvaluatesModule,
    FreesCache,
    GoesBackward,
    GradMode,
    Keeps,
    RegistersHook,
    Result,
    Steps,
    SwitchesGradMode,
)
from torchlint.pytorch.table import (
    ACTING_METHODS,
    CONTEXTS,
    functions_with,
    last_names_with,
    shortest,
    words,
    words_for,
)

BACKWARD = words(GoesBackward)
STEP = words(Steps)
CLEAR = words(Clears)
CLIP = words(Clips)
EVAL = words(EvaluatesModule)
KEEP = words(Keeps)
SUM = shortest(ACCUMULATING_IN_PLACE | {"lerp"})
"""Names that continue a sum without an operator."""
ACTING = shortest(ACTING_METHODS | {name.rpartition(".")[2] for name in CONTEXTS})
"""Methods with an effect, and context managers, also if the brackets after them are missing."""
EMPTY_CACHE = words(FreesCache)
DROPOUT = words(DropsElements)
ANOMALY = words(DetectsAnomaly)
SCHEDULER = words_for(Result.SCHEDULER)
HOOK = words(RegistersHook)
HOOK_NAMES = last_names_with(RegistersHook)
NO_GRAD = shortest(
    name.rpartition(".")[2]
    for name, effect in functions_with(SwitchesGradMode).items()
    if isinstance(effect, SwitchesGradMode) and effect.to is not GradMode.ON
)

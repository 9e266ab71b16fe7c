"""The gradients that a step uses, and the events between the backward pass and the step."""

from __future__ import annotations

from torchlint.model.relations.gradients import unseen, windows
from torchlint.model.relations.gradients.accelerate import (
    DividedTwice,
    cleared_in_window,
    clipped_in_window,
    divided_twice,
)
from torchlint.model.relations.gradients.arrivals import Arrival, Arrivals, Gradients
from torchlint.model.relations.gradients.discarded import DiscardedPass, discarded_passes
from torchlint.model.relations.gradients.epochs import OpenWindow, open_windows
from torchlint.model.relations.gradients.lightning import ClipInHook, clips_in_hooks, returned_losses
from torchlint.model.relations.gradients.micro_batches import (
    LostMicroBatch,
    clipped_micro_batches,
    lost_micro_batches,
)
from torchlint.model.relations.gradients.mixed import MixedStep, mixed_steps
from torchlint.model.relations.gradients.scalers import NotUpdated, SteppedAgain, not_updated, stepped_again
from torchlint.model.relations.gradients.stale import GradientsBetweenSteps, StaleGradients
from torchlint.model.relations.gradients.stale_parts import StalePart
from torchlint.model.relations.gradients.unreached import UnreachedStep, unreached_steps

__all__ = [
    "Arrival",
    "Arrivals",
    "ClipInHook",
    "DiscardedPass",
    "DividedTwice",
    "Gradients",
    "GradientsBetweenSteps",
    "LostMicroBatch",
    "MixedStep",
    "NotUpdated",
    "OpenWindow",
    "StaleGradients",
    "StalePart",
    "SteppedAgain",
    "UnreachedStep",
    "cleared_in_window",
    "clipped_in_window",
    "clipped_micro_batches",
    "clips_in_hooks",
    "discarded_passes",
    "divided_twice",
    "lost_micro_batches",
    "mixed_steps",
    "not_updated",
    "open_windows",
    "returned_losses",
    "stepped_again",
    "unreached_steps",
    "unseen",
    "windows",
]

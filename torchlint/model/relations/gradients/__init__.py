"""Which gradients a step uses, and what happens to them between the backward pass and the step."""

from __future__ import annotations

from torchlint.model.relations.gradients.arrivals import Arrival, Arrivals, Gradients
from torchlint.model.relations.gradients.micro_batches import LostMicroBatch, lost_micro_batches

__all__ = ["Arrival", "Arrivals", "Gradients", "LostMicroBatch", "lost_micro_batches"]

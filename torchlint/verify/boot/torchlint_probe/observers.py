"""Which findings are observed how. Whatever is not asked for is neither hooked nor watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torchlint_probe.clips import Clips
from torchlint_probe.observer import LineObserver, Observer
from torchlint_probe.visits import BackwardBody, Discarded

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

KINDS: Mapping[str, type[Observer]] = {
    "clip-outside-step": Clips,
    "clip-before-unscale": Clips,
    "nonscalar-backward": LineObserver,
    "second-backward": LineObserver,
    "backward-arity": BackwardBody,
    "uncalled-method": LineObserver,
    "discarded-result": Discarded,
}


def observers(probe: Probe) -> list[Observer]:
    """One for each finding that needs one."""
    return [KINDS[claim.rule](claim, probe) for claim in probe.plan.claims if claim.rule in KINDS]

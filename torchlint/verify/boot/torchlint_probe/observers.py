"""The observers of findings. Without a finding nothing is hooked or watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torchlint_probe.clips import Clips
from torchlint_probe.inputs import ActivatedInputs, CrossEntropyInputs, DivergenceInputs, LogitsInputs
from torchlint_probe.made import Made
from torchlint_probe.modes import Draws, Modes
from torchlint_probe.observer import LineObserver, Observer
from torchlint_probe.outputs import Fakes, Outputs
from torchlint_probe.plain import Plain
from torchlint_probe.schedules import Early, NeverStepped
from torchlint_probe.setups import Benchmark, OldTensor, Rebuilt
from torchlint_probe.visits import BackwardBody, Discarded, Moved
from torchlint_probe.windows import Windows

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
    "scheduler-never-stepped": NeverStepped,
    "scheduler-before-optimizer": Early,
    "evaluation-with-grad": Outputs,
    "training-in-eval-mode": Modes,
    "dropout-ignores-mode": Draws,
    "module-created-in-forward": Made,
    "generator-graph-in-discriminator-step": Fakes,
    "softmax-before-cross-entropy": CrossEntropyInputs,
    "sigmoid-before-bce-with-logits": LogitsInputs,
    "loss-without-activation": ActivatedInputs,
    "kl-div-input": DivergenceInputs,
    "lopsided-accumulation": Windows,
    "parameter-lost-by-move": Moved,
    "unregistered-module": Plain,
    "rebuilt-optimizer": Rebuilt,
    "optimizer-of-old-tensor": OldTensor,
    "benchmark-with-deterministic": Benchmark,
    **dict.fromkeys(
        (
            "absent-class-weights",
            "dtype-mismatch",
            "grad-outside-graph",
            "loss-target-dtype",
            "removed-api",
            "shape-mismatch",
            "super-init-order",
            "undetached-hidden-state",
        ),
        LineObserver,
    ),
}


def observers(probe: Probe) -> list[Observer]:
    """An observer for each finding that needs one."""
    return [KINDS[claim.rule](claim, probe) for claim in probe.plan.claims if claim.rule in KINDS]

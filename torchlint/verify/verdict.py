"""Judges findings by evidence. Pure: the same claim and evidence give the same verdict. torch is not needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from importlib import import_module

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import Evidence, Sighting


class Answer(str, Enum):
    """The answer of a run about a finding."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    NOT_REACHED = "not-reached"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Verdict:
    """An answer, the reason in one sentence, and the numbers behind it.

    `first_step` is the optimizer step, from 0, that first showed the defect; None if none did. `advice` is the next
    action if nothing was decided. A `doubtful` verdict has evidence for the finding.
    """

    answer: Answer
    reason: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    first_step: int | None = None
    device: str = ""
    advice: str = ""
    doubtful: bool = False


Judge = Callable[[Claim, Evidence], Verdict]

CHECKS: Mapping[str, str] = {
    "optimizer-misses-parameters": "parameter-after-optimizer",
    "target-shape-broadcast": "broadcast-loss",
    "missing-set-epoch": "epochs-alike",
    "worker-seeding": "workers-alike",
    "collective-on-one-rank": "unmatched-collective",
    "unsharded-loader": "ranks-alike",
    "schedule-in-wrong-unit": "vanished-learning-rate",
    "single-class": "loss-over-one-class",
    "unchecked-partial-load": "load-without-effect",
    "gradient-cycle": "gradient-holds-graph",
    **dict.fromkeys(("bound-at-singularity", "empty-mask", "entropy-of-masked", "root-of-zero"), "nonfinite-value"),
    **{
        name: name
        for name in (
            "aliased-network",
            "average-without-buffers",
            "dead-loss-term",
            "evaluation-in-training-mode",
            "fill-after-softmax",
            "frozen-part-in-training-mode",
            "initialized-after-loading",
            "leaked-hook",
            "log-of-softmax",
            "reentrant-checkpoint",
            "reseeded-in-loop",
            "target-with-gradient",
            "uncopied-state-dict",
        )
    },
}
"""Rules, each with the check of watched runs that judges its findings."""

_RAISING = (
    "dtype-mismatch",
    "grad-outside-graph",
    "loss-target-dtype",
    "removed-api",
    "shape-mismatch",
    "super-init-order",
)
"""Rules that predict an error at the line."""

_JUDGES = {
    "missing-zero-grad": "gradients:missing_zero_grad",
    "cleared-before-step": "gradients:cleared_before_step",
    "step-without-backward": "gradients:step_without_backward",
    "training-under-no-grad": "gradmode:training_under_no_grad",
    "undetached-accumulation": "graphs:undetached_accumulation",
    "retain-graph-in-loop": "retention:retain_graph_in_loop",
    "inplace-on-saved-tensor": "inplace:inplace_on_saved_tensor",
    "inplace-on-leaf": "inplace:inplace_on_leaf",
    "empty-cache-in-loop": "switches:empty_cache_in_loop",
    "anomaly-detection-left-on": "switches:anomaly_detection_left_on",
    "clip-outside-step": "clips:clip_outside_step",
    "clip-before-unscale": "clips:clip_before_unscale",
    "nonscalar-backward": "errors:nonscalar_backward",
    "second-backward": "errors:second_backward",
    "backward-arity": "errors:backward_arity",
    "uncalled-method": "errors:uncalled_method",
    "discarded-result": "errors:discarded_result",
    "scheduler-never-stepped": "schedules:scheduler_never_stepped",
    "scheduler-before-optimizer": "schedules:scheduler_before_optimizer",
    "evaluation-with-grad": "modes:evaluation_with_grad",
    "training-in-eval-mode": "modes:training_in_eval_mode",
    "dropout-ignores-mode": "modes:dropout_ignores_mode",
    "module-created-in-forward": "parts:module_created_in_forward",
    "generator-graph-in-discriminator-step": "parts:generator_graph_in_discriminator_step",
    "softmax-before-cross-entropy": "losses:softmax_before_cross_entropy",
    "sigmoid-before-bce-with-logits": "losses:sigmoid_before_bce_with_logits",
    "loss-without-activation": "losses:loss_without_activation",
    "kl-div-input": "losses:kl_div_input",
    "lopsided-accumulation": "windows:lopsided_accumulation",
    "parameter-lost-by-move": "parts:parameter_lost_by_move",
    "unregistered-module": "parts:unregistered_module",
    "rebuilt-optimizer": "setups:rebuilt_optimizer",
    "optimizer-of-old-tensor": "setups:optimizer_of_old_tensor",
    "benchmark-with-deterministic": "setups:benchmark_with_deterministic",
    "absent-class-weights": "errors:absent_class_weights",
    "undetached-hidden-state": "errors:hidden_state",
    **dict.fromkeys(_RAISING, "errors:at_line"),
    **dict.fromkeys(CHECKS, "checked:by_check"),
    "worker-seeding": "checked:worker_seeding",
}
VERIFIABLE = tuple(_JUDGES)
"""The names of the rules whose findings a run can judge."""

MORE_STEPS = "run more steps, for example with --max-steps 200"
READ = "read the code around it"
NO_JUDGE = "no run can judge findings of this rule"
CUDA = "run it on a machine with a CUDA GPU"


def confirmed(reason: str, numbers: Mapping[str, float], first_step: int | None = None) -> Verdict:
    """The run showed the defect."""
    return Verdict(Answer.CONFIRMED, reason, numbers, first_step)


def refuted(reason: str, numbers: Mapping[str, float]) -> Verdict:
    """The run showed the opposite of the defect, in two independent ways."""
    return Verdict(Answer.REFUTED, reason, numbers)


def inconclusive(
    reason: str, numbers: Mapping[str, float] | None = None, advice: str = MORE_STEPS, *, doubtful: bool = False
) -> Verdict:
    """The code ran, but the evidence decides nothing."""
    return Verdict(Answer.INCONCLUSIVE, reason, numbers or {}, advice=advice, doubtful=doubtful)


def sighted(seen: Sighting, evidence: Evidence) -> Verdict:
    """The verdict from a check's sighting; with advice it is only a suspicion."""
    if seen.advice:
        said = inconclusive(seen.message, seen.numbers, seen.advice)
    else:
        said = confirmed(seen.message, seen.numbers, seen.first_step if seen.first_step >= 0 else None)
    return replace(said, device=evidence.process.device)


def not_reached(reason: str = "the flagged code did not run", advice: str = "") -> Verdict:
    """The code did not run."""
    return Verdict(Answer.NOT_REACHED, reason, advice=advice)


def verdict(claim: Claim, processes: Sequence[Evidence]) -> Verdict:
    """The verdict of all processes of a run about a claim. One process that showed the defect is enough."""
    if claim.rule not in _JUDGES:
        return inconclusive(NO_JUDGE, advice=READ)
    module, _, name = _JUDGES[claim.rule].partition(":")
    judge: Judge = getattr(import_module(f"torchlint.verify.judges.{module}"), name)
    verdicts = [replace(_judged(judge, claim, evidence), device=evidence.process.device) for evidence in processes]
    found = strongest(verdicts)
    if found.answer in (Answer.NOT_REACHED, Answer.INCONCLUSIVE) and _ran_in_workers_only(claim, processes):
        reason = "the code only ran in a worker process, which trains nothing"
        return inconclusive(reason, advice="run it in the training process (num_workers=0)")
    return found


def _ran_in_workers_only(claim: Claim, processes: Sequence[Evidence]) -> bool:
    """Whether flagged code ran only in processes that do not train."""
    reached = {evidence.trains for evidence in processes if claim.index in evidence.reached}
    return reached == {False} and any(evidence.trains for evidence in processes)


def strongest(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of several processes or runs. One with the defect is enough; one with doubts prevents refuting."""
    return min(verdicts, key=_rank, default=not_reached("nothing was observed"))


def _rank(verdict: Verdict) -> int:
    order = (Answer.CONFIRMED, Answer.REFUTED, Answer.INCONCLUSIVE, Answer.NOT_REACHED)
    return order.index(verdict.answer) * 2 - verdict.doubtful * 3


def _judged(judge: Judge, claim: Claim, evidence: Evidence) -> Verdict:
    """The judge's verdict, unless the lines may have run in compiled code."""
    found = judge(claim, evidence)
    if found.answer is Answer.NOT_REACHED and evidence.process.compiled:
        reason = "the line was not observed: the program uses torch.compile, and compiled lines cannot be watched"
        return inconclusive(reason, advice="run the program without torch.compile (TORCHDYNAMO_DISABLE=1)")
    return found


def times(count: float, what: str) -> str:
    """A count with its noun: `1 step`, `12 steps`."""
    return f"{count:,.0f} {what}{'' if count == 1 else 's'}"


def size(count: float) -> str:
    """Bytes for people: `512 bytes`, `3.4 kB`, `12 MB`."""
    if abs(count) < 1000:
        return times(count, "byte")
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if abs(count) < 1000 or unit == "GB":
            break
    return f"{count:.1f} {unit}" if abs(count) < 10 else f"{count:,.0f} {unit}"

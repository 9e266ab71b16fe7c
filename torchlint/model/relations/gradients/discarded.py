"""Backward passes of a step whose gradients are cleared before a further pass of the same step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model.events import Backward, Call, Clear, Clip, Event, GradRead, MayClear, Step
from torchlint.model.module_values import is_forward
from torchlint.model.program import Trace
from torchlint.model.relations.gradients.arrivals import Gradients
from torchlint.model.values import Answer, Value, resolved


class DiscardedPass(NamedTuple):
    """`clear` discards the gradients of `backward`; `step` uses only those of `following`."""

    clear: Clear
    backward: Backward
    following: Backward
    step: Step


def discarded_passes(gradients: Gradients, trace: Trace, optimizer: Value) -> Iterator[DiscardedPass]:
    """The passes before a step of an optimizer whose gradients only this optimizer could use, and never does.

    Silent if code may read the gradients before they are cleared.
    """
    arrivals = gradients.arrivals(trace, optimizer)
    steps = [step for step in trace.of(Step) if resolved(step.optimizer) is optimizer and not step.manual]
    if len(steps) != 1:
        return
    step = steps[0]
    for clear in trace.of(Clear):
        there = arrivals.get(clear, frozenset())
        is_sure = clear.explicit and not any(item.is_unknown for item in there) and _is_alike(clear, step)
        if not is_sure or gradients.ownership.clears(clear.target, optimizer) is not Answer.YES:
            continue
        for backward in gradients.pending(there):
            following = _following(gradients, trace, clear, step)
            is_before = _is_alike(backward, clear) and backward.order < clear.order and backward.framework is None
            if is_before and following is not None and not _is_used(gradients, trace, backward, clear, step):
                yield DiscardedPass(clear, backward, following, step)


def _is_alike(event: Event, other: Event) -> bool:
    """Whether two events happen equally often."""
    return event.loops == other.loops and event.path == other.path and not event.passed and not other.passed


def _following(gradients: Gradients, trace: Trace, clear: Clear, step: Step) -> Backward | None:
    """A pass between a clearing and a step that gives the step its gradients."""
    for backward in trace.of(Backward):
        if clear.order < backward.order < step.order and _is_alike(backward, step):
            if gradients.ownership.surely_reaches(backward, resolved(step.optimizer)):
                return backward
    return None


def _is_used(gradients: Gradients, trace: Trace, backward: Backward, clear: Clear, step: Step) -> bool:
    """Whether another optimizer, or code before the clearing, may use the gradients of a pass."""
    others = (item for item in gradients.ownership.optimizers(trace) if item is not resolved(step.optimizer))
    if any(gradients.ownership.reaches(backward, item) for item in others):
        return True
    between = [item for item in trace.of(Event) if backward.order < item.order < clear.order]
    return any(
        isinstance(item, (GradRead, Clip, MayClear)) or (isinstance(item, Call) and not is_forward(item.value))
        for item in between
    )

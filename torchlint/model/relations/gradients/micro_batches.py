"""Micro-batches whose gradients are cleared or clipped before the end of their accumulation window."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from torchlint.model.events import Backward, Call, Clear, Clip, Exit, Step, apart, items_in
from torchlint.model.module_values import is_forward, is_module_like
from torchlint.model.program import Trace
from torchlint.model.queries.clipping import may_be_of
from torchlint.model.relations.gradients.arrivals import Arrival, Gradients
from torchlint.model.relations.gradients.windows import Window, windows_of
from torchlint.model.values import Value, resolved

_LEAVING = frozenset({Exit.BREAK, Exit.RETURN})
"""Exits by which a loop may end before its last micro-batch."""


class LostMicroBatch(NamedTuple):
    """`clear` runs with each micro-batch, `step` once in several: it uses the `backward` of the last one only."""

    clear: Clear
    backward: Backward
    step: Step


def lost_micro_batches(gradients: Gradients, trace: Trace, optimizer: Value) -> Iterator[LostMicroBatch]:
    """The clearings of an optimizer that throw micro-batches away, each once.

    Silent if the gradients may have another use: by another optimizer, by code that reads them, by a call that is not
    followed. Silent for passes of frameworks: they skip clearings within a window.
    """
    arrivals = gradients.arrivals(trace, optimizer)
    steps = [step for step in trace.of(Step) if resolved(step.optimizer) is optimizer and not step.manual]
    for clear in trace.of(Clear) if steps else ():
        there = arrivals.get(clear, frozenset())
        if not clear.loops or not gradients.pending(there) or any(item.is_unknown for item in there):
            continue
        found = (_lost_by(clear, step, gradients, trace, there & arrivals.get(step, frozenset())) for step in steps)
        yield from islice((item for item in found if item is not None), 1)


def clipped_micro_batches(gradients: Gradients, trace: Trace, optimizer: Value) -> Iterator[tuple[Clip, Backward]]:
    """Clippings with each micro-batch of an optimizer that steps once in several, and the pass before each.

    Silent if a condition on the number of the micro-batch guards the clipping, if each micro-batch clears, and for
    scaled gradients, whose clipping has a rule of its own.
    """
    arrivals = gradients.arrivals(trace, optimizer)
    steps = [step for step in trace.of(Step) if resolved(step.optimizer) is optimizer and step.scaler is None]
    for clip in trace.of(Clip) if steps else ():
        there = arrivals.get(clip, frozenset())
        if not clip.loops or any(item.is_unknown for item in there) or any(windows_of(clip, gradients.program.tree)):
            continue
        if may_be_of(clip, optimizer, gradients.ownership):
            passes = (item for item in gradients.pending(there) if item.loops == clip.loops and not apart(item, clip))
            backward = max(passes, key=lambda item: item.order, default=None)
            if backward is not None and any(_sums(gradients, trace, clip, backward, step) for step in steps):
                yield clip, backward


def _sums(gradients: Gradients, trace: Trace, clip: Clip, backward: Backward, step: Step) -> bool:
    """Whether a step, and each clearing, come only at the end of a window of passes that are all clipped."""
    windows = set(windows_of(step, gradients.program.tree))
    is_after = backward.order < clip.order < step.order and step.loops == clip.loops and not step.manual
    if not is_after or not windows or not windows.isdisjoint((*backward.path, *backward.passed)):
        return False
    optimizer = resolved(step.optimizer)
    clears = (item for item in trace.of(Clear, clip.loops) if gradients.ownership.may_clear(item, optimizer))
    return all(not windows.isdisjoint((*clear.path, *clear.passed)) for clear in clears)


def _lost_by(
    clear: Clear, step: Step, gradients: Gradients, trace: Trace, both: frozenset[Arrival]
) -> LostMicroBatch | None:
    """The micro-batch whose gradients are cleared, and that also reaches the step as the last one."""
    if step.loops != clear.loops[: len(step.loops)] or any(item.is_unknown for item in gradients.at(trace, step)):
        return None
    windows = set(windows_of(step, gradients.program.tree))
    for backward in gradients.pending(both):
        if _is_lost(clear, backward, step, windows) and not _is_for_others(gradients, trace, backward, step):
            return None if _may_be_read(trace, step) else LostMicroBatch(clear, backward, step)
    return None


def _is_lost(clear: Clear, backward: Backward, step: Step, windows: set[Window]) -> bool:
    """Whether each iteration with a backward clears, and the step comes only at the end of a window, or of the loop."""
    if backward.loops != clear.loops or not set(clear.path) <= set(backward.path):
        return False
    if step.loops == clear.loops:
        return bool(windows) and windows.isdisjoint((*clear.path, *clear.passed, *backward.path, *backward.passed))
    return not any(item in _LEAVING for item in items_in(clear.loops[len(step.loops)].body) if isinstance(item, Exit))


def _may_be_read(trace: Trace, step: Step) -> bool:
    """Whether an unfollowed call in the loop receives a model or the optimizer, and may collect gradients."""
    optimizer = resolved(step.optimizer)
    calls = (call.value for call in trace.of(Call, step.loops) if not is_forward(call.value))
    return any(item is optimizer or is_module_like(item) for call in calls for item in map(resolved, call.parents))


def _is_for_others(gradients: Gradients, trace: Trace, backward: Backward, step: Step) -> bool:
    """Whether a framework runs the pass, or another optimizer that steps here may use its gradients."""
    others = (item for item in gradients.ownership.optimizers(trace) if item is not resolved(step.optimizer))
    return backward.framework is not None or any(gradients.ownership.reaches(backward, item) for item in others)

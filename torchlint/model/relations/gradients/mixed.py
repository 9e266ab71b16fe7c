"""Steps that also use the gradients of a pass for another network."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from torchlint.model.events import Backward, Clear, Step, apart
from torchlint.model.program import Trace
from torchlint.model.queries.gradient_users import mentions_flag
from torchlint.model.relations.gradients.arrivals import Gradients
from torchlint.model.values import Answer, Value, resolved


class MixedStep(NamedTuple):
    """`step` uses the gradients of `own`, and those of `foreign`, which continues into the network of `other`.

    `clear` prepares the other network for that pass, and leaves the gradients of this one.
    """

    step: Step
    own: Backward
    foreign: Backward
    other: Step
    clear: Clear


def mixed_steps(gradients: Gradients, trace: Trace, optimizer: Value) -> Iterator[MixedStep]:
    """The first step of an optimizer that uses two passes, one of which is for another optimizer alone.

    The sign is that only the other one is cleared right before that pass. Joint losses clear both before the first.
    Silent if the file sets `requires_grad` of parameters: it may switch them off for the pass.
    """
    arrivals, ownership = gradients.arrivals(trace, optimizer), gradients.ownership
    others = [item for item in trace.of(Step) if resolved(item.optimizer) is not optimizer]
    if not others or any(map(mentions_flag, gradients.program.files)):
        return
    for step in trace.of(Step):
        there = arrivals.get(step, frozenset())
        passes = [item for item in gradients.pending(there) if item.order < step.order and not apart(item, step)]
        if resolved(step.optimizer) is not optimizer or len(passes) < 2 or any(item.is_unknown for item in there):
            continue
        for foreign, other in product(passes, others):
            holder = resolved(other.optimizer)
            own = next((item for item in passes if not ownership.reaches(item, holder)), None)
            both = ownership.surely_reaches(foreign, optimizer) and ownership.surely_reaches(foreign, holder)
            clear = _preparation(gradients, trace, foreign, optimizer, holder) if own is not None and both else None
            if own is not None and clear is not None and _is_apart(clear, foreign, own, other):
                yield MixedStep(step, own, foreign, other, clear)
                return


def _preparation(
    gradients: Gradients, trace: Trace, foreign: Backward, optimizer: Value, holder: Value
) -> Clear | None:
    """The last clearing before a pass, if it is only for the other optimizer."""
    before = [item for item in trace.of(Clear, foreign.loops) if item.order < foreign.order]
    last = next((item for item in reversed(before) if not apart(item, foreign)), None)
    if last is None or not last.explicit or gradients.ownership.clears(last.target, holder) is not Answer.YES:
        return None
    return last if gradients.ownership.clears(last.target, optimizer) is Answer.NO else None


def _is_apart(clear: Clear, foreign: Backward, own: Backward, other: Step) -> bool:
    """Whether the other network starts after the own pass, or ends before it."""
    begins_later = own.order < clear.order < foreign.order < other.order
    return begins_later or foreign.order < other.order < own.order

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

    `clear` prepares the other network for that pass, or follows its step, and leaves the gradients of this one.
    """

    step: Step
    own: Backward
    foreign: Backward
    other: Step
    clear: Clear

    @property
    def is_finished(self) -> bool:
        """Whether the other network has finished its step before the own pass begins."""
        return self.foreign.order < self.other.order < self.own.order


def mixed_steps(gradients: Gradients, trace: Trace, optimizer: Value) -> Iterator[MixedStep]:
    """The first step of an optimizer that uses two passes, one of which is for another optimizer alone.

    The sign is that only the other one is cleared, right before that pass or right after its step. Joint losses clear
    both before the first.
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
            clears = _clearings(gradients, trace, foreign, optimizer, holder) if own is not None and both else ()
            clear = next((item for item in clears if own is not None and _is_apart(item, foreign, own, other)), None)
            if own is not None and clear is not None:
                yield MixedStep(step, own, foreign, other, clear)
                return


def _clearings(
    gradients: Gradients, trace: Trace, foreign: Backward, optimizer: Value, holder: Value
) -> Iterator[Clear]:
    """The clearings nearest to a pass, before and after it, that are only for the other optimizer."""
    clears = [item for item in trace.of(Clear, foreign.loops) if not apart(item, foreign)]
    before = next((item for item in reversed(clears) if item.order < foreign.order), None)
    after = next((item for item in clears if item.order > foreign.order), None)
    for clear in (before, after):
        if clear is not None and clear.explicit and gradients.ownership.clears(clear.target, holder) is Answer.YES:
            if gradients.ownership.clears(clear.target, optimizer) is Answer.NO:
                yield clear


def _is_apart(clear: Clear, foreign: Backward, own: Backward, other: Step) -> bool:
    """Whether the other network starts after the own pass, or ends before it."""
    if clear.order > foreign.order:
        return foreign.order < other.order < clear.order < own.order
    begins_later = own.order < clear.order < foreign.order < other.order
    return begins_later or foreign.order < other.order < own.order

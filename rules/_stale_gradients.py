"""Gradients that a step has used, and that the next backward adds to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from torchlint import Model
from torchlint.model.dataflow import Flow
from torchlint.model.events import (
    Backward,
    Clear,
    Event,
    Item,
    Loop,
    Step,
    exclusive,
)
from torchlint.model.ownership import MAX_OPTIMIZERS
from torchlint.model.program import Trace
from torchlint.model.values import (
    Answer,
    Instance,
    Parameters,
    Tensor,
    Unknown,
    Value,
    resolved,
)
from torchlint.pytorch import api, naming

from ._timed_loops import only_times


@dataclass(frozen=True)
class StaleGradients:
    """`backward` adds to gradients that already went into `step`, and `following` takes them again; nothing clears
    them in between."""

    backward: Backward
    step: Step
    following: Step
    loop: Loop | None
    cleared_elsewhere: bool
    """Whether something clears them, or may, though not between these steps."""


class History(NamedTuple):
    """What one path has done to the gradients of an optimizer."""

    last: Step | None = None
    """The last step."""
    empty: bool = False
    """Whether it came upon gradients that had just been cleared."""
    cleared: bool = False
    """Whether they were (perhaps) cleared since."""
    fresh: bool = True
    """Whether a backward has (perhaps) been there since they were cleared."""
    added: bool = False
    """Whether a backward has added to those that the last step used."""

    @property
    def is_stale(self) -> bool:
        """Whether there are gradients that the last step used."""
        return self.last is not None and not (self.empty or self.cleared)

    def stepped(self, step: Step) -> History:
        return History(step, empty=not self.fresh)

    def gone_backward(self) -> History:
        return self._replace(fresh=True, added=self.added or self.is_stale)

    def with_clearing(self) -> History:
        return self._replace(cleared=True, fresh=False)


class GradientsBetweenSteps:
    """What happens to the gradients of optimizers between their steps, as a typestate."""

    def __init__(self, model: Model) -> None:
        self.program = model.program
        self.tracking = model.tracking
        self.ownership = model.ownership

    def _regions(self, trace: Trace) -> Iterator[tuple[Step, Loop | None]]:
        """Each step with the innermost loop that holds it and a backward, or None for the function itself."""
        losses = trace.of(Backward)
        training = {loop for backward in losses for loop in backward.loops}
        for step in trace.of(Step):
            around = next((loop for loop in reversed(step.loops) if loop in training), None)
            if around is not None:
                yield step, around
            elif losses and self._repeated_by_callers(trace, step, losses):
                yield step, None

    def _repeated_by_callers(self, trace: Trace, step: Step, losses: list[Backward]) -> bool:
        """Whether a function without a loop is one iteration of training: it computes the loss it steps on,
        its callers are elsewhere, and nobody in this module clears for it."""
        if trace.root is None or trace.called or step.manual or self.program.is_test:
            return False
        if not any(self._computed_here(backward.loss) for backward in losses):
            return False
        optimizer = resolved(step.optimizer)
        if _is_made_in(optimizer, trace):
            return False
        return not any(
            self._is_for(event, other, optimizer, trace)
            for other in self.program.traces
            if other is not trace
            for event in other.of(Clear)
        )

    def _computed_here(self, loss: Value) -> bool:
        """Whether the forward pass of a loss is in the function, and the loss not just handed to it."""
        return any(
            (isinstance(item, Tensor) and (item.op == "module" or item.leaf))
            or (isinstance(item, Unknown) and item.origin == "call")
            for item in self.tracking.graph(loss)
        )

    def _is_for(self, clear: Clear, other: Trace, optimizer: Value, trace: Trace) -> bool:
        """Whether a clearing elsewhere may be meant for the optimizer of a function that does not clear itself."""
        if clear.target is not None and self.ownership.clears(clear.target, optimizer) is Answer.YES:
            return True
        same_class = other.receiver is not None and other.receiver is trace.receiver
        return same_class and self.ownership.clears(clear.target, optimizer) is not Answer.NO

    def can_clear(self, step: Step) -> bool:
        """Whether the optimizer of a step has a `zero_grad`, as far as one can tell."""
        optimizer = resolved(step.optimizer)
        if optimizer.has_use("zero_grad"):
            return True
        if not isinstance(optimizer, Instance):
            return not self._is_of_imported_class(optimizer)
        inherits = any(isinstance(item, str) for item in optimizer.info.ancestors())
        return inherits or optimizer.info.method("zero_grad") is not None

    def _is_of_imported_class(self, optimizer: Value) -> bool:
        """Whether a class made it that is neither of this module nor known: a wrapper, which need not be like what
        it wraps."""
        made = self.program.tree.node(optimizer.site)
        name = self.program.definitions.named(made.func) if isinstance(made, ast.Call) else ""
        last = name.rpartition(".")[2]
        known = api.package(name) == "torch" or last in self.program.definitions.class_names
        return naming.is_class_name(last) and not known and not naming.is_algorithm(last)

    def clearings_of(self, optimizer: Value) -> Iterator[Clear]:
        """What clears, anywhere in the module, or may clear, the gradients that an optimizer steps on."""
        return (event for event in self.ownership.clearings if self.ownership.may_clear(event, optimizer))

    def stale(self) -> Iterator[StaleGradients]:
        """Steps between which no path clears, though at least one adds to the gradients."""
        for trace in self.program.traces:
            done: dict[Loop | None, set[Value]] = {}
            for step, loop in self._regions(trace):
                optimizer, asked = resolved(step.optimizer), done.setdefault(loop, set())
                if optimizer in asked or len(asked) == MAX_OPTIMIZERS:
                    continue
                asked.add(optimizer)
                found = list(self._stale_in(self.ownership.touching(loop or trace), loop, optimizer))
                if found and not (loop is not None and only_times(loop, trace, self.program.definitions)):
                    yield from found

    def _stale_in(self, items: list[Item], loop: Loop | None, optimizer: Value) -> Iterator[StaleGradients]:
        arrivals: dict[tuple[Step, Step], set[History]] = {}
        stale: dict[Step, list[Backward]] = {}

        def transfer(event: Event, states: frozenset[History]) -> frozenset[History]:
            if isinstance(event, Step) and resolved(event.optimizer) is optimizer:
                for state in states:
                    if state.last is not None:
                        arrivals.setdefault((state.last, event), set()).add(state)
                return frozenset(state.stepped(event) for state in states)
            if isinstance(event, Backward):
                if not self.ownership.reaches(event, optimizer) or _is_bare_leaf(event.loss):
                    return states
                for state in states:
                    if state.is_stale and state.last is not None:
                        stale.setdefault(state.last, []).append(event)
                return frozenset(state.gone_backward() for state in states)
            if self.ownership.may_clear(event, optimizer):
                return frozenset(state.with_clearing() for state in states)
            return states

        flow = Flow(transfer)
        once = flow.run(items, frozenset({History()})) | flow.exits.get("continue", frozenset())
        if loop is None:
            once |= flow.exits.get("return", frozenset())
        flow.exits.clear()
        again = flow.run(items, once) | flow.exits.get("continue", frozenset())
        flow.run(items, again)
        for (last, step), paths in arrivals.items():
            if exclusive(last.path, step.path):
                continue  # one arm steps for both only if its condition changes between the iterations
            if any(path.added for path in paths) and not any(path.cleared for path in paths):
                backward = self._plainest(stale[last], optimizer)
                yield StaleGradients(backward, last, step, loop, any(self.clearings_of(optimizer)))

    def _plainest(self, backwards: list[Backward], optimizer: Value) -> Backward:
        """The first backward pass that surely reaches an optimizer; else the first."""
        return min(backwards, key=lambda event: (not self.ownership.surely_reaches(event, optimizer), event.order))


def _is_made_in(optimizer: Value, trace: Trace) -> bool:
    """Whether a function makes its optimizer, of a kind that is not known: by a call with what it steps on."""
    made = isinstance(optimizer, Unknown) and optimizer.origin in ("call", "object") and optimizer.order > trace.start
    return made and any(
        isinstance(item, Parameters) or bool(naming.MODULE.search(item.label)) for item in optimizer.parents
    )


def _is_bare_leaf(loss: Value) -> bool:
    """`parameter.backward(gradient)`: a gradient set by hand, as tests of optimizers do."""
    return isinstance(loss, Tensor) and loss.leaf

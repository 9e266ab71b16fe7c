"""Graphs that `retain_graph=True` keeps though no later pass goes through them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torchlint.model.events import Backward, Event, Grad, Loop, MayClear, Returned, Step, events_in, exclusive
from torchlint.model.program import Program, Trace
from torchlint.model.tracking import Tracking
from torchlint.model.values import (
    Answer,
    Container,
    GradMode,
    Instance,
    Module,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    resolved,
)


@dataclass(frozen=True)
class UnusedRetention:
    """`backward` retains a graph that nothing uses again; `hidden` is the state that drags it along, if any."""

    backward: Backward
    loop: Loop | None
    hidden: Phi | None


class Retention:
    """Answers about `retain_graph=True`."""

    def __init__(self, program: Program, tracking: Tracking) -> None:
        self.program = program
        self.tracking = tracking

    def unused(self) -> Iterator[UnusedRetention]:
        """Backward passes that retain a graph for nobody."""
        for trace in self.program.traces:
            events = list(events_in(trace.items))
            for event in events:
                if isinstance(event, Backward) and event.retain is True and event.create is False:
                    loop = event.loops[-1] if event.loops else None
                    if self._is_unused(trace, event, loop, events):
                        yield UnusedRetention(event, loop, self._hidden_state(event))

    def _is_unused(self, trace: Trace, backward: Backward, loop: Loop | None, events: list[Event]) -> bool:
        if loop is None and not self._repeated_by_callers(trace, backward, events):
            return False
        graph = self.tracking.graph(backward.loss, carried=False)
        results = {item for item in graph if _is_result(item)}
        if not any(self._computed(item) for item in results) or self._built_outside(results, backward, loop):
            return False
        return not any(self._uses(event, results, backward) for event in events if event is not backward)

    def _computed(self, item: Value) -> bool:
        return not (isinstance(item, Unknown) and item.origin != "call")

    def _repeated_by_callers(self, trace: Trace, backward: Backward, events: list[Event]) -> bool:
        """A function that trains one batch: it steps too, and hands no part of the graph on."""
        if trace.root is None or trace.called:
            return False
        if not any(isinstance(event, Step) for event in events):
            return False
        graph = self.tracking.graph(backward.loss, carried=False)
        results = {item for item in graph if _is_result(item)}
        escaping = set()
        for event in events:
            if isinstance(event, Returned):
                escaping |= self.tracking.graph(event.value)
        heap = self.program.interpreter.heap
        for (owner, _), value in heap.items():
            if isinstance(owner, (Instance, Module)):
                escaping |= self.tracking.graph(value)
        return results.isdisjoint(escaping)

    def _built_outside(self, results: set[Value], backward: Backward, loop: Loop | None) -> bool:
        """Whether part of the graph is older than the iteration: each pass needs it again."""
        if loop is None:
            return any(
                isinstance(item, Unknown)
                and item.origin == "parameter"
                and item in self.tracking.backpropagated
                for item in results
            )
        inner = self.tracking.graph(backward.loss, carried=False)
        for item in inner:
            if loop in item.loops or isinstance(item, (Plain, Container, Phi)):
                continue
            if isinstance(item, Tensor) and not item.leaf and self.tracking.tracked(item) is Answer.YES:
                return True
            if isinstance(item, Unknown) and item in self.tracking.backpropagated:
                return True
            if (
                isinstance(item, Unknown)
                and item.origin == "call"
                and self.tracking.tracked(item) is Answer.YES
            ):
                return True
        return self._reads_old_attributes(inner, loop)

    def _reads_old_attributes(self, graph: set[Value], loop: Loop) -> bool:
        """Losses stored on objects (`out.loss_a`, `self.loss`) hang on a graph that may be built anywhere."""
        return any(
            isinstance(item, Unknown) and item.origin == "attribute" and item in self.tracking.backpropagated
            for item in graph
        )

    def _uses(self, event: Event, results: set[Value], backward: Backward) -> bool:
        """Whether a later event passes through the graph, or might."""
        if exclusive(event.path, backward.path):
            return False
        later = event.order > backward.order
        if isinstance(event, (Backward, Grad)):
            output = event.loss if isinstance(event, Backward) else event.outputs
            graph = self.tracking.graph(output, carried=False) if later else self.tracking.graph(output)
            if later:
                return not graph.isdisjoint(results)
            shared = (graph - self.tracking.graph(output, carried=False)) & results
            return bool(shared)
        if isinstance(event, MayClear) and later:
            return any(not self.tracking.graph(item).isdisjoint(results) for item in event.handed)
        return False

    def _hidden_state(self, backward: Backward) -> Phi | None:
        """A value of the previous iteration in the graph that was never detached."""
        for item in sorted(self.tracking.graph(backward.loss, carried=False), key=lambda item: item.order):
            if (
                isinstance(item, Phi)
                and item.is_loop
                and any(self._drags(parent, item) for parent in item.parents[1:])
            ):
                return item
        return None

    def _drags(self, value: Value, phi: Phi) -> bool:
        return self.tracking.tracked(value) is Answer.YES and phi in self.tracking.graph(value)


def _is_result(item: Value) -> bool:
    if isinstance(item, Tensor):
        return not item.leaf and item.mode is not GradMode.OFF
    return (
        isinstance(resolved(item), Unknown)
        and isinstance(item, Unknown)
        and item.origin in ("call", "attribute", "element", "parameter")
    )

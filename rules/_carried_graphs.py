"""Values that carry the graph of an earlier iteration, which its backward has freed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from torchlint import Model
from torchlint.model.events import Backward, Call, Loop, events_in
from torchlint.model.module_values import is_hooked, modules_of
from torchlint.model.program import Trace
from torchlint.model.values import Attribute, Component, Container, Phi, Plain, Tensor, Value, inputs_of
from torchlint.syntax.python_ast import site_of, walk


class CarriedGraph(NamedTuple):
    """`backward` frees the graph of `maker`, which the next loss needs because it depends on `state`."""

    maker: Value
    user: Value
    """The first value computed from the previous state."""
    state: Value
    name: str
    """The name of the state in the program; may be empty."""
    carried: Value
    """The value of the state in the next iteration, or at the next call."""
    backward: Backward
    loop: Loop | None
    """None where each call to a method is an iteration."""


class CarriedGraphs:
    """Answers about graphs that continue into the next iteration; only certain steps count for this error."""

    def __init__(self, model: Model) -> None:
        self.program = model.program
        self.sure_graphs = model.sure_graphs
        self.module_states = model.module_states

    def carried(self) -> Iterator[CarriedGraph]:
        """The state in the next iteration, or at the next call."""
        for trace in [] if self.program.is_test else self.program.traces:
            for backward in trace.of(Backward):
                yield from islice(self._of(trace, backward), 1)

    def _of(self, trace: Trace, backward: Backward) -> Iterator[CarriedGraph]:
        if backward.keeps_graph is not False:
            return
        graph = self.sure_graphs.of(backward.loss)
        loop = backward.loops[-1] if backward.loops else None
        if loop is not None and _repeats(loop, backward):
            for output, kept in self.module_states.dragged(graph, loop):
                yield CarriedGraph(output, kept.user, kept.before, f"self.{kept.name}", kept.after, backward, loop)
        pairs = self._through_loop(graph, loop, backward) if loop is not None else self._through_object(graph, trace)
        for state, carried in pairs:
            shared = self._with_wholes(graph) & self._with_wholes(self.sure_graphs.of(carried))
            makers = self._makers(shared, trace, backward)
            if makers and not self._may_be_cut(trace, loop, state, carried):
                maker = max(makers, key=lambda item: item.order)
                yield CarriedGraph(maker, _user(graph, state) or maker, state, state.label, carried, backward, loop)

    def _makers(self, shared: set[Value], trace: Trace, backward: Backward) -> set[Value]:
        """The parts of a graph that certainly save tensors which their backward frees."""
        trained = {item for item in shared if isinstance(item, Tensor) and self.sure_graphs.is_trained_call(item)}
        computed = self.sure_graphs.computed(trace, backward) if backward.loops else set()
        return trained | (shared & computed & self.sure_graphs.tracking.backpropagated)

    def _with_wholes(self, graph: set[Value]) -> set[Value]:
        """A graph, with the module calls whose results it contains, if they have a graph."""
        parts = (item for item in graph if isinstance(item, Component))
        return graph | {item.parents[0] for item in parts if len(self.sure_graphs.of(item)) > 1}

    # -- from iteration to iteration, from call to call ------------------------------------------------------

    def _through_loop(self, graph: set[Value], loop: Loop, backward: Backward) -> Iterator[tuple[Value, Value]]:
        """The previous iteration's values in a graph, where each iteration goes backward, with their new values."""
        if not _repeats(loop, backward):
            return
        for phi in _by_age(graph):
            if isinstance(phi, Phi) and phi.loop is loop and len(phi.parents) == 2:
                yield phi, phi.parents[1]

    def _through_object(self, graph: set[Value], trace: Trace) -> Iterator[tuple[Value, Value]]:
        """The attributes of an object that one of its methods reads, goes backward through, and reassigns."""
        if trace.receiver is None or trace.root is None or trace.root.owner is None or trace.root.name == "__init__":
            return
        for item in _by_age(graph):
            attribute = isinstance(item, Attribute) and item.parents[0] is trace.receiver
            carried = trace.heap.get((trace.receiver, item.label)) if attribute else None
            if carried is not None and not self._is_used_elsewhere(trace, item.label):
                yield item, carried

    def _is_used_elsewhere(self, trace: Trace, name: str) -> bool:
        """Whether code other than `__init__` and this method reads or writes an attribute of this name."""
        assert trace.root is not None
        nodes = (node for node in self.program.nodes(ast.Attribute) if node.attr == name)
        around = {self.program.definitions.function_around(node) for node in nodes}
        return any(item is not trace.root and (item is None or item.name != "__init__") for item in around)

    def _may_be_cut(self, trace: Trace, loop: Loop | None, state: Value, carried: Value) -> bool:
        """Whether any code may detach the state.

        Examples are `detach_`, a call that receives it, a hook, or an assignment to its attribute.
        """
        site = loop.site if loop is not None else site_of(trace.root.node) if trace.root is not None else None
        body = self.program.tree.node(site)
        attributes = [node for node in walk(body) if isinstance(node, ast.Attribute)] if body else []
        if any(node.attr in ("detach_", "set_") or _changes_data(node) for node in attributes):
            return True
        edge = loop.edge if loop is not None else trace.edge
        if edge is None or any(owner in edge.contents for owner, name in edge.attributes if name == state.label):
            return True
        if any(map(is_hooked, modules_of(self.sure_graphs.of(carried)))):
            return True
        calls = [event for event in events_in(loop.body) if isinstance(event, Call)] if loop else trace.of(Call)
        same = {state, carried, *inputs_of(state), *carried.parents}
        return any(not same.isdisjoint(_arguments(event)) for event in calls)


def _repeats(loop: Loop, backward: Backward) -> bool:
    """Whether each iteration of a loop goes backward here."""
    return not (loop.implicit or loop.always_leaves or backward.path != loop.path or backward.passed)


def _user(graph: set[Value], state: Value) -> Value | None:
    """The first value of a graph computed from a state, if it is in this file."""
    using = (item for item in _by_age(graph) if isinstance(item, Tensor) and state in item.parents)
    return next((item for item in using if item.site is not None and item.site.inner is None), None)


def _changes_data(node: ast.Attribute) -> bool:
    """`state.data = ...`; only reading it has no effect on the state."""
    return node.attr == "data" and not isinstance(node.ctx, ast.Load)


def _by_age(values: Iterable[Value]) -> list[Value]:
    """Values in the order of their creation, and names in program order: the answer is deterministic."""
    return sorted(values, key=lambda item: (item.order, item.label))


def _arguments(call: Call) -> set[Value]:
    """The arguments of a call, with their contents."""
    found = {item for parent in call.value.parents for item in inputs_of(parent) if not isinstance(item, Plain)}
    return found | {element for item in found if isinstance(item, Container) for element in item.elements()}

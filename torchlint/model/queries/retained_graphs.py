"""Graphs that `retain_graph=True` keeps although no later pass goes through them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from torchlint.model.events import (
    Backward,
    Call,
    Event,
    Grad,
    Loop,
    MayClear,
    exclusive,
)
from torchlint.model.lineage import on_path, result_of_call
from torchlint.model.module_values import modules_of
from torchlint.model.program import Program, Trace
from torchlint.model.queries import variables
from torchlint.model.tracking import Tracking
from torchlint.model.values import (
    Answer,
    Attribute,
    CallResult,
    Component,
    Container,
    Function,
    Module,
    ModuleOutput,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    resolved,
)
from torchlint.pytorch import losses, naming
from torchlint.syntax.python_ast import Site, names_in, walk

if TYPE_CHECKING:
    from torchlint.model.parts import Parts
    from torchlint.model.relations.held import Held
    from torchlint.model.relations.module_states import ModuleStates

_OF_LAYERS = frozenset({"weight", "bias"})
"""Attributes that no `forward` computes."""


@dataclass(frozen=True)
class UnusedRetention:
    """`backward` retains a graph that nothing uses again; `hidden` is the state that carries it along, if any."""

    backward: Backward
    loop: Loop
    hidden: Value | None
    name: str = ""
    """The name of that state in the program."""


class RetainedGraphs:
    """Answers about `retain_graph=True`."""

    def __init__(
        self, program: Program, tracking: Tracking, module_states: ModuleStates, held: Held, parts: Parts
    ) -> None:
        self.program = program
        self.tracking = tracking
        self.module_states = module_states
        self.held = held
        self._parts = parts
        self._known_passes: dict[Trace, dict[Value, list[Event]]] = {}
        self._known_calls: dict[Trace, list[Event]] = {}

    def hides_state(self, backward: Backward) -> bool:
        """Whether a backward retains its graph because a hidden state carries the graphs of earlier iterations."""
        return any(item.backward is backward and item.hidden is not None for item in self._unused)

    def unused(self) -> Iterator[UnusedRetention]:
        """Backward passes that retain an unused graph; for passes with one hidden state, the first of them."""
        seen: set[Value] = set()
        for item in self._unused:
            if item.hidden not in seen:
                yield item
            seen |= {item.hidden} if item.hidden is not None else set()

    @cached_property
    def _unused(self) -> list[UnusedRetention]:
        return [] if self.program.is_test else list(self._find_unused())

    def _find_unused(self) -> Iterator[UnusedRetention]:
        for trace in self.program.traces:
            needed, unused = set[Site](), list[Backward]()
            for event in trace.of(Backward):
                is_training = not event.given_inputs  # otherwise it computes gradients of some inputs, as `grad` does
                if is_training and event.retain is True and event.create is False and event.loops:
                    if self._is_unused(event, event.loops[-1], trace):
                        unused.append(event)
                    else:
                        needed.add(event.site.written)
            for event in unused:
                if event.site.written in needed or self._is_chosen_by_caller(event):
                    continue  # another pass of the same line needs its graph again
                yield from self._retention(event, event.loops[-1])

    def _is_chosen_by_caller(self, backward: Backward) -> bool:
        """Whether a function computes the loss under a test of its parameter: another caller may need the graph."""
        node = self.program.tree.node(backward.site) if backward.calls else None
        loss = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        file = self.program.definitions_of(node) if node is not None else None
        around = file.function_around(node) if file is not None and node is not None else None
        if not isinstance(loss, ast.Name) or file is None or around is None:
            return False
        for name in variables.bindings(loss.id, loss, file):
            tests = (item.test for item in file.tree.ancestors(name) if isinstance(item, ast.If))
            if any(not names_in(test).isdisjoint(around.parameters) for test in tests):
                return True
        return False

    def _retention(self, backward: Backward, loop: Loop) -> Iterator[UnusedRetention]:
        """The reason to retain the graph: a state of the loop, a state that a module stores, or None."""
        hidden, graph = self._hidden_state(backward), self.tracking.graph(backward.loss, carried=False)
        kept = next(self.module_states.dragged(graph, loop), None) if hidden is None else None
        if kept is not None:
            yield UnusedRetention(backward, loop, kept[1].before, f"self.{kept[1].name}")
        elif hidden is not None or not any(map(self.module_states.may_drag, modules_of(graph))):
            yield UnusedRetention(backward, loop, hidden, hidden.label if hidden is not None else "")

    def _is_unused(self, backward: Backward, loop: Loop, trace: Trace) -> bool:
        graph = self.tracking.graph(backward.loss, carried=False)
        results = {item for item in graph if self._is_result(item) and loop in item.loops}
        if not any(self._is_forward(item) for item in graph):
            return False
        if not results or self._built_outside(graph, loop):
            return False
        if any(self._uses(event, results, backward) for event in self._users(trace, results, backward)):
            return False
        if self._passes_stored(trace, graph, backward) or self._carries_state(trace, graph, loop):
            return False
        own = results - self._below_leaves(graph)
        return self.held.outlives(
            {item for item in own if self.tracking.tracked(item) is Answer.YES}, loop, backward.path
        )

    def _below_leaves(self, graph: set[Value]) -> set[Value]:
        """The values from which the leaves of a graph were made; they are not part of the graph."""
        made_of = (parent for item in graph if isinstance(item, Tensor) and item.leaf for parent in item.parents)
        return {item for parent in made_of for item in self.tracking.graph(parent)}

    def _users(self, trace: Trace, results: set[Value], backward: Backward) -> Iterator[Event]:
        """The events that may pass through these results, the last first; other results do not count."""
        passes = self._passes(trace)
        for item in results:
            yield from (event for event in reversed(passes.get(item, [])) if event is not backward)
        yield from self._unresolved(trace)

    def _passes_stored(self, trace: Trace, graph: set[Value], backward: Backward) -> bool:
        """Whether a later pass goes through an attribute that a module of the graph may have set in its `forward`."""
        called = {resolved(item.parents[0]) for item in graph if isinstance(item, ModuleOutput)}
        called |= {resolved(item.callee) for item in graph if isinstance(item, CallResult) and item.callee is not None}
        stored = {
            item
            for event in trace.of_kinds(Backward, Grad)
            if event.order > backward.order and not exclusive(event.path, backward.path)
            for item in self.tracking.pass_through(event.outputs, carried=False)
            if isinstance(item, (Attribute, Container)) and item.label not in _OF_LAYERS
        }
        return bool(stored) and any(map(self._parts.part_of_any(called, derived=True), stored))

    def _carries_state(self, trace: Trace, graph: set[Value], loop: Loop) -> bool:
        """Whether code sets a state of an unknown module before a loop, so that its calls in the loop may share it."""
        called = {resolved(item.callee) for item in graph if isinstance(item, CallResult) and item.callee is not None}
        return any(
            resolved(owner) in called and not isinstance(resolved(value), Plain) and loop not in resolved(value).loops
            for (owner, _), value in trace.heap.items()
        )

    def _passes(self, trace: Trace) -> dict[Value, list[Event]]:
        """The passes of a trace, by each value in their graphs."""
        found = self._known_passes.get(trace)
        if found is None:
            found = self._known_passes[trace] = {}
            for event in trace.of_kinds(Backward, Grad):
                for item in self.tracking.pass_through(event.outputs):
                    found.setdefault(item, []).append(event)
        return found

    def _unresolved(self, trace: Trace) -> list[Event]:
        """Unresolved calls that may go backward."""
        found = self._known_calls.get(trace)
        if found is None:
            touching = (event for event in trace.of(MayClear) if naming.may_touch_gradients(event.name))
            calls = (event for event in trace.of(Call) if any(map(_goes_backward, event.value.parents)))
            found = self._known_calls[trace] = [*touching, *calls]
        return found

    def _is_forward(self, item: Value) -> bool:
        """Whether a value is the output of a module or a loss: the start of a graph in this iteration."""
        if isinstance(item, Unknown):
            label = item.callee.label if item.callee is not None else ""
            named = naming.is_called_as_module(label) or bool(naming.LOSS.search(label))
            return isinstance(item, CallResult) and (named or item in self.tracking.backpropagated)
        return isinstance(item, Tensor) and (item.leaf or isinstance(item, ModuleOutput) or item.op in losses.OPERATORS)

    def _is_result(self, item: Value) -> bool:
        """Whether a value is the result of an operator or call, and has a graph as far as torchlint knows."""
        if isinstance(item, Tensor):
            return not item.leaf and not isinstance(item, Component)
        return isinstance(item, CallResult)

    def _built_outside(self, graph: set[Value], loop: Loop) -> bool:
        """Whether part of the graph is older than the iteration, so that each pass needs it again."""
        if any(self._holds_graph(module) for module in modules_of(graph)):
            return True
        for item in graph:
            if isinstance(item, (Plain, Container, Phi)) or loop in item.loops:
                continue
            if isinstance(item, Unknown) and item in self.tracking.backpropagated:
                return True
            is_network = isinstance(item, ModuleOutput) and self.tracking.tracked(item) is not Answer.NO
            if is_network or (self._is_result(item) and self.tracking.tracked(item) is Answer.YES):
                return True
            if self._may_have_graph(item, graph):
                return True
        return False

    def _may_have_graph(self, item: Value, graph: set[Value]) -> bool:
        """Whether a value comes from an unknown object's method, a `forward` or a network's: it may have a graph."""
        callee = item.callee if isinstance(item, Unknown) else None
        if callee is None or self.tracking.tracked(item) is Answer.NO:
            return False
        of_a_network = any(naming.MODULE.search(name) for name in _owners(callee))
        return callee.label == "forward" or (of_a_network and item not in self._carried(graph))

    def _carried(self, graph: set[Value]) -> set[Value]:
        """The part of a graph that iterations pass on, including `state` of `state = model.begin_state(32)`."""
        handed = (parent for item in graph if isinstance(item, Phi) and item.is_loop for parent in item.parents)
        return {item for parent in handed for item in self.tracking.graph(parent)}

    def _holds_graph(self, module: Value) -> bool:
        """Whether a module computes a tensor from its parameters in its constructor, and stores it."""
        info = module.info if isinstance(module, Module) else None
        return info is not None and any(
            isinstance(owner, Module) and owner.info is info and self._is_made_with_graph(value)
            for (owner, _), value in self.program.observations.stored.items()
        )

    def _is_made_with_graph(self, value: Value) -> bool:
        if not self._is_result(value) or self.tracking.tracked(value) is not Answer.YES or value.site is None:
            return False
        around = self.program.definitions.function_around(self.program.tree.node(value.site))
        return around is not None and around.name == "__init__"

    def _uses(self, event: Event, results: set[Value], backward: Backward) -> bool:
        """Whether a later event passes through the graph, or might."""
        if exclusive(event.path, backward.path):
            return False
        later = event.order > backward.order
        if isinstance(event, (Backward, Grad)):
            now = self.tracking.pass_through(event.outputs, carried=False)
            if later:
                return not now.isdisjoint(results)
            return not (self.tracking.pass_through(event.outputs) & results).issubset(now)
        if isinstance(event, MayClear):
            return later and any(not self.tracking.graph(item).isdisjoint(results) for item in event.handed)
        return isinstance(event, Call)

    def _hidden_state(self, backward: Backward) -> Phi | None:
        """A value of the previous iteration in the graph, without a detach."""
        for item in sorted(self.tracking.graph(backward.loss, carried=False), key=lambda item: item.order):
            if (
                isinstance(item, Phi)
                and item.loop in backward.loops
                and any(self._drags(left, item) for left in self._left(item, backward))
            ):
                return item
        return None

    def _left(self, state: Phi, backward: Backward) -> Iterator[Value]:
        """The values of a state at the end of an iteration that goes backward: a branch may start it again there."""
        for value in state.parents[1:]:
            yield from on_path(value, backward.path)

    def _drags(self, value: Value, phi: Phi) -> bool:
        """Whether a value carries the graph of the previous one along.

        That is known of it, or it is another output of a trained module that received the previous value.
        """
        if self.tracking.tracked(value) is Answer.YES:
            return phi in self.tracking.graph(value)
        call = result_of_call(value)
        return call is not None and call in self.tracking.backpropagated and phi in call.parents


def _owners(method: Value) -> Iterator[str]:
    """The names before a method's name, except classes: `body` and `model` of `model.body.features`."""
    while method.parents:
        method = method.parents[0]
        if not naming.is_class_name(method.label):
            yield method.label


def _goes_backward(handed: Value) -> bool:
    """Whether a function passed to other code goes backward, through any graph."""
    return isinstance(handed, Function) and any(
        isinstance(node, ast.Attribute) and node.attr in ("backward", "grad") for node in walk(handed.info.node)
    )

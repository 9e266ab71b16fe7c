"""Upkeep calls on the hot path: cache emptying and anomaly detection."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from torchlint import hints
from torchlint.model.assignments import names_read
from torchlint.model.conditions import is_main_guard
from torchlint.model.events import (
    Anomaly,
    Backward,
    Branch,
    Call,
    Compute,
    EmptyCache,
    Event,
    Fresh,
    Loop,
    MemoryProbe,
    Step,
    events_in,
    repeating,
)
from torchlint.model.program import Program, Trace
from torchlint.model.tracking import has_parameters, is_forward, is_module
from torchlint.model.values import Answer, Module, Optimizer, Unknown, Value, inputs_of
from torchlint.pythontree import FUNCTIONS, Site, dotted, is_literal, site_of, walk

_PER_BATCH = re.compile(r"step|batch|iter")


@dataclass(frozen=True)
class CacheEmptied:
    """The cache is emptied in every iteration of a loop (None: of a function called per batch)."""

    event: EmptyCache
    site: Site
    loop: Loop | None
    work: Event


@dataclass(frozen=True)
class AnomalyLeftOn:
    """Anomaly detection is on, and nothing in the program decides whether."""

    site: Site


class Upkeep:
    """Answers about upkeep calls."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def caches_emptied(self) -> Iterator[CacheEmptied]:
        """Cache emptying in every iteration that trains or infers; a test has reasons of its own."""
        for trace in self.program.traces:
            if self.program.tests(trace):
                continue
            for event in trace.events:
                if isinstance(event, EmptyCache):
                    found = self._emptied(trace, event, trace.events)
                    if found is not None:
                        yield found

    def _emptied(self, trace: Trace, event: EmptyCache, events: list[Event]) -> CacheEmptied | None:
        loop = event.loops[-1] if event.loops else None
        if loop is None and not (trace.root is not None and not trace.called and _PER_BATCH.search(trace.root.name)):
            return None
        inside = [other for other in events if (loop in other.loops if loop is not None else True)]
        if self._measures(inside) or self._sweeps(loop, inside):
            return None
        work = [other for other in inside if self._works(other) and repeating(other.loops) == repeating(event.loops)]
        if loop is None:
            work = [other for other in work if isinstance(other, Backward)]
        for other in work:
            if self._in_step_with(event, other, loop):
                return CacheEmptied(event, event.site, loop, other)
        return None

    def _measures(self, inside: list[Event]) -> bool:
        """Whether a loop is a benchmark of memory: it resets the counters, or reads them before and after."""
        probes = [other for other in inside if isinstance(other, MemoryProbe)]
        return any(probe.resets for probe in probes) or len(probes) > 1

    def _sweeps(self, loop: Loop | None, inside: list[Event]) -> bool:
        """A loop over models or runs, not over batches: it makes a model, or an optimizer that it steps, each time."""
        used = (value for other in inside for value in _used(other))
        return any(_is_run(item) for value in used for item in inputs_of(value) if item.loops[-1:] == (loop,))

    def _works(self, event: Event) -> bool:
        """Whether an event trains or infers."""
        if isinstance(event, (Backward, Step)):
            return True
        return isinstance(event, (Compute, Call)) and is_forward(event.value)

    def _in_step_with(self, event: EmptyCache, work: Event, loop: Loop | None) -> bool:
        """Whether the call happens whenever the work does: in training each condition on it is one on the work
        too; in inference there is none, since a condition is what makes validation rare."""
        if isinstance(work, (Backward, Step)):
            return event.path == work.path[: len(event.path)]
        return len(event.path) == len(loop.path if loop is not None else ())

    # -- anomaly detection ------------------------------------------------------------------------------

    def anomalies_left_on(self) -> Iterator[AnomalyLeftOn]:
        """Anomaly detection that is switched on without a switch, in code that trains."""
        if self.program.is_test:
            return
        trains = self._trains()
        for trace in self.program.traces:
            for event in trace.events:
                if isinstance(event, Anomaly) and trains and self._always_on(event, trace.events):
                    yield AnomalyLeftOn(event.site)
        yield from self._trainer_flags()

    def _always_on(self, event: Anomaly, events: list[Event]) -> bool:
        """Whether no condition decides; one on a caller that trains decides about training, not about this."""
        if event.on is not True or self._in_test(self.program.tree.node(event.site)):
            return False
        if any(isinstance(other, Anomaly) and other.on is not True and other.order > event.order for other in events):
            return False
        if self._covers_one_step(event, events):
            return False
        works = any(isinstance(other, Backward) and other.calls[: len(event.calls)] == event.calls for other in events)
        if not works:
            return not event.path
        inner = event.path[len(event.call_path) :]
        return all(self._decides_about_training(branch, arm) for branch, arm in inner)

    def _decides_about_training(self, branch: object, arm: int) -> bool:
        """Whether a condition is about training as such: one arm trains, no other does, and its name is no flag's."""
        node = self.program.tree.node(branch.site) if isinstance(branch, Branch) else None
        if not isinstance(branch, Branch) or not isinstance(node, ast.If):
            return False
        if any(hints.DEBUGGING.search(name) for name in names_read(node.test)):
            return False
        trains = [any(isinstance(item, Backward) for item in events_in(items)) for items in branch.arms]
        return trains[arm] and sum(trains) == 1

    def _covers_one_step(self, event: Anomaly, events: list[Event]) -> bool:
        """`with detect_anomaly():` around a single backward outside all loops, to look at one batch."""
        tree = self.program.tree
        item = tree.parent(tree.node(event.site))
        block = tree.parent(item) if isinstance(item, ast.withitem) else None
        if block is None or event.loops:
            return False
        inside = [
            other for other in events if isinstance(other, Backward) and block in tree.ancestors(tree.node(other.site))
        ]
        return bool(inside) and not any(other.loops for other in inside)

    def _trains(self) -> bool:
        return any(
            isinstance(event, (Backward, Step)) or (isinstance(event, Fresh) and isinstance(event.value, Optimizer))
            for trace in self.program.traces
            for event in trace.events
        )

    def _in_test(self, node: ast.AST) -> bool:
        function = self.program.definitions.method_around(node)
        if function is None:
            return False
        named = any(
            dotted(call.func).endswith("gradcheck") for call in walk(function.node) if isinstance(call, ast.Call)
        )
        return function.name.startswith("test") or named

    def _trainer_flags(self) -> Iterator[AnomalyLeftOn]:
        """`Trainer(detect_anomaly=True)` of Lightning."""
        for call in self.program.tree.of_type(ast.Call):
            name = self.program.definitions.qualified(dotted(call.func))
            if name.rpartition(".")[2] != "Trainer" or not ("lightning" in name or name == "Trainer"):
                continue
            for item in call.keywords:
                if item.arg == "detect_anomaly" and is_literal(item.value, True):
                    if not self._in_test(call) and not self._is_conditional(call):
                        yield AnomalyLeftOn(site_of(item))

    def _is_conditional(self, node: ast.AST) -> bool:
        """Whether an `if` of the same function decides about a node."""
        for item in self.program.tree.ancestors(node):
            if isinstance(item, FUNCTIONS):
                return False
            if isinstance(item, (ast.If, ast.IfExp)) and not (isinstance(item, ast.If) and is_main_guard(item.test)):
                return True
        return False


def _used(event: Event) -> tuple[Value, ...]:
    """The module that an event makes or runs, with what that was made of; or the optimizer that it steps."""
    if isinstance(event, Fresh):
        return (event.value,) if isinstance(event.value, Module) else ()
    if isinstance(event, Step):
        return (event.optimizer,)
    if isinstance(event, Compute) and is_forward(event.value):
        return event.value.parents[:1]
    callee = event.value.callee if isinstance(event, Call) else None
    return (callee, *callee.parents[:1]) if callee is not None else ()


def _is_run(value: Value) -> bool:
    """Whether making a value begins a run: it is an optimizer, or a module that can learn."""
    if isinstance(value, Module):
        return has_parameters(value)
    made = isinstance(value, Unknown) and value.origin in ("call", "object")
    return isinstance(value, Optimizer) or (made and is_module(value) is Answer.YES)

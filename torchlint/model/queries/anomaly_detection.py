"""Anomaly detection that is left on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from torchlint.model.evaluate.assignments import names_read
from torchlint.model.evaluate.conditions import is_main_guard
from torchlint.model.events import Anomaly, Backward, Branch, Event, Fresh, Step, events_in
from torchlint.model.program import Program
from torchlint.model.values import Optimizer
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import FUNCTIONS, Site, dotted, is_literal, site_of, walk


@dataclass(frozen=True)
class AnomalyLeftOn:
    """Anomaly detection is on, and nothing in the program decides whether."""

    site: Site


class AnomalyDetection:
    """Answers about anomaly detection."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def left_on(self) -> Iterator[AnomalyLeftOn]:
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
        if any(naming.DEBUGGING.search(name) for name in names_read(node.test)):
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
            name = self.program.definitions.qualified(dotted(call.func), call)
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

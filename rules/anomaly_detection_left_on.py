"""Anomaly detection in training code."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import libcst as cst

from torchlint import Category, Rule, edits
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, program, values
from torchlint.pytorch import api, naming, triggers
from torchlint.syntax import python_ast

_CHOOSING = frozenset({"signal", "set_defaults", "add_signal_handler"})
"""Calls that receive functions which a user may select."""
_HUNTING = LazyPattern(r"(?:^|_)debug(?:_|\.|$)")
"""Names of scripts and functions that look for a bug."""


class AnomalyLeftOn(NamedTuple):
    """Anomaly detection is on, and no option of the program controls it."""

    site: python_ast.Site


class AnomalyDetectionLeftOn(Rule):
    """Anomaly detection is always on in training code, and nothing turns it off.

    ## What it does
    Finds `set_detect_anomaly(True)`, `detect_anomaly()` and `Trainer(detect_anomaly=True)`, if no flag, argument,
    environment variable or configuration value decides whether they run.

    Not reported: scripts for debugging, with a name such as `debug_nan.py`.

    ## Why is this bad?
    Every training step is slower. Anomaly detection stores a stack trace for every operator and checks every gradient
    for NaN. It helps to find the cause of a NaN, but is not meant for normal training. On a CPU, steps took 1.6 to 2.2
    times as long. On an H200, they took 2.4 times as long for a small network, 3.1 times for a ResNet-18 and 3.7 times
    for a Transformer with six layers.

    ## Example
    ```python
    import torch

    torch.autograd.set_detect_anomaly(True)

    def train(model, loader, criterion, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, optimizer, debug=False):
        torch.autograd.set_detect_anomaly(debug)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    The fix deletes the call, the argument, or the `with` around a block. It is unsafe, because `backward` then no
    longer raises an error when it meets a NaN.

    ## What verify shows
    `torchlint verify` confirms the finding if steps run with anomaly detection on. It then measures the last steps with
    and without it. It refutes the finding if steps run with anomaly detection off.

    ## References
    - [Anomaly detection](https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection)
    """

    code = "TL402"
    category = Category.PERFORMANCE
    is_free_unless_run = True
    triggers = (triggers.ANOMALY,)

    def ask(self) -> Iterator[AnomalyLeftOn]:
        """Anomaly detection that is on without a switch, in training code."""
        if self.model.is_test or _HUNTING.search(os.path.basename(self.model.tree.source.path)):
            return
        trains = self._trains()
        for trace in self.model.program.traces:
            for switch in trace.of(events.Anomaly):
                if trains and self._always_on(switch, trace):
                    yield AnomalyLeftOn(switch.site)
        yield from self._trainer_flags()

    def _always_on(self, switch: events.Anomaly, trace: program.Trace) -> bool:
        """Whether no condition decides; a condition on a caller that trains is about training, not about this."""
        if switch.on is not True or self._in_test(self.model.tree.node(switch.site)):
            return False
        later = (other for other in trace.of(events.Anomaly) if other.order > switch.order)
        passes = list(trace.of_kinds(events.Backward, events.Step))
        if passes and not switch.loops and all(item.order < switch.order for item in passes):
            return False  # it comes after the training
        if any(other.on is not True for other in later) or self._covers_one_step(switch, trace):
            return False
        if self._is_asked_for(switch) or self._is_block_on_condition(switch):
            return False
        depth = len(switch.calls)
        if not any(backward.calls[:depth] == switch.calls for backward in trace.of(events.Backward)):
            return not switch.path
        inner = switch.path[len(switch.call_path) :]
        return all(self._decides_about_training(branch, arm) for branch, arm in inner)

    def _is_asked_for(self, switch: events.Anomaly) -> bool:
        """Whether the call's function measures, looks for a bug, handles a signal, or is one of several commands."""
        function = self.model.definitions.method_around(self.model.tree.node(switch.site))
        if function is None:
            return False
        return (
            function.name in self._chosen
            or bool(naming.MEASURING.search(function.name))
            or bool(_HUNTING.search(function.name))
        )

    @cached_property
    def _chosen(self) -> set[str]:
        """Functions that are passed to a call from which a user selects."""
        calls = FileIndex.of(self.model.tree).calls_named(*_CHOOSING)
        return {python_ast.dotted(item) for call in calls for item in python_ast.arguments(call)}

    def _is_block_on_condition(self, switch: events.Anomaly) -> bool:
        """`with detect_anomaly():` under an `if` about a result, to rerun a failed step."""
        tree = self.model.tree
        node = tree.node(switch.site)
        function = self.model.definitions.function_around(node)
        if not isinstance(tree.parent(node), ast.withitem):
            return False
        if any(map(self._is_asked_in_loop, map(tree.node, switch.calls))):
            return True
        if function is None:
            return False
        computed = self.model.definitions.names_assigned([function.node])
        tests = [item.test for item in tree.ancestors(node) if isinstance(item, ast.If)]
        asked = any(isinstance(item, ast.Call) for test in tests for item in python_ast.walk(test))
        return asked or any(not computed.isdisjoint(python_ast.names_read(test)) for test in tests)

    def _is_asked_in_loop(self, call: ast.AST) -> bool:
        """Whether a call is in a loop, under an `if` about results of its iterations: `if loss.isnan():`."""
        tests: list[ast.expr] = []
        for item in self.model.tree.ancestors(call):
            if isinstance(item, ast.If):
                tests.append(item.test)
            elif isinstance(item, python_ast.LOOPS):
                computed = self.model.definitions.names_assigned(item.body)
                return any(not computed.isdisjoint(python_ast.names_read(test)) for test in tests)
        return False

    def _decides_about_training(self, branch: object, arm: int) -> bool:
        """Whether a condition turns training on: one branch trains, no other does, and no flag is named."""
        node = self.model.tree.node(branch.site) if isinstance(branch, events.Branch) else None
        if not isinstance(branch, events.Branch) or not isinstance(node, ast.If):
            return False
        if any(naming.DEBUGGING.search(name) for name in python_ast.names_read(node.test)):
            return False
        trains = [any(isinstance(item, events.Backward) for item in events.events_in(items)) for items in branch.arms]
        return trains[arm] and sum(trains) == 1

    def _covers_one_step(self, switch: events.Anomaly, trace: program.Trace) -> bool:
        """`with detect_anomaly():` around a single backward outside all loops, to inspect one batch.

        Also around a call that contains one, where other backward passes are elsewhere.
        """
        tree = self.model.tree
        item = tree.parent(tree.node(switch.site))
        block = tree.parent(item) if isinstance(item, ast.withitem) else None
        if block is None or switch.loops:
            return False
        if self._is_done_again(block):
            return True
        inside, outside = list[events.Backward](), list[events.Backward]()
        for backward in trace.of(events.Backward):
            places = (tree.node(site) for site in (*backward.calls, backward.site))
            is_inside = any(block in tree.ancestors(place) for place in places)
            (inside if is_inside else outside).append(backward)
        is_own = any(block in tree.ancestors(tree.node(backward.site)) for backward in inside)
        return bool(inside) and not any(backward.loops for backward in inside) and (is_own or bool(outside))

    def _is_done_again(self, block: ast.AST) -> bool:
        """Whether a loop of the function repeats a block's call without the block, which was a single trial."""
        function = self.model.definitions.function_around(block)
        inside = [node for node in python_ast.walk(block) if isinstance(node, ast.Call)]
        tried = {python_ast.dotted(call.func) for call in inside if python_ast.dotted(call.func).startswith("self.")}
        loops = python_ast.walk(function.node) if function is not None and tried else ()
        again = (node for loop in loops if isinstance(loop, python_ast.LOOPS) for node in python_ast.walk(loop))
        calls = (node for node in again if isinstance(node, ast.Call) and node not in inside)
        return any(python_ast.dotted(call.func) in tried for call in calls)

    def _trains(self) -> bool:
        """Whether the code steps, goes backward, or creates an optimizer.

        Models that only run without gradients do not count. A backward with explicit gradients inspects those of the
        inputs, and a backward of a script outside of loops is a check.
        """
        traces = self.model.program.traces
        passes = (
            event for trace in traces for event in trace.of(events.Backward) if event.loops or trace.root is not None
        )
        if any(trace.of(events.Step) for trace in traces) or any(not item.given_gradient for item in passes):
            return True
        made = (event.value for trace in traces for event in trace.of(events.Fresh))
        calls = (event for trace in traces for event in trace.of(events.MayClear))
        handed = {values.resolved(item) for event in calls for item in event.handed if item is not event.receiver}
        modes = {event.value.mode for trace in traces for event, _ in self.model.mode.passes(trace)}
        return modes != {api.GradMode.OFF} and any(
            isinstance(item, values.Optimizer) and (modes or item in handed) for item in made
        )

    def _in_test(self, node: ast.AST) -> bool:
        function = self.model.definitions.method_around(node)
        if function is None:
            return False
        calls = (call for call in python_ast.walk(function.node) if isinstance(call, ast.Call))
        named = any(python_ast.dotted(call.func).endswith("gradcheck") for call in calls)
        return function.name.startswith("test") or named

    def _trainer_flags(self) -> Iterator[AnomalyLeftOn]:
        """`Trainer(detect_anomaly=True)` of Lightning."""
        for call in self.model.tree.of_type(ast.Call):
            name = self.model.definitions.named(call.func).removesuffix(".from_argparse_args")
            if name.rpartition(".")[2] != "Trainer" or not ("lightning" in name or name == "Trainer"):
                continue
            for item in call.keywords:
                if any(item.arg == "fast_dev_run" for item in call.keywords):
                    continue
                if item.arg == "detect_anomaly" and python_ast.is_literal(item.value, True):
                    if not self._in_test(call) and not self._is_conditional(call):
                        yield AnomalyLeftOn(python_ast.site_of(item))

    def _is_conditional(self, node: ast.AST) -> bool:
        """Whether an `if` of the same function decides about a node."""
        for item in self.model.tree.ancestors(node):
            if isinstance(item, python_ast.FUNCTIONS):
                return False
            if isinstance(item, ast.IfExp) or (isinstance(item, ast.If) and not python_ast.is_main_guard(item.test)):
                return True
        return False

    def report_AnomalyLeftOn(self, left_on: AnomalyLeftOn) -> None:
        self.report(
            left_on.site,
            "anomaly detection is on for every step and slows training; nothing switches it off",
            help="delete it, or put it behind a debugging flag",
            fix=self._fix(left_on.site),
        )

    def _fix(self, site: python_ast.Site) -> edits.Change | None:
        switch = self.written(site)
        if self.nodes is None or switch is None:
            return None
        tree = self.nodes.tree
        item = tree.parent(switch)
        block = tree.parent(item) if isinstance(item, cst.WithItem) and item.asname is None else None
        if isinstance(block, cst.With) and len(block.items) == 1:
            return edits.Change("take the block out of anomaly detection", [edits.Unwrap(block)])
        if isinstance(block, cst.With) and item is not None:
            return edits.Change("take the block out of anomaly detection", [edits.Delete(item)])
        if isinstance(switch, cst.Arg):
            return edits.Change("drop `detect_anomaly=True`", [edits.Delete(switch)])
        return edits.Change("delete the call", [edits.Delete(switch)]) if tree.stands_alone(switch) else None

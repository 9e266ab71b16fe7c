"""Gradient scalers: steps and unscalings after which an iteration ends without a scaler update."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model.dataflow import Flow
from torchlint.model.events import Branch, Call, Clear, Event, Exit, Loop, MayClear, Step, Unscale, Yield
from torchlint.model.ownership import GIVING, Ownership
from torchlint.model.program import Program, Trace
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import Instance, Module, Optimizer, Value, inputs_of, resolved
from torchlint.syntax.python_ast import called_name, dotted, names_read, walk
from torchlint.syntax.python_tree import PythonTree


class NotUpdated(NamedTuple):
    """After `event` an iteration may end without an update of the scaler: the next iteration raises at `event`."""

    event: Step | Unscale
    update: Call | None
    """The update that some paths do not reach; None if there is none."""


def not_updated(program: Program) -> Iterator[NotUpdated]:
    """The steps and unscalings of scalers that the program creates and surely enables."""
    for trace in program.traces:
        for event in trace.of_kinds(Step, Unscale):
            scaler = resolved(event.scaler) if event.scaler is not None else None
            if scaler is None or not is_kind(scaler, Kind.SCALER):
                continue
            loop = trace.training_loop(event)
            updates = [call for call in trace.of(Call, event.loops[:1]) if _updates(call, scaler)]
            follows = all(
                set(event.path) <= set(item.path) and set(event.passed) <= set(item.passed) for item in updates
            )
            is_repeated = loop is not None or (updates and trace.root is not None and scaler.order <= trace.start)
            is_elsewhere = not updates and _is_updated_elsewhere(program, scaler)
            if follows and is_repeated and not is_elsewhere and _is_on(scaler, event, updates, program.tree):
                if _Iterations(program, event, scaler).leave_it_open(loop or trace):
                    yield NotUpdated(event, updates[0] if updates else None)


class SteppedAgain(NamedTuple):
    """`step` uses the gradients that `first`, the step of a scaler, has used: nothing gives new ones between them."""

    step: Step
    first: Step


def stepped_again(trace: Trace, ownership: Ownership) -> Iterator[SteppedAgain]:
    """The steps of an optimizer that always follow one by a scaler, with the same gradients."""
    steps = trace.of(Step)
    for first in steps:
        optimizer = resolved(first.optimizer)
        if first.scaler is None or not isinstance(optimizer, Optimizer):
            continue
        for step in steps:
            is_same = resolved(step.optimizer) is optimizer and step.scaler is None and not step.manual
            in_one_pass = (step.loops, step.path, step.passed) == (first.loops, first.path, first.passed)
            if is_same and in_one_pass and step.order > first.order and step.calls == first.calls:
                inside = [event for event in trace.of_kinds(*GIVING) if first.order < event.order < step.order]
                changing = (isinstance(event, (Clear, MayClear, Yield)) for event in inside)
                if not any(changing) and not any(ownership.may_give_gradients(item, optimizer) for item in inside):
                    yield SteppedAgain(step, first)


class _Iterations:
    """Follows one step or unscaling around its loop, or through a function that its callers call repeatedly.

    The state is whether the scaler waits for an update.
    """

    def __init__(self, program: Program, event: Step | Unscale, scaler: Value) -> None:
        self._program = program
        self._event = event
        self._scaler = scaler
        self._tests = {self._test(branch): arm for branch, arm in event.path if isinstance(branch, Branch)}

    def leave_it_open(self, region: Loop | Trace) -> bool:
        """Whether an iteration can end without an update."""
        flow = Flow(self._transfer)
        flow.taken = lambda branch: self._tests.get(self._test(branch))
        ends = flow.run(region.body if isinstance(region, Loop) else region.items, frozenset({False}))
        ends |= flow.exits.get(Exit.CONTINUE if isinstance(region, Loop) else Exit.RETURN, frozenset())
        return True in ends and not (isinstance(region, Loop) and self._is_made_in(region))

    def _is_made_in(self, loop: Loop) -> bool:
        """Whether a loop creates a new scaler."""
        node = self._program.tree.own_node(loop.site)
        calls = (item for item in walk(node) if isinstance(item, ast.Call)) if node is not None else ()
        return any(called_name(call) == "GradScaler" for call in calls)

    def _transfer(self, event: Event, states: frozenset[bool]) -> frozenset[bool]:
        if event is self._event:
            return frozenset({True})
        if isinstance(event, Yield) or (isinstance(event, Call) and self._may_update(event)):
            return frozenset({False})
        return states

    def _may_update(self, call: Call) -> bool:
        """Whether a call updates the scaler, or receives it, or an object that may hold it."""
        given = [item for parent in call.value.parents for item in inputs_of(parent)]
        return _updates(call, self._scaler) or any(
            item is self._scaler or isinstance(item, Instance) or (isinstance(item, Module) and item.info is not None)
            for item in given
        )

    def _test(self, branch: Branch) -> str:
        """The text of a branch's test; a unique one for a branch without a test."""
        node = self._program.tree.own_node(branch.site)
        return ast.unparse(node.test) if isinstance(node, ast.If) else str(branch.site)


def _updates(call: Call, scaler: Value) -> bool:
    callee = call.value.callee
    return callee is not None and callee.label == "update" and scaler in map(resolved, callee.parents)


def _is_updated_elsewhere(program: Program, scaler: Value) -> bool:
    """Whether the program names a scaler's `update`: for an attribute anywhere, for a variable in its scope."""
    tree, made = program.tree, program.tree.own_node(scaler.site)
    statement = tree.parent(made) if made is not None else None
    is_local = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    function = tree.function_around(made) if made is not None and is_local else None
    for node in program.nodes(ast.Attribute):
        owner, _, last = dotted(node.value).rpartition(".")
        if node.attr == "update" and last == scaler.label and not (owner and is_local):
            if function is None or function in tree.ancestors(node):
                return True
    return False


def _is_on(scaler: Value, event: Step | Unscale, updates: list[Call], tree: PythonTree) -> bool:
    """Whether a scaler is enabled, or depends on a variable that no condition of its updates mentions."""
    inner = scaler.site.inner if scaler.site is not None else None
    node = tree.own_node(scaler.site) if inner is None else inner.tree.own_node(inner.site)
    keywords = node.keywords if isinstance(node, ast.Call) else []
    enabled = next((item.value for item in keywords if item.arg == "enabled"), None)
    if enabled is None:
        return scaler.part("enabled") is None
    if isinstance(enabled, ast.Constant):
        return enabled.value is True
    arms = {arm for item in updates for arm in (*item.path, *item.passed)} - {*event.path, *event.passed}
    tests = [tree.own_node(branch.site) for branch, _ in arms if isinstance(branch, Branch)]
    names = {name for test in tests if isinstance(test, ast.If) for name in names_read(test.test)}
    return names.isdisjoint(names_read(enabled))

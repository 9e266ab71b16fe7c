"""Loops: one symbolic iteration, with a Phi for each name that the body assigns."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from torchlint.model.events import Loop, MayClear, ModeSwitch
from torchlint.model.heap import Change
from torchlint.model.interpret.control.leaving import leaves_only_by_its_end, may_repeat
from torchlint.model.interpret.expressions.targets import Targets
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.elements import Elements
from torchlint.model.interpret.transfer.few import MAX_OBJECTS, objects_in
from torchlint.model.position import LoopScope, changed
from torchlint.model.values import (
    Dict,
    Parameters,
    Phi,
    Plain,
    Tuple,
    Unknown,
    Value,
    resolved,
)
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import dotted, is_literal, site_of, walk

LoopNode = ast.For | ast.AsyncFor | ast.While


class Loops(Part):
    """Runs `for` and `while`."""

    def __init__(self, machine: Machine, elements: Elements, targets: Targets) -> None:
        super().__init__(machine)
        self.elements = elements
        self.targets = targets

    def run_for(self, node: ast.For | ast.AsyncFor) -> None:
        """Run a loop over the items of an iterable."""
        iterable = self.machine.value(node.iter)
        objects: Sequence[Value] = []
        if may_repeat(node) and leaves_only_by_its_end(node):
            objects = objects_in(iterable, of_entries=isinstance(node.iter, ast.Call)) or self._entries(node, iterable)
            objects = objects or ([Plain(node, 0)] if self._is_one_time(node.iter) else [])
        if objects:
            self._run_each(node, objects)
            return

        def begin() -> None:
            self._resume(node.iter)
            self.targets.assign(node.target, self.elements.iterate(iterable, node))

        with self.state.block():
            self.state.mode, _ = self.observations.suspended.get(iterable, (self.state.mode, None))
            self._loop(node, begin, iterable, certain=holds_parameters(iterable))

    def _entries(self, node: ast.For | ast.AsyncFor, iterable: Value) -> Sequence[Value]:
        """The keys of a dictionary with all entries known, or its keys with the entries.

        The loop iterates over `losses`, `losses.keys()` or `losses.items()`.
        """
        func = node.iter.func if isinstance(node.iter, ast.Call) and not node.iter.args else None
        method = func.attr if isinstance(func, ast.Attribute) and func.attr in ("items", "keys") else ""
        if isinstance(func, ast.Attribute) and method and isinstance(func.value, (ast.Name, ast.Attribute)):
            iterable = self.machine.value(func.value)
        elif not isinstance(node.iter, (ast.Name, ast.Attribute)):
            return []
        held = resolved(iterable)
        if not isinstance(held, Dict) or held.parents or len(held.entries) > MAX_OBJECTS:
            return []
        keys = [Plain(node, key) for key in held.entries]
        if method != "items":
            return keys
        pairs = zip(keys, held.entries.values(), strict=True)
        return [self.state.stamp(Tuple(node, pair)) for pair in pairs]

    def _is_one_time(self, iterable: ast.expr) -> bool:
        """Whether a loop runs once: over `range(1)`, or over `range(steps)` after the assignment `steps = 1`."""
        if not isinstance(iterable, ast.Call) or dotted(iterable.func) != "range" or len(iterable.args) != 1:
            return False
        count, tree = iterable.args[0], self.machine.own.tree
        if isinstance(count, ast.Constant):
            return count.value == 1
        value = resolved(self.machine.value(count)) if dotted(count) else None
        if not isinstance(value, Plain) or value.constant != 1 or value.site is None:
            return False
        return isinstance(tree.parent(tree.node(value.site)), (ast.Assign, ast.AnnAssign))

    def _resume(self, iterable: ast.expr) -> None:
        """Record the effects that a generator of the program may have before it yields again."""
        yielding, setting = self.observations.yielding, self.observations.setting
        calls = (node for node in walk(iterable) if isinstance(node, ast.Call)) if yielding or setting else ()
        for call in calls:
            if (owner := setting.get(site_of(call))) is not None:
                self.state.change(owner, Change.UNKNOWN, call, by=dotted(call.func))
            for event in yielding.get(site_of(call), ()):
                if isinstance(event, ModeSwitch):
                    self.state.emit(MayClear(event.site, "train", (event.module,)))
                elif (handed := event.of or event.target) is not None:
                    self.state.emit(MayClear(event.site, "zero_grad", (handed,)))

    def _run_each(self, node: ast.For | ast.AsyncFor, objects: Sequence[Value]) -> None:
        """Run the body for each of a few objects in turn: callbacks, hooks."""
        for item in objects:
            if self.state.alive:
                self.targets.assign(node.target, item)
                self.machine.run(node.body)
        self.machine.run(node.orelse)

    def run_while(self, node: ast.While) -> None:
        """Run a loop that starts with its test."""
        self._loop(node, lambda: self.machine.value(node.test))

    def _loop(
        self, node: LoopNode, begin: Callable[[], object], over: Value | None = None, *, certain: bool = False
    ) -> None:
        state, here = self.state, self.state.position
        event = Loop(site_of(node), [], depth=len(here.calls), path=here.path, certain=certain, over=over)
        scope = LoopScope(event, len(state.entered_from), may_repeat(node))
        if scope.repeats:
            self._open_phis(node, scope)
        before = state.copy()
        with state.at(here.in_scope(scope), event.body):
            self._iterate(node, begin, scope)
            if state.alive and state.mode is not before.mode and before.mode is GradMode.ON:
                self._iterate(node, begin, scope)
            if state.alive and scope.repeats:
                event.edge = changed(before, state.snapshot())
        state.add(event)
        self.machine.run(node.orelse)
        ended = state.snapshot()
        if not (isinstance(node, ast.While) and is_literal(node.test, True)):
            state.merge([ended, *scope.breaks, before], node)
            return
        state.merge(scope.breaks or [ended], node)
        for name, value in ended.locals.items():  # bound by an iteration before the last one
            state.frame.locals.setdefault(name, value)

    def _open_phis(self, node: LoopNode, scope: LoopScope) -> None:
        for name in sorted(self.definitions.assigned_names(node)):
            initial = self.state.frame.locals.get(name)
            if initial is not None:
                phi = self.state.stamp(Phi(initial.site, (initial,), scope.event))
                phi.label = name
                self.state.frame.locals[name] = scope.name_phis[name] = phi

    def _iterate(self, node: LoopNode, begin: Callable[[], object], scope: LoopScope) -> None:
        """Run one symbolic iteration; the values it leaves behind flow back into the Phis."""
        begin()
        self.machine.run(node.body)
        self.state.merge([self.state.snapshot(), *scope.ends], node)
        scope.ends.clear()
        if not self.state.alive:
            self.state.alive = bool(scope.breaks)
            return
        for name, phi in scope.name_phis.items():
            _close(phi, self.state.frame.locals.get(name))
        for key, phi in scope.heap_phis.items():
            _close(phi, self.state.heap.get(key))
        for element, phi, read in scope.elements:
            for end in phi.parents[1:]:
                _close(element, read(end))


def holds_parameters(value: Value) -> bool:
    """Whether a value holds the parameters of a module or an optimizer, so that the loop runs at least once."""
    value = resolved(value)
    part_of_optimizer = isinstance(value, Unknown) and value.label in ("param_groups", "['params']")
    return isinstance(value, Parameters) or part_of_optimizer


def _close(phi: Phi, end: Value | None) -> None:
    if end is not None and end is not phi and end not in phi.parents:
        phi.parents = (*phi.parents, end)

"""Branches: each alternative runs on a copy of the state, and the copies merge after it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial

from torchlint.model.assigned import assigned_in
from torchlint.model.events import Branch, Loop, Try
from torchlint.model.interpret.control.last_iterations import is_last
from torchlint.model.interpret.control.leaving import ways_out
from torchlint.model.interpret.control.periods import Periods
from torchlint.model.interpret.expressions.conditions import Conditions
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.position import Snapshot
from torchlint.model.values import Plain, Value
from torchlint.syntax.python_ast import dotted, site_of, walk


class Branches(Part):
    """Runs `if`, `match` and `try`."""

    def __init__(self, machine: Machine, conditions: Conditions) -> None:
        super().__init__(machine)
        self.conditions = conditions
        self.periods = Periods(machine)

    def run_if(self, node: ast.If) -> None:
        """Run the certain arm, or else both; inside an arm, the test may narrow a name."""
        self.machine.value(node.test)
        arms = self._arms(node)
        certain = self.conditions.certain_arm(node)
        if certain is not None:
            arms[certain]()
            return
        absent = self.conditions.absent(node.test)
        if absent is not None:
            name, number = absent
            arm = arms[number]
            arms[number] = lambda: self._as(name, Plain(node, None), arm)
        narrowed = self.conditions.narrowed(node.test)
        if narrowed is not None:
            name, values = narrowed
            arms = [partial(self._as, name, value, arm) for value, arm in zip(values, arms, strict=True)]
        layer = self.conditions.layer_asked_for(node.test)
        if layer is not None:
            value, body = layer, arms[0]
            arms[0] = lambda: self._as_layer(value, body)
        training = dotted(node.test).endswith(".training") and not node.orelse
        branch = Branch(site_of(node), [[] for _ in arms])
        branch.period, branch.after_overflow = self.periods.of(node.test), self.conditions.overflow_arm(node.test)
        self._branch(branch, node, arms, only_first=training)

    def _arms(self, node: ast.If) -> list[Callable[[], None]]:
        return [partial(self._arm, node, node.body), partial(self._arm, node, node.orelse)]

    def _arm(self, node: ast.If, body: list[ast.stmt]) -> None:
        """Run an arm; if it ends the loop, its events do not repeat."""
        state, here = self.state, self.state.position
        left = self._left(node, body) if body and here.loops else None
        if left is not None:
            state.position = here.leaving(left)
        self.machine.run(body)
        state.position = here._replace(passed=state.position.passed)

    def _left(self, node: ast.If, body: list[ast.stmt]) -> Loop | None:
        """The outermost loop whose last iteration an arm is in."""
        here = self.state.position
        own = [scope.event for scope in here.scopes if scope.event.depth == len(here.calls)]
        if own and own[-1] in here.loops:
            tree = self.definitions.tree
            if is_last(node.test, tree.node(own[-1].site), tree, holds=body is node.body):
                return own[-1]
        ways = ways_out(body)
        if not own or not (ways <= {ast.Break, ast.Return} or self._is_awaited(own[-1], node, body)):
            return None
        return next((loop for loop in (own if ways == {ast.Return} else own[-1:]) if loop in here.loops), None)

    def _is_awaited(self, loop: Loop, node: ast.If, body: list[ast.stmt]) -> bool:
        """Whether a loop runs until the test of an arm holds: `while not done`, and `if done` in it."""
        around = self.definitions.tree.node(loop.site)
        if not isinstance(around, ast.While) or not isinstance(node.test, ast.Name) or body is not node.body:
            return False
        goes_on, name = around.test, node.test.id
        if (
            not isinstance(goes_on, ast.UnaryOp)
            or not isinstance(goes_on.op, ast.Not)
            or dotted(goes_on.operand) != name
        ):
            return False
        return not any(name in assigned_in(item) for statement in body for item in walk(statement))

    def _as(self, name: str, value: Value, arm: Callable[[], None]) -> None:
        """Run an arm in which a name stands for a value."""
        self.state.bind(name, value)
        arm()

    def _as_layer(self, value: Value, arm: Callable[[], None]) -> None:
        """Run an arm in which a value is a layer of PyTorch."""
        self.observations.layers.setdefault(value, set()).add(self.state.position.path[-1])
        arm()

    def _branch(
        self, branch: Branch, node: ast.AST, arms: Sequence[Callable[[], None]], only_first: bool = False
    ) -> None:
        """Interpret alternatives; with `only_first` the code after them sees only the first, if it does not leave."""
        state = self.state
        before, passed = state.snapshot(), len(state.position.passed)
        ends: list[Snapshot] = []
        left: list[tuple[object, int]] = []
        for number, run in enumerate(arms):
            state.restore(before)
            with state.arm(branch, number):
                run()
                left += state.position.passed[passed:] if state.alive else [(branch, number)]
            ends.append(state.snapshot((branch, number)))
        state.position = state.position.after(tuple(left))
        state.merge(ends[:1] if only_first and ends[0].alive else ends, node)
        state.add(branch)

    def run_match(self, node: ast.Match) -> None:
        """Run each case, or none."""
        self.machine.value(node.subject)
        arms = [partial(self.machine.run, case.body) for case in node.cases]
        self._branch(Branch(site_of(node), [[] for _ in (*arms, None)]), node, [*arms, lambda: None])

    def run_try(self, node: ast.Try) -> None:
        """Run the body, and each handler from a state between the beginning of the body and its end."""
        state, here = self.state, self.state.position
        before, event = state.copy(), Try(site_of(node), [], [[] for _ in node.handlers])
        left = len(state.frame.ends)
        with state.at(here, event.body):
            self.machine.run(node.body)
            self.machine.run(node.orelse)
        ends = [state.copy()]
        for number, handler in enumerate(node.handlers):
            state.restore(before)
            state.merge([before, *([ends[0]] if ends[0].alive else [])], node)
            state.alive = True
            with state.at(here.in_arm(event, number + 1), event.handlers[number]):
                self.machine.run(handler.body)
            ends.append(state.copy())
        state.merge(ends, node)
        state.items.append(event)
        if node.finalbody:
            alive, state.alive, mode = state.alive, True, state.mode
            self.machine.run(node.finalbody)
            state.alive = state.alive and alive
            for end in state.frame.ends[left:] if state.mode is not mode else ():
                end.mode = state.mode  # also for a `return` on the way here

"""The interpreter of a module: three layers of parts over one state, with links from each to the layers above."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType

from torchlint.model.arguments import Arguments, Flags
from torchlint.model.cases import Case
from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.frames import Frame
from torchlint.model.imports import Imports
from torchlint.model.interpret.control.statements import Statements
from torchlint.model.interpret.expressions.expressions import Expressions
from torchlint.model.interpret.machine import Machine
from torchlint.model.interpret.transfer.transfer import Transfer
from torchlint.model.state import MAX_STATEMENTS, State
from torchlint.model.values import Function, Plain, SourceModule, UnsupportedExpression, Value
from torchlint.syntax.python_ast import Visit

MAX_REPETITION = 4
"""Maximum average number of interpretations per statement of a module; beyond it, calls are not followed."""
_MAKING = frozenset({ast.Constant, ast.UnaryOp, ast.BinOp, ast.Call, ast.Compare, ast.JoinedStr})
"""Expressions that compute a number or a text instead of reading one."""


class Interpreter(Machine):
    """Runs each statement abstractly once: loops through Phis, branches on copies of the state."""

    def __init__(self, definitions: Definitions, imports: Imports | None = None, case: Case | None = None) -> None:
        budget = MAX_STATEMENTS + MAX_REPETITION * definitions.tree.statements
        visit = Visit() if definitions.others is None else definitions.others.visit
        state = State(definitions, budget, follows=imports is not None)
        super().__init__(definitions, visit, state)
        self.transfer = Transfer(self)
        self.expressions = Expressions(self, self.transfer, imports, case)
        self.statements = Statements(self, self.transfer, self.expressions)
        self._evaluators = self.expressions.evaluators()
        self._runners = self.statements.runners()
        state.before = self.transfer.attributes.before

    # -- expressions --------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        evaluate = self._evaluators.get(type(node))
        if evaluate is None:
            return self.state.stamp(UnsupportedExpression(node))
        found = evaluate(node)
        is_new = isinstance(found, Plain) and not found.order and type(node) in _MAKING
        return self.state.stamp(found) if is_new else found

    def read(self, name: str, node: ast.AST | None = None) -> Value:
        return self.expressions.names.lookup(name, node)

    def member(self, owner: SourceModule, name: str, node: ast.AST | None) -> Value | None:
        return self.expressions.names.member(owner, name, node)

    def write(self, target: ast.expr, value: Value) -> None:
        self.expressions.targets.assign(target, value)

    def change(self, node: ast.Call, changed: Value, name: str, arguments: Arguments) -> Value:
        return self.expressions.updates.by_method(node, changed, name, arguments)

    def call(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        return self.expressions.callees.call(callee, arguments, node)

    def call_method(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        return self.transfer.methods.call(receiver, name, arguments, node)

    # -- control flow -------------------------------------------------------------------------------

    def run(self, body: Sequence[ast.stmt]) -> None:
        state = self.state
        is_own = state.frame.definitions is self.own
        for statement in body:
            if not state.alive:
                return
            if is_own:
                self.visit.at = statement
                state.statements += 1
                state.budget -= 1
            else:
                state.elsewhere += 1
            run = self._runners.get(type(statement))
            if run is not None:
                run(statement)

    def inline(
        self, function: Function, arguments: Arguments, node: ast.AST, block: Callable[[Value], None] | None = None
    ) -> Value:
        return self.statements.functions.inline(function, arguments, node, block)

    def aside(
        self,
        method: FunctionInfo,
        receiver: Value,
        flags: Flags = frozenset(),
        attributes: Mapping[str, Value] = MappingProxyType({}),
    ) -> AbstractContextManager[tuple[Frame, Mapping[str, Value]]]:
        return self.statements.aside.run(method, receiver, flags, attributes)

    def template(self, info: ClassInfo) -> Value:
        return self.statements.aside.template(info)

    def root_frame(self, info: FunctionInfo, owner: ClassInfo | None = None) -> Frame:
        """A frame for a function with unknown callers; for a method, objects of `owner` if that inherits it."""
        return self.statements.aside.root_frame(info, owner)

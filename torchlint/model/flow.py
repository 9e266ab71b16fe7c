"""Statements: what they do to names and grad mode, and the order of the events they cause."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from typing import ClassVar

from torchlint import hints
from torchlint.knowledge import GradMode
from torchlint.model.assignments import Assignments
from torchlint.model.conditions import Conditions
from torchlint.model.definitions import Definitions, FunctionInfo
from torchlint.model.events import Branch, Exit, Loop, Returned, Try
from torchlint.model.leaving import may_repeat
from torchlint.model.machine import LoopScope, Snapshot
from torchlint.model.values import (
    Class,
    Context,
    Function,
    Module,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pythontree import dotted, is_literal, site_of

LoopNode = ast.For | ast.AsyncFor | ast.While


class Interpreter(Conditions):
    """Runs statements abstractly, each once: loops through Phis, branches on copies of the state."""

    def __init__(self, definitions: Definitions) -> None:
        super().__init__(definitions)
        self.mutated: set[Value] = set()
        self.in_place_results: dict[Tensor, ast.expr] = {}
        self.in_place_modules: dict[Tensor, Module] = {}
        self.openings: dict[Tensor, Module] = {}
        self.forward_calls: dict[FunctionInfo, list[tuple[frozenset[str], GradMode]]] = {}
        self.backwards: list[Value] = []
        self.frozen: set[Value] = set()
        self.layers: dict[Value, set[tuple[object, int]]] = {}
        """Values that are layers of PyTorch, and in which arms of branches."""
        self.defined: dict[FunctionInfo, Function] = {}

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Interpret a block up to where it certainly leaves."""
        for statement in body:
            if not self.alive:
                return
            self.statements += 1
            self.budget -= 1
            handler = self._statements.get(type(statement))
            if handler is not None:
                handler(self, statement)

    def _expression(self, node: ast.Expr) -> None:
        self.value(node.value)

    # -- branches -----------------------------------------------------------------------------------

    def _if(self, node: ast.If) -> None:
        self.value(node.test)
        arms = self._arms(node)
        certain = self.certain_arm(node)
        if certain is not None:
            arms[certain]()
            return
        absent = self.absent(node.test)
        if absent is not None:
            name, number = absent
            arm = arms[number]
            arms[number] = lambda: self._as(name, Plain(node, None), arm)
        layer = self.layer_asked_for(node.test)
        if layer is not None:
            value, body = layer, arms[0]
            arms[0] = lambda: self._as_layer(value, body)
        training = dotted(node.test).endswith(".training") and not node.orelse
        self._branch(node, arms, only_first=training)

    def _arms(self, node: ast.If) -> list[Callable[[], None]]:
        return [lambda: self.run(node.body), lambda: self.run(node.orelse)]

    def _as(self, name: str, value: Value, arm: Callable[[], None]) -> None:
        """Run an arm in which a name stands for a value."""
        self.bind(name, value)
        arm()

    def _as_layer(self, value: Value, arm: Callable[[], None]) -> None:
        """Run an arm in which a value is a layer of PyTorch."""
        self.layers.setdefault(value, set()).add(self.path[-1])
        arm()

    def _branch(self, node: ast.AST, arms: Sequence[Callable[[], None]], only_first: bool = False) -> None:
        """Interpret alternatives; with `only_first` what follows sees the first alone, if it goes on."""
        before, path, passed, outer = self.snapshot(), self.path, self.passed, self.items
        ends: list[Snapshot] = []
        left: list[tuple[object, int]] = []
        branch = Branch(site_of(node), [])
        for number, arm in enumerate(arms):
            self.restore(before)
            self.items = []
            self.path, self.passed = (*path, (branch, number)), passed
            arm()
            branch.arms.append(self.items)
            ends.append(self.snapshot())
            ends[-1].arm = (branch, number)
            left += self.passed[len(passed) :] if self.alive else [(branch, number)]
        self.items, self.path, self.passed = outer, path, (*passed, *left)
        self.merge(ends[:1] if only_first and ends[0].alive else ends, node)
        if any(branch.arms):
            self.items.append(branch)

    def _match(self, node: ast.Match) -> None:
        self.value(node.subject)
        arms: list[Callable[[], None]] = [lambda case=case: self.run(case.body) for case in node.cases]  # type: ignore[misc]
        self._branch(node, [*arms, lambda: None])

    def _try(self, node: ast.Try) -> None:
        before, path, passed, outer = self.copy(), self.path, self.passed, self.items
        event = Try(site_of(node), [], [])
        self.items = event.body
        self.run(node.body)
        self.run(node.orelse)
        ends = [self.copy()]
        for number, handler in enumerate(node.handlers):
            self.restore(before)
            self.merge([before, *([ends[0]] if ends[0].alive else [])], node)
            self.alive = True
            self.items = []
            self.path, self.passed = (*path, (event, number + 1)), passed
            self.run(handler.body)
            event.handlers.append(self.items)
            ends.append(self.copy())
        self.items, self.path, self.passed = outer, path, passed
        self.merge(ends, node)
        self.items.append(event)
        if node.finalbody:
            alive, self.alive = self.alive, True
            self.run(node.finalbody)
            self.alive = self.alive and alive

    # -- loops --------------------------------------------------------------------------------------

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        iterable = self.value(node.iter)

        def begin() -> None:
            self.assign_target(node.target, self.iterated(iterable, node))

        self._loop(node, begin, certain=holds_parameters(iterable))

    def _while(self, node: ast.While) -> None:
        self._loop(node, lambda: self.value(node.test))

    def _loop(self, node: LoopNode, begin: Callable[[], object], *, certain: bool = False) -> None:
        event = Loop(site_of(node), [], depth=len(self.calls), path=self.path, certain=certain)
        scope = LoopScope(event, node, len(self.entered_from), may_repeat(node))
        loops = self.loops
        if scope.repeats:
            self._open_phis(scope)
            self.loops = (*loops, event)
        before, passed, outer = self.copy(), self.passed, self.items
        self.scopes.append(scope)
        self.items = event.body
        self._iterate(node, begin, scope)
        if self.alive and self.mode is not before.mode and before.mode is GradMode.ON:
            self._iterate(node, begin, scope)
        self.scopes.pop()
        self.loops, self.items, self.passed = loops, outer, passed
        if event.body:
            self.items.append(event)
        self.run(node.orelse)
        endless = isinstance(node, ast.While) and is_literal(node.test, True)
        ends = [self.snapshot(), *scope.breaks] if not endless else scope.breaks or [self.snapshot()]
        self.merge([*ends, *([] if endless else [before])], node)

    def _open_phis(self, scope: LoopScope) -> None:
        for name in sorted(self.definitions.assigned_names(scope.node)):
            initial = self.frame.locals.get(name)
            if initial is not None:
                phi = self.made(Phi(initial.site, (initial,), scope.event))
                phi.label = name
                self.frame.locals[name] = scope.name_phis[name] = phi

    def _iterate(self, node: LoopNode, begin: Callable[[], object], scope: LoopScope) -> None:
        """One symbolic iteration; what it leaves behind flows back into the Phis."""
        begin()
        self.run(node.body)
        self.merge([self.snapshot(), *scope.ends], node)
        scope.ends.clear()
        if not self.alive:
            self.alive = bool(scope.breaks)
            return
        for name, phi in scope.name_phis.items():
            _close(phi, self.frame.locals.get(name))
        for key, phi in scope.heap_phis.items():
            _close(phi, self.heap.get(key))

    # -- with ---------------------------------------------------------------------------------------

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        mode = self.mode
        self.entered_from.append(mode)
        for item in node.items:
            context = self.value(item.context_expr)
            if isinstance(context, Context):
                self.mode = context.mode
            elif may_switch_gradients(context):
                self.mode = GradMode.UNKNOWN
            if item.optional_vars is not None:
                self.assign_target(item.optional_vars, self.entered(context, item))
        self.run(node.body)
        self.entered_from.pop()
        self.mode = mode

    def entered(self, context: Value, node: ast.AST) -> Value:
        """What `with ... as x` binds."""
        return context if not isinstance(context, Context) else Plain(node)

    # -- definitions and exits ----------------------------------------------------------------------

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        info = self.definitions.functions[node]
        function = self.made(Function(info, self.frame, mode=self.decorated_mode(info)))
        self.defined[info] = function
        self.bind(node.name, function)

    def _class(self, node: ast.ClassDef) -> None:
        self.bind(node.name, self.made(Class(self.definitions.classes[node], self.frame)))

    def _return(self, node: ast.Return) -> None:
        value = self.value(node.value) if node.value is not None else Plain(node, None)
        self.frame.returns.append(value)
        if not self.calls:
            self.emit(Returned(site_of(node), value))
        self._leave("return")

    def _leave(self, kind: str) -> None:
        if kind == "return":
            self.frame.ends.append(self.leaving(self.frame.blocks))
        self.items.append(Exit(kind))
        self.alive = False

    def _raise(self, node: ast.Raise) -> None:
        self._leave("raise")

    def _break(self, node: ast.Break) -> None:
        if self.scopes:
            self.scopes[-1].breaks.append(self.leaving(self.scopes[-1].blocks))
        self._leave("break")

    def _continue(self, node: ast.Continue) -> None:
        if self.scopes:
            self.scopes[-1].ends.append(self.leaving(self.scopes[-1].blocks))
        self._leave("continue")

    def _global_names(self, node: ast.Global | ast.Nonlocal) -> None:
        self.frame.outer_names.update(node.names)

    def _del(self, node: ast.Delete) -> None:
        for target in node.targets:
            for item in target.elts if isinstance(target, ast.Tuple) else [target]:
                self.frame.locals.pop(dotted(item), None)

    def _assert(self, node: ast.Assert) -> None:
        self.value(node.test)

    _statements: ClassVar[dict[type[ast.AST], Callable[..., None]]] = {
        ast.Expr: _expression, ast.Assign: Assignments.assign,
        ast.AnnAssign: Assignments.annotated,
        ast.AugAssign: Assignments.augmented,
        ast.If: _if, ast.Match: _match, ast.Try: _try, ast.For: _for, ast.AsyncFor: _for, ast.While: _while,
        ast.With: _with, ast.AsyncWith: _with, ast.FunctionDef: _function, ast.AsyncFunctionDef: _function,
        ast.ClassDef: _class, ast.Return: _return,
        ast.Raise: _raise, ast.Break: _break, ast.Continue: _continue, ast.Global: _global_names,
        ast.Nonlocal: _global_names, ast.Delete: _del, ast.Assert: _assert,
        **({getattr(ast, "TryStar"): _try} if sys.version_info >= (3, 11) else {}),  # noqa: B009 - unknown to 3.10
    }  # fmt: skip


def may_switch_gradients(context: Value) -> bool:
    """Whether entering a context of unknown make might set the grad mode: by what it may be, or by its name."""
    if isinstance(context, Phi):
        return any(isinstance(item, Context) for item in inputs_of(context))
    callee = context.callee if isinstance(context, Unknown) else None
    return callee is not None and bool(hints.SWITCHES_GRADIENTS.search(callee.label))


def holds_parameters(value: Value) -> bool:
    """Whether a value is the parameters of a module or an optimizer, of which there are some."""
    value = resolved(value)
    part_of_optimizer = isinstance(value, Unknown) and value.label in ("param_groups", "['params']")
    return isinstance(value, Parameters) or part_of_optimizer


def _close(phi: Phi, end: Value | None) -> None:
    if end is not None and end is not phi and end not in phi.parents:
        phi.parents = (*phi.parents, end)

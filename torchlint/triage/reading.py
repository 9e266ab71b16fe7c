"""A quick reading of one function: what it changes in place, and whether that may have been saved or be a leaf.

Statements are read in order, loops twice, branches one after the other. A name holds a value, or nothing where it is
bound to what is no tensor. Whether an operator saves is looked up in the table that the model uses; what is called
without being known saves nothing, as the model takes it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from torchlint.triage.calls import Calls
from torchlint.triage.effects import Effect
from torchlint.triage.known import CONTAINERS, PLAIN_TYPES, PRODUCTS
from torchlint.triage.names import annotated_as, switches_off
from torchlint.triage.values import HANDED, MADE, Names, Value, either, tracked_most


class Reading(Calls):
    """Reads one function, or a whole module."""

    def effect(self) -> Effect:
        """What calling the function does that was read."""
        returned = [value for item in self._returned for value in item.storage()]
        return Effect(
            saves=any(value.saved for value in self._handed),
            keeps_result=any(value.saved and not value.outer for value in returned),
            changes=any(value.changed for value in self._handed),
            tracks=any(value.tracked == MADE for value in returned),
            attributes=frozenset(value.label for value in self._held if value.changed),
        )

    def block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            read = _STATEMENTS.get(type(statement))
            if read is not None:
                read(self, statement)
            else:
                self._parts(statement)

    def _function_def(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outside = self._names, self._function, self._without_grad, self.called
        called = self.called or self.surroundings.is_called(node.name)
        self._names, self._function, self.called = dict(self._names), node.name, False
        self._without_grad += any(switches_off(item) for item in node.decorator_list)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            self._hand(argument, called=called and argument.arg not in ("self", "cls"))
        for extra in (node.args.vararg, node.args.kwarg):
            if extra is not None:
                self._names[extra.arg] = Value(container=True, tracked=HANDED * called)
        self.block(node.body)
        self._names, self._function, self._without_grad, self.called = outside

    def _hand(self, argument: ast.arg, *, called: bool) -> None:
        kind = annotated_as(argument.annotation)
        if kind in PLAIN_TYPES:
            self._names[argument.arg] = None
            return
        value = Value(tracked=HANDED * called, container=kind.lower() in CONTAINERS)
        value.outer = True
        self._names[argument.arg] = value
        self._handed.append(value)

    def _class_def(self, node: ast.ClassDef) -> None:
        self.block(node.body)

    def _return(self, node: ast.Return) -> None:
        value = self._value(node.value)
        if value is not None:
            self._returned.append(value)

    def _if(self, node: ast.If) -> None:
        self._value(node.test)
        before = dict(self._names)
        self.block(node.body)
        after, self._names = self._names, before
        self.block(node.orelse)
        self._merge(after)

    def _merge(self, other: Names) -> None:
        """From here on names are what they are, or what they are in `other`."""
        for name, value in other.items():
            mine = self._names.get(name, value)
            self._names[name] = value if mine is value else either((mine, value))

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        iterable = self._value(node.iter)
        self._loop(node, lambda: self._bind(node.target, None if iterable is None else Value(iterable)))

    def _while(self, node: ast.While) -> None:
        self._loop(node, lambda: self._value(node.test))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, begin: Callable[[], object]) -> None:
        for _ in range(2):
            before = dict(self._names)
            begin()
            self.block(node.body)
            self._merge(before)
        self.block(node.orelse)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        before = self._without_grad
        for item in node.items:
            value = self._value(item.context_expr)
            self._without_grad += switches_off(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, value)
        self.block(node.body)
        self._without_grad = before

    def _try(self, node: Any) -> None:
        self.block(node.body)
        for handler in node.handlers:
            self.block(handler.body)
        self.block(node.orelse)
        self.block(node.finalbody)

    def _match(self, node: ast.Match) -> None:
        self._value(node.subject)
        for case in node.cases:
            self.block(case.body)

    def _assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._bind(target, value, node.value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, self._value(node.value), node.value)

    def _augmented(self, node: ast.AugAssign) -> None:
        by, target = self._value(node.value), self._value(node.target)
        if target is None:
            self._bind(node.target, Value(tracked=by.tracked) if by else None)
        elif not target.container:
            if by and isinstance(node.op, PRODUCTS) and tracked_most((by, target)):
                by.save()
            self._step(node.value)
            self._change(target, (by,))


_STATEMENTS: dict[type, Callable[[Reading, Any], None]] = {
    ast.FunctionDef: Reading._function_def,
    ast.AsyncFunctionDef: Reading._function_def,
    ast.ClassDef: Reading._class_def,
    ast.Return: Reading._return,
    ast.If: Reading._if,
    ast.For: Reading._for,
    ast.AsyncFor: Reading._for,
    ast.While: Reading._while,
    ast.With: Reading._with,
    ast.AsyncWith: Reading._with,
    ast.Try: Reading._try,
    ast.Match: Reading._match,
    ast.Assign: Reading._assign,
    ast.AnnAssign: Reading._annotated,
    ast.AugAssign: Reading._augmented,
}
if hasattr(ast, "TryStar"):
    _STATEMENTS[ast.TryStar] = Reading._try

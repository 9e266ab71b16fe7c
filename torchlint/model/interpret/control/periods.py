"""Branches that a loop takes every n-th iteration."""

from __future__ import annotations

import ast

from torchlint.model.events import Loop, Period
from torchlint.model.interpret.machine import Part
from torchlint.model.values import Plain, resolved
from torchlint.syntax.python_ast import SCOPES, called_name, site_of

_SHOWING_PROGRESS = frozenset({"tqdm", "tqdm.tqdm", "track"})


class Periods(Part):
    """Analyzes conditions such as `(i + 1) % 4 == 0`, with `i` the iteration of a loop and 4 a known number."""

    def of(self, test: ast.expr) -> Period | None:
        """The loop and the iterations in which a test holds; None if that is not certain."""
        holds = True
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, holds = test.operand, not holds
        wanted: int | None = 0
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
            wanted, holds = self._number(test.comparators[0]), holds is isinstance(test.ops[0], ast.Eq)
            test = test.left
        else:
            holds = not holds  # `if i % 4:` is true for a nonzero remainder
        if not isinstance(test, ast.BinOp) or not isinstance(test.op, ast.Mod) or wanted is None:
            return None
        length, counted = self._number(test.right), self._counter(test.left)
        if length is None or length < 1 or counted is None:
            return None
        loop, start = counted
        return Period(loop, length, (wanted - start) % length, 0 if holds else 1)

    def _counter(self, node: ast.expr) -> tuple[Loop, int] | None:
        """The loop whose iterations an expression counts, and the expression's value in the first iteration."""
        offset: int | None = 0
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            offset = self._number(node.right)
            if offset is not None and isinstance(node.op, ast.Sub):
                offset = -offset
            node = node.left
        if not isinstance(node, ast.Name) or offset is None:
            return None
        for item in self.definitions.tree.ancestors(node):
            if isinstance(item, SCOPES):
                return None
            if isinstance(item, ast.For) and (start := self._first_count(item, node.id)) is not None:
                around = (scope.event for scope in self.state.position.scopes if scope.event.site == site_of(item))
                return next(((loop, start + offset) for loop in around), None)
        return None

    def _first_count(self, loop: ast.For, name: str) -> int | None:
        """The value of a loop's counter in the first iteration, if the loop only counts with it."""
        source, target = loop.iter, loop.target
        while isinstance(source, ast.Call) and source.args and called_name(source) in _SHOWING_PROGRESS:
            source = source.args[0]
        if not isinstance(source, ast.Call) or name in self.definitions.names_assigned([*loop.body, *loop.orelse]):
            return None
        if called_name(source) == "enumerate" and isinstance(target, ast.Tuple):
            given = [*source.args[1:], *(item.value for item in source.keywords)]
            target = target.elts[0]
        elif called_name(source) == "range" and len(source.args) < 3 and not source.keywords:
            given = source.args[:-1]
        else:
            return None
        if not isinstance(target, ast.Name) or target.id != name:
            return None
        return self._number(given[0]) if given else 0

    def _number(self, node: ast.expr) -> int | None:
        """The number that an expression stands for, as a literal or through a name."""
        if not isinstance(node, (ast.Constant, ast.Name, ast.Attribute, ast.UnaryOp)):
            return None
        value = resolved(self.machine.value(node))
        return value.constant if isinstance(value, Plain) and type(value.constant) is int else None

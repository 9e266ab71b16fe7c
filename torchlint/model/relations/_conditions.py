"""Conditions in loops: those that seldom hold, and those that hold for a few iterations only."""

from __future__ import annotations

import ast
from functools import cached_property

from torchlint.model.definitions import defaults_of
from torchlint.model.events import Branch, Keep, Loop, Path
from torchlint.model.program import Program
from torchlint.syntax.python_ast import called_name, dotted, names_bound, walk

_SELDOM = 100
"""A place that is emptied only once in this many iterations counts as never emptied."""


class Conditions:
    """Answers about the tests of branches, as written."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def is_seldom(self, arms: Path) -> bool:
        """Whether a condition holds at most once in a hundred iterations."""
        return any((self._number(item) or 0) >= _SELDOM for test in self._tests(arms) for item in walk(test))

    def is_for_a_few(self, keep: Keep, loop: Loop) -> bool:
        """Whether something is kept only in the first iterations, or only while the place holds few items."""
        body = self._program.tree.node(loop.site)
        counted = names_bound(body.target) if isinstance(body, (ast.For, ast.AsyncFor)) else set[str]()
        first = tuple((branch, arm) for branch, arm in keep.path[len(loop.path) :] if arm == 0)
        return any(_is_about_few(test, keep.name, counted) for test in self._tests(first))

    def _tests(self, arms: Path) -> list[ast.expr]:
        nodes = (self._program.tree.node(branch.site) for branch, _ in arms if isinstance(branch, Branch))
        return [node.test for node in nodes if isinstance(node, (ast.If, ast.IfExp))]

    def _number(self, node: ast.AST) -> int | None:
        """The number of a literal, or of a name by its assignment or default; None if not known."""
        name = dotted(node).rpartition(".")[2]
        values = [node, *self._defaults.get(name, ())] if name else [node]
        numbers = [item.value for item in values if isinstance(item, ast.Constant) and type(item.value) is int]
        return max(numbers, default=None)

    @cached_property
    def _defaults(self) -> dict[str, list[ast.expr]]:
        """Assignments, parameter defaults and command-line defaults by name."""
        found: dict[str, list[ast.expr]] = {}
        for statement in self._program.tree.of_type(ast.Assign):
            for target in statement.targets:
                found.setdefault(dotted(target).rpartition(".")[2], []).append(statement.value)
        for function in self._program.definitions.functions.values():
            for name, default in defaults_of(function.node).items():
                found.setdefault(name, []).append(default)
        for call in self._program.tree.of_type(ast.Call):
            if called_name(call) == "add_argument":
                flags = [item.value for item in call.args if isinstance(item, ast.Constant)]
                names = [str(flag).lstrip("-").replace("-", "_") for flag in flags]
                for item in call.keywords:
                    if item.arg == "default":
                        for name in names:
                            found.setdefault(name, []).append(item.value)
        return found


def _is_about_few(test: ast.expr, name: str, counted: set[str]) -> bool:
    """`len(samples) < 3`, or `i < 3` with the loop's counter `i`; `not samples`, `i == 0`, which hold once."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return dotted(test.operand) == name
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.Eq)):
        return False
    left = test.left
    if isinstance(left, ast.Name):
        return left.id in counted
    return isinstance(left, ast.Call) and dotted(left.func) == "len" and [dotted(item) for item in left.args] == [name]

"""Cases: the assumed value of an option such as `args.amp`, and the results of tests for this value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from torchlint.index import FileIndex
from torchlint.syntax.python_ast import walk
from torchlint.syntax.python_tree import PythonTree

_EQUAL = (ast.Eq, ast.Is, ast.In)
_UNEQUAL = (ast.NotEq, ast.IsNot, ast.NotIn)
_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.Compare, ast.BinOp, ast.UnaryOp, ast.Tuple)
"""The nodes an option is written with: none of them is a call."""


class _Other:
    """A value different from every literal that an option is compared with."""


OTHER = _Other()


class Case(NamedTuple):
    """The assumed value of an option."""

    option: str
    value: object

    def answer(self, test: ast.expr, tree: PythonTree) -> bool | None:
        """The result in this case of a test without `not`, `and` and `or`; None if the test is about something else."""
        question = question_of(test)
        if option_of(question.operand, tree) != self.option:
            return None
        if question.literals is None:
            return None if self.value is OTHER else bool(self.value)
        return any(item == self.value for item in question.literals) is question.is_equal


class Question(NamedTuple):
    """A test whether an expression is true, or (with literals) whether it equals one of them."""

    operand: ast.expr
    literals: list[Any] | None = None
    is_equal: bool = True


def leaves(test: ast.expr) -> Iterator[ast.expr]:
    """The parts of a test that `not`, `and` and `or` combine."""
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from leaves(part)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from leaves(test.operand)
    else:
        yield test


def question_of(test: ast.expr) -> Question:
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (*_EQUAL, *_UNEQUAL)):
        literals = _literals(test.comparators[0])
        if literals is not None:
            return Question(test.left, literals, isinstance(test.ops[0], _EQUAL))
    return Question(test)


def _literals(node: ast.expr) -> list[Any] | None:
    """The literal that a test compares something with, or the literals of `in ("a", "b")`."""
    items = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    constants = [item.value for item in items if isinstance(item, ast.Constant)]
    return constants if len(constants) == len(items) else None


def option_of(operand: ast.expr, tree: PythonTree) -> str | None:
    """The key of an option: its expression and, if functions bind its names, the function it is in.

    A parameter that `__init__` stores has the key of its attribute.
    """
    if isinstance(operand, ast.Name):
        operand = FileIndex.of(tree).attribute_of(operand) or operand
    parts = list(walk(operand))
    if not all(isinstance(item, _PLAIN) for item in parts) or not any(isinstance(item, ast.Name) for item in parts):
        return None
    function = tree.function_around(operand) if [*bare_names(operand)] else None
    code = ast.dump(operand).replace("ctx=Store()", "ctx=Load()")
    return f"{function.lineno if function is not None else ''} {code}"


def bare_names(operand: ast.expr) -> Iterator[ast.Name]:
    """The names in an expression, without those whose attribute is read."""
    owners = {item.value for item in walk(operand) if isinstance(item, (ast.Attribute, ast.Subscript))}
    return (item for item in walk(operand) if isinstance(item, ast.Name) and item not in owners)

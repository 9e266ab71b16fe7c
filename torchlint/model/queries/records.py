"""Records: comparisons of a score with the best one so far, and branches that make the score the record."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from torchlint.syntax import python_ast

_HIGHER = (ast.Gt, ast.GtE)
_LOWER = (ast.Lt, ast.LtE)


class Comparison(NamedTuple):
    """`test` compares a score with what may be the record: `score < record` or `record > score`."""

    test: ast.Compare
    score: ast.expr
    record: ast.expr
    is_higher: bool
    """Whether the test holds for scores above the record."""


def comparisons(condition: ast.If) -> Iterator[Comparison]:
    """The comparisons of two numbers in a condition, each with either operand as the record.

    The numbers of a difference count, too: `best - loss > delta`.
    """
    for test in condition.test.values if isinstance(condition.test, ast.BoolOp) else [condition.test]:
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (*_HIGHER, *_LOWER)):
            left, right, is_higher = test.left, test.comparators[0], isinstance(test.ops[0], _HIGHER)
            yield Comparison(test, left, right, is_higher)
            yield Comparison(test, right, left, not is_higher)
            for difference, is_more in ((left, is_higher), (right, not is_higher)):
                if isinstance(difference, ast.BinOp) and isinstance(difference.op, ast.Sub):
                    yield Comparison(test, difference.left, difference.right, is_more)
                    yield Comparison(test, difference.right, difference.left, not is_more)


def is_replaced(found: Comparison, statements: Iterable[ast.AST]) -> bool:
    """Whether code makes the score the record: `best = loss`."""
    return any(
        isinstance(node, ast.Assign)
        and any(python_ast.written_alike(target, found.record) for target in node.targets)
        and python_ast.written_alike(node.value, found.score)
        for statement in statements
        for node in python_ast.walk(statement)
    )

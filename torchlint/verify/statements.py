"""Statements of a program, and the lines that they take."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import lru_cache

from torchlint.files.python import python_tree
from torchlint.finding import Position, Span

Lines = tuple[int, int]
"""First and last line."""
COMPOUND = (
    ast.With,
    ast.AsyncWith,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.If,
    ast.Try,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Match,
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FEW = 32
"""The maximum number of turns of a short loop."""


def span_lines(span: Span) -> Lines:
    """The lines of a span, or the first of one that ends before it begins."""
    return (span.start.line, max(span.start.line, span.end.line))


@lru_cache(maxsize=4)  # a file may have many findings
def statements_of(source: bytes) -> tuple[ast.stmt, ...]:
    """All statements of a program; raises `SyntaxError` and `ValueError` as `ast.parse` does."""
    return tuple(node for node in ast.walk(python_tree(source)) if isinstance(node, ast.stmt))


def first_line(statement: ast.stmt) -> int:
    """The start of a statement, with its decorators."""
    decorators: Sequence[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def last_line(statement: ast.stmt) -> int:
    """The end of a statement."""
    return statement.end_lineno or statement.lineno


def statement_at(statements: Iterable[ast.stmt], place: Position) -> ast.stmt | None:
    """The smallest statement at a place; if several are on one line, the one at the column."""
    found = [item for item in statements if first_line(item) <= place.line <= last_line(item)]
    at_column = [item for item in found if (first_line(item), item.col_offset) <= (place.line, place.column)]
    candidates = at_column or found
    return max(candidates, key=lambda item: (first_line(item), item.col_offset), default=None)


def header_of(statement: ast.stmt) -> Lines:
    """The lines of a statement; for a compound one the lines before its body."""
    first = first_line(statement)
    if isinstance(statement, COMPOUND):
        body = getattr(statement, "body", None) or getattr(statement, "cases", [])
        start = body[0].lineno if isinstance(body[0], ast.stmt) else body[0].pattern.lineno
        return first, max(first, start - 1)
    return first, last_line(statement)


def body_of(statement: ast.stmt) -> Lines:
    """The lines of a compound statement's body; for other statements all of their lines."""
    body: list[ast.stmt] = getattr(statement, "body", [statement])
    return body[0].lineno, last_line(body[-1])


def function_around(statements: Iterable[ast.stmt], lines: Lines) -> FunctionNode | None:
    """The innermost function with a `def` around some lines."""
    around = [item for item in statements if isinstance(item, FUNCTIONS) and encloses(item, lines)]
    return max(around, key=first_line, default=None)


def encloses(statement: ast.stmt, lines: Lines) -> bool:
    """Whether lines are among those of a statement."""
    return first_line(statement) <= lines[0] and lines[1] <= last_line(statement)


def has_inside(around: ast.stmt, statement: ast.stmt) -> bool:
    """Whether a statement is in the body of another."""
    first, last = body_of(around)
    return around is not statement and first <= statement.lineno and last_line(statement) <= last


def is_in_short_loop(statements: Iterable[ast.stmt], lines: Lines, function: FunctionNode | None) -> bool:
    """Whether the innermost loop around some lines of a function has a few turns, the same number each time."""
    around = [item for item in statements if isinstance(item, LOOPS) and encloses(item, lines)]
    loop = max(around, key=first_line, default=None)
    if not isinstance(loop, ast.For) or function is None or not has_inside(function, loop):
        return False
    over = loop.iter
    if isinstance(over, (ast.Tuple, ast.List)):
        return len(over.elts) <= _FEW
    is_range = isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range"
    bounds = [getattr(item, "value", None) for item in over.args] if isinstance(over, ast.Call) and is_range else []
    return bool(bounds) and all(isinstance(bound, int) and bound <= _FEW for bound in bounds)

"""The lines of a statement: for a compound one those of its header."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any


def headers(statements: Iterable[ast.stmt]) -> dict[int, range]:
    """For each line, the lines of the innermost statement on it, including decorators; a compound one's header only.

    Simple statements that share lines, by semicolons, are one.
    """
    statements = list(statements)
    found: dict[int, range] = {}
    for lines in _joined(range(item.lineno, _last(item) + 1) for item in statements if not _is_compound(item)):
        found.update(dict.fromkeys(lines, lines))
    for item in sorted(filter(_is_compound, statements), key=_first_line, reverse=True):
        header = range(item.lineno, max(item.lineno + 1, _first_line_of_body(item)))
        for line in range(_first_line(item), _last(item) + 1):
            found.setdefault(line, header)
    return found


def _is_compound(statement: ast.stmt) -> bool:
    """Whether a statement contains others."""
    return hasattr(statement, "body") or isinstance(statement, ast.Match)


def _last(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _joined(groups: Iterable[range]) -> list[range]:
    """Ranges of lines, merged if they have a line in common."""
    joined: list[range] = []
    for lines in sorted(groups, key=lambda lines: lines.start):
        if joined and lines.start < joined[-1].stop:
            lines = range(joined[-1].start, max(joined.pop().stop, lines.stop))
        joined.append(lines)
    return joined


def _first_line(statement: Any) -> int:
    first: int = min([statement.lineno, *(item.lineno for item in getattr(statement, "decorator_list", ()))])
    return first


def _first_line_of_body(statement: Any) -> int:
    return _first_line(statement.cases[0].pattern if isinstance(statement, ast.Match) else statement.body[0])

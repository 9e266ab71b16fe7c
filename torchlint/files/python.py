"""Python's own parser, silent: since 3.12 it warns of escapes that mean nothing, but whoever lints did not ask."""

from __future__ import annotations

import ast
import warnings

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Errors that the parser raises for source that it cannot parse."""


def python_tree(text: str | bytes) -> ast.Module:
    """The syntax tree of a program; raises one of `UNREADABLE`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def string_value(literal: str) -> str | bytes:
    """The value of a string or bytes literal; raises one of `UNREADABLE`."""
    quote = literal[0]
    inner = literal[1:-1]
    if quote in "'\"" and "\\" not in inner and quote not in inner:
        return inner
    value: str | bytes = ast.literal_eval(python_tree(literal).body[0].value)  # type: ignore[attr-defined]
    return value

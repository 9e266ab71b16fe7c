"""Python's own parser, which says nothing of what it merely dislikes."""

from __future__ import annotations

import ast
import warnings

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What the parser raises for what it cannot read."""


def python_tree(text: str | bytes) -> ast.Module:
    """The syntax tree of a program; raises one of `UNREADABLE`.

    Since Python 3.12 its parser warns of escapes that mean nothing, such as `"\\d"`: whoever lints did not ask.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)

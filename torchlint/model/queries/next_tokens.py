"""Next tokens: two slices of one sequence, one without its last token and one without its first."""

from __future__ import annotations

import ast

from torchlint.model.definitions import Definitions
from torchlint.model.queries import written
from torchlint.syntax.python_ast import Site, site_of, without_calls, written_alike

_SAME = frozenset("contiguous clone to long cuda detach reshape view flatten".split())
"""Methods that change only the shape or the place of tokens."""


def shifted(inputs: ast.expr, targets: ast.expr, definitions: Definitions) -> Site | None:
    """The place that cuts off the first token of the targets, if the inputs are the same tokens without the last one.

    `tokens[:, :-1]` and `tokens[:, 1:]`, also through variables.
    """
    before, after = _slice_of(inputs, definitions), _slice_of(targets, definitions)
    if before is None or after is None or not written_alike(before.value, after.value):
        return None
    return site_of(after) if _bounds(before) == ("", "-1") and _bounds(after) == ("1", "") else None


def _slice_of(node: ast.expr, definitions: Definitions) -> ast.Subscript | None:
    node = _unwrapped(written.value_of(_unwrapped(node), definitions))
    return node if isinstance(node, ast.Subscript) else None


def _unwrapped(node: ast.expr) -> ast.expr:
    return without_calls(node, _SAME)


def _bounds(node: ast.Subscript) -> tuple[str, str] | None:
    """The bounds of a slice of the first or the second dimension that keeps all others."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    *rest, last = parts
    if len(rest) > 1 or not isinstance(last, ast.Slice) or last.step is not None:
        return None
    if any(ast.unparse(item) not in (":", "...") for item in rest):
        return None
    first, end = (ast.unparse(item) if item is not None else "" for item in (last.lower, last.upper))
    return first, end

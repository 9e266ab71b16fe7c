"""Predictions: the calls that pick a class, and the literal dimension of a call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.model.queries import names, numbers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions

_CHOOSING = {"argmax": 0, "argmin": 0, "max": 0, "min": 0, "topk": 1}
"""Methods that pick a class, with the position of their dimension argument."""
_KEEPING = frozenset("detach clone cpu cuda float double contiguous".split())


def choice(call: ast.Call, definitions: Definitions) -> tuple[str, ast.expr | None, int | None]:
    """The picking call, its operand and its dimension: `x.argmax(1)`, `torch.argmax(x, dim=1)`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _CHOOSING:
        return "", None, None
    name, position = call.func.attr, _CHOOSING[call.func.attr]
    if names.imported(call.func, definitions) != f"torch.{name}":
        return name, call.func.value, literal(call, position)
    return name, call.args[0] if call.args else None, literal(call, position + 1)


def kept(node: ast.expr) -> ast.expr:
    """The operand of calls that only detach or move a tensor: `p` of `p.detach().cpu()`."""
    return python_ast.without_calls(node, _KEEPING)


def literal(call: ast.Call, position: int) -> int | None:
    """The dimension of a call, if it is literal."""
    if any(isinstance(item, ast.Starred) for item in call.args):
        return None
    named = [item.value for item in call.keywords if item.arg == "dim"]
    given = next(iter((*named, *call.args[position : position + 1])), None)
    number = numbers.literal(given)
    return number if isinstance(number, int) else None

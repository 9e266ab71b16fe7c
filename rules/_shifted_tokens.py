"""Targets that are the tokens of an input, moved by one position."""

from __future__ import annotations

import ast

from torchlint.pytorch import naming
from torchlint.syntax import python_ast


def is_slice(node: ast.expr, lower: str, upper: str) -> bool:
    """Whether an index cuts one dimension, the first or the second: `[:, 1:]`, `[:-1]`."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    last = parts[-1]
    if len(parts) > 2 or not isinstance(last, ast.Slice) or not all(isinstance(item, ast.Slice) for item in parts):
        return False
    bounds = [ast.unparse(item) if item is not None else "" for item in (last.lower, last.upper)]
    return bounds == [lower, upper] and all(ast.unparse(item) == ":" for item in parts[:-1])


def is_loss(call: ast.Call) -> bool:
    name = python_ast.called_name(call)
    return naming.LOSS.search(name) is not None or name == "nll_loss"


def sequence(target: ast.expr) -> ast.expr:
    """The tokens behind calls that only change their shape: `tokens[:, 1:].reshape(-1)`."""
    while isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute):
        target = target.func.value
    return target

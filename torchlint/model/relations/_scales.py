"""Scales: functions that compute the factor of a learning rate, and the length that such a function divides by."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.definitions import FunctionInfo
from torchlint.syntax.python_ast import dotted, walk
from torchlint.syntax.python_tree import PythonTree


def scale_length(function: FunctionInfo) -> ast.expr | None:
    """The length of a schedule by its function: `n` of `1 - step / n` and `(n - step) / (n - warmup)`.

    If the function divides by several numbers, the last one is the length, after the warm-up.
    """
    step = next(iter(function.parameters), "")
    found = [item for item in _divisions(function) if _reads(item.left, step)]
    rest = [item for division in found for item in _rests(division.left, step)]
    return rest[-1] if rest else found[-1].right if found else None


def _divisions(function: FunctionInfo) -> Iterator[ast.BinOp]:
    """The divisions in a function, except conversions of steps to epochs: `epoch = step / len(loader)`."""
    tree = function.definitions.tree
    for node in walk(function.node):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not _is_conversion(node, tree):
            yield node


def _is_conversion(node: ast.BinOp, tree: PythonTree) -> bool:
    statement = tree.statement(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any("epoch" in dotted(target).lower() for target in targets)


def _reads(node: ast.expr, name: str) -> bool:
    return any(isinstance(item, ast.Name) and item.id == name for item in walk(node))


def _rests(node: ast.expr, step: str) -> Iterator[ast.expr]:
    """The total of each number of steps that are left: `total` of `total - step`."""
    for item in walk(node):
        is_rest = isinstance(item, ast.BinOp) and isinstance(item.op, ast.Sub) and dotted(item.right) == step
        if is_rest and isinstance(item, ast.BinOp) and isinstance(item.left, (ast.Name, ast.Attribute)):
            yield item.left

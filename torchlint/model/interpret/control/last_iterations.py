"""Conditions that only the last iteration of a loop meets: `i == len(loader) - 1`, `not i < n - 1`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.index import FileIndex
from torchlint.syntax.python_ast import called_name, walk, written_alike
from torchlint.syntax.python_tree import PythonTree

_MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}
_AT_END = {ast.Eq: -1, ast.GtE: -1, ast.Gt: -2}
"""Operators that hold only in the last iteration, with the distance from the length: `i >= n - 1`."""
_BEFORE_END = {ast.NotEq: -1, ast.Lt: -1, ast.LtE: -2}
"""Operators that fail only in the last iteration: `i < n - 1`."""


def is_last(test: ast.expr, loop: ast.AST, tree: PythonTree, *, holds: bool) -> bool:
    """Whether only the last iteration of a loop meets a condition, or with `holds=False` only it does not."""
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return False
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return is_last(test.operand, loop, tree, holds=not holds)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if holds else ast.Or):
        return any(is_last(item, loop, tree, holds=holds) for item in test.values)
    if isinstance(test, ast.Name):
        value = _bound_once(test.id, loop, tree)
        return value is not None and _compares_to_end(value, loop, holds=holds)
    return _compares_to_end(test, loop, holds=holds)


def _compares_to_end(test: ast.expr, loop: ast.For | ast.AsyncFor, *, holds: bool) -> bool:
    if not isinstance(test, ast.Compare) or len(test.ops) > 1:
        return False
    distance = (_AT_END if holds else _BEFORE_END).get
    first, second, operator = test.left, test.comparators[0], type(test.ops[0])
    pairs = ((first, second, operator), (second, first, _MIRRORED.get(operator, operator)))
    return any(_distance(counted, end, loop) == distance(how, 0) for counted, end, how in pairs)


def _distance(counted: ast.expr, end: ast.expr, loop: ast.For | ast.AsyncFor) -> int | None:
    """The number `d` of a comparison of a loop's counter with its length plus `d`; None for other comparisons."""
    counter, ends = _counter(loop.target), list(_lengths(loop.iter))
    left, ahead = _shifted(counted)
    right, behind = _shifted(end)
    is_counter = isinstance(left, ast.Name) and left.id == counter
    return behind - ahead if is_counter and any(written_alike(right, item) for item in ends) else None


def _counter(target: ast.expr) -> str:
    first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
    return first.id if isinstance(first, ast.Name) else ""


def _lengths(iterated: ast.expr) -> Iterator[ast.expr]:
    """The lengths of `range(n)` and of `enumerate(tqdm(loader))`: `n`, and `len(loader)`."""
    if not isinstance(iterated, ast.Call) or len(iterated.args) != 1:
        return
    if called_name(iterated) == "range":
        yield iterated.args[0]
    elif called_name(iterated) == "enumerate" and not iterated.keywords:
        length = ast.Name("len", ast.Load())
        for item in walk(iterated.args[0]):
            if isinstance(item, (ast.Name, ast.Attribute)):
                yield ast.Call(length, [item], [])
    else:
        yield from _lengths(iterated.args[0])  # a progress bar


def _shifted(node: ast.expr) -> tuple[ast.expr, int]:
    """The expression and the number of `i + 1` or `len(loader) - 1`."""
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) and isinstance(node.right.value, int):
        if isinstance(node.op, (ast.Add, ast.Sub)):
            return node.left, node.right.value if isinstance(node.op, ast.Add) else -node.right.value
    return node, 0


def _bound_once(name: str, loop: ast.For | ast.AsyncFor, tree: PythonTree) -> ast.expr | None:
    """The only value that a loop assigns to a name."""
    last = loop.end_lineno or loop.lineno
    stores = [item for item in FileIndex.of(tree).bindings_of(name) if loop.lineno <= item.lineno <= last]
    statement = tree.parent(stores[0]) if len(stores) == 1 else None
    if not isinstance(statement, ast.Assign) or statement.targets[0] is not stores[0]:
        return None
    return statement.value

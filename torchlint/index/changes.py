"""Changes in place that may be of a tensor, by what is written: numbers and containers of Python aside."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.pytorch.autograd_table import INPLACE, INPLACE_MODULES
from torchlint.syntax.python_ast import called_name, dotted, is_literal, walk
from torchlint.syntax.python_tree import PythonTree

_COUNTING = frozenset({"len", "int", "round", "range", "enumerate", "count", "time", "perf_counter"})


def written(tree: PythonTree) -> Iterator[ast.AST]:
    """The calls and statements that change something in place, whatever it is."""
    yield from (call for call in tree.of_type(ast.Call) if called_name(call) in INPLACE or works_in_place(call))
    yield from tree.of_type(ast.AugAssign)
    yield from (item for item in tree.of_type(ast.Assign) if any(map(_holds_slot, item.targets)))


def of_tensors(tree: PythonTree) -> Iterator[ast.AST]:
    """Those that may change a tensor."""
    for node in written(tree):
        if isinstance(node, ast.AugAssign):
            is_tensor = not _counts(tree, node)
        elif isinstance(node, ast.Assign):
            is_tensor = any(map(_is_slot, node.targets))
        else:
            is_tensor = isinstance(node, ast.Call) and "init" not in dotted(node.func).split(".")
        if is_tensor:
            yield node


def works_in_place(call: ast.Call) -> bool:
    """Whether a module or a function is told to work in place, or to write its result into a tensor."""
    named = any(item.arg == "out" or (item.arg == "inplace" and is_literal(item.value, True)) for item in call.keywords)
    return named or (called_name(call) in INPLACE_MODULES and any(is_literal(item, True) for item in call.args))


def _holds_slot(target: ast.expr) -> bool:
    return any(isinstance(item, ast.Subscript) for item in walk(target))


def _is_slot(target: ast.expr) -> bool:
    """Whether a target may be a part of a tensor: no entry of a dictionary under a text."""
    return any(
        isinstance(item, ast.Subscript)
        and not (isinstance(item.slice, ast.Constant) and isinstance(item.slice.value, str))
        for item in walk(target)
    )


def _counts(tree: PythonTree, change: ast.AugAssign) -> bool:
    """Whether a sum surely is a number, a text or a list: its name is only ever bound to such in its function."""
    if isinstance(change.value, (ast.JoinedStr, ast.List, ast.Tuple)) or _is_text(change.value):
        return True
    if not _adds_number(change.value):
        return False
    if isinstance(change.target, ast.Attribute):
        values = (item.value for item in tree.of_type(ast.Assign) if change.target.attr in _attributes(item.targets))
        known = list(values)
        return bool(known) and all(map(_is_number, known))
    if not isinstance(change.target, ast.Name):
        return not _is_slot(change.target)
    function = tree.function_around(change)
    if function is None:
        return False
    bound = [item for item in walk(function) if _binds(item, change.target.id)]
    return bool(bound) and all(map(_binds_number, bound))


def _adds_number(value: ast.expr) -> bool:
    """Whether an expression surely is a number: one that is written, counted, or read from a shape."""
    if isinstance(value, ast.BinOp):
        return _adds_number(value.left) and _adds_number(value.right)
    if isinstance(value, ast.Subscript):
        return isinstance(value.value, ast.Attribute) and value.value.attr == "shape"
    if isinstance(value, ast.Call):
        return called_name(value) in _COUNTING | {"size", "item", "numel"}
    return isinstance(value, ast.Constant)


def _attributes(targets: list[ast.expr]) -> set[str]:
    """The names of the attributes among the targets of an assignment."""
    return {item.attr for item in targets if isinstance(item, ast.Attribute)}


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a node binds a name: as a parameter, by an assignment, a loop or a `with`."""
    if isinstance(node, ast.arg):
        return node.arg == name
    return any(isinstance(item, ast.Name) and item.id == name for to in _targets(node) for item in walk(to))


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AnnAssign, ast.For, ast.AsyncFor, ast.NamedExpr)):
        return [node.target]
    return [node.optional_vars] if isinstance(node, ast.withitem) and node.optional_vars is not None else []


def _binds_number(node: ast.AST) -> bool:
    """Whether what a name is bound to is a number that is written or counted, a text, or a container."""
    value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
    if isinstance(value, ast.Tuple):
        return all(map(_is_number, value.elts))
    return value is not None and _is_number(value)


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return called_name(value) in _COUNTING
    return isinstance(value, (ast.Constant, ast.List, ast.Dict, ast.Set, ast.JoinedStr, ast.ListComp))


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, (str, bytes))

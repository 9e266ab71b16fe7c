"""Intervals: how often Lightning steps the schedules from `configure_optimizers`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.index import FileIndex
from torchlint.model.definitions import ClassInfo
from torchlint.pytorch import api
from torchlint.syntax.python_ast import called_name, dotted, walk
from torchlint.syntax.python_tree import PythonTree

_BY_HAND = frozenset({"automatic_optimization", "lr_scheduler_step", "lr_schedulers"})
"""Names in a class that steps its schedules itself."""


def configured(info: ClassInfo) -> Iterator[tuple[ast.Call, str]]:
    """The schedulers that a Lightning module returns, each with its interval: "epoch" or "step"."""
    method, own = info.methods.get("configure_optimizers"), walk(info.node)
    names = {item.name if isinstance(item, ast.FunctionDef) else getattr(item, "attr", "") for item in own}
    if method is None or not names.isdisjoint(_BY_HAND):
        return
    tree, definitions = info.definitions.tree, info.definitions
    for call in walk(method.node):
        if isinstance(call, ast.Call) and api.makes_scheduler(definitions.named(call.func)):
            interval = _interval(call, tree)
            if interval in ("epoch", "step"):
                yield call, interval


def _interval(call: ast.Call, tree: PythonTree) -> str:
    """The interval of a scheduler, "epoch" by default; empty if it is not known, or Lightning does not step it."""
    uses = [call] if not (name := _name_of(call, tree)) else _uses(name, call, tree)
    found = {_interval_of_use(use, tree) for use in uses} - {None}
    return next(iter(found)) or "" if len(found) == 1 else ""


def _interval_of_use(use: ast.AST, tree: PythonTree) -> str | None:
    """The interval that a use of a scheduler sets; None for any other use."""
    around = tree.parent(use)
    around = tree.parent(around) if isinstance(around, ast.keyword) else around
    entries = _entries(around)
    if around is None or entries is None:
        return "epoch" if _is_returned(use, tree) else None
    if entries.get("lr_scheduler") is use:
        return "epoch"
    if entries.get("scheduler") is not use:
        return None
    told = entries.get("interval")
    if told is None and (name := _name_of(around, tree)):
        stores = (tree.parent(item) for item in _uses(name, around, tree))
        subscripts = [item for item in stores if isinstance(item, ast.Subscript) and isinstance(item.ctx, ast.Store)]
        told = next((_stored(item, tree) for item in subscripts if _text(item.slice) == "interval"), None)
    frequency = entries.get("frequency")
    is_plain = None not in entries and (frequency is None or getattr(frequency, "value", None) == 1)
    if told is None:
        return "epoch" if is_plain else ""
    return _text(told) if is_plain else ""


def _entries(node: ast.AST | None) -> dict[object, ast.expr] | None:
    """The entries of `{...}` or `dict(...)` with literal keys; a key None stands for unknown ones."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {
            getattr(key, "value", None): value for key, value in pairs if key is None or isinstance(key, ast.Constant)
        }
    if isinstance(node, ast.Call) and called_name(node) == "dict" and not node.args:
        return {item.arg: item.value for item in node.keywords}
    return None


def _text(node: ast.expr) -> str:
    """The text of a literal; empty for any other expression."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _stored(target: ast.Subscript, tree: PythonTree) -> ast.expr | None:
    statement = tree.parent(target)
    return statement.value if isinstance(statement, ast.Assign) else None


def _is_returned(use: ast.AST, tree: PythonTree) -> bool:
    """Whether a `return` contains a scheduler: `return [optimizer], [scheduler]`."""
    parent = tree.parent(use)
    is_listed = isinstance(parent, (ast.List, ast.Tuple))
    while isinstance(parent, (ast.List, ast.Tuple)):
        parent = tree.parent(parent)
    return is_listed and isinstance(parent, ast.Return)


def _name_of(value: ast.AST, tree: PythonTree) -> str:
    """The only variable that holds a value."""
    statement = tree.parent(value)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return dotted(targets[0]) if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _uses(name: str, near: ast.AST, tree: PythonTree) -> list[ast.AST]:
    """The reads of a variable in the function around a node; empty if it is bound more than once."""
    function = tree.function_around(near)
    if len([item for item in FileIndex.of(tree).bindings_of(name) if tree.function_around(item) is function]) != 1:
        return []
    names = (item for item in walk(function) if isinstance(item, ast.Name) and item.id == name) if function else ()
    return [item for item in names if isinstance(item.ctx, ast.Load)]

"""Lists that never hold more than a few: rings, windows, the first ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.events import Branch, Keep, Loop
from torchlint.syntax.python_ast import PythonTree, dotted, names_read, walk


class Bounds:
    """Asks whether a program bounds what it keeps, as it is written around the place."""

    def __init__(self, tree: PythonTree) -> None:
        self.tree = tree

    def are_set(self, keep: Keep, loop: Loop | None) -> bool:
        """Whether a loop never leaves more than a few of what it keeps at a place."""
        node = self.tree.node(keep.site)
        if keep.how == "slot" and isinstance(node, ast.Subscript):
            operators = (item.op for item in walk(node.slice) if isinstance(item, ast.BinOp))
            return any(isinstance(item, ast.Mod) for item in operators)  # `recent[i % size] = loss`
        if keep.how != "append" or loop is None:
            return False
        body = self.tree.node(loop.site)
        counted = names_read(body.target) if isinstance(body, (ast.For, ast.AsyncFor)) else set()
        if any(_is_about_few(test, keep.name, counted) for test in self._conditions(keep, loop)):
            return True
        owner = _root(node)
        return any(_is_window(item, keep.name) or (owner and _takes_out(item, owner)) for item in walk(body))

    def _conditions(self, keep: Keep, loop: Loop) -> Iterator[ast.expr]:
        for branch, arm in keep.path[len(loop.path) :]:
            node = self.tree.node(branch.site) if isinstance(branch, Branch) else None
            if isinstance(node, ast.If) and arm == 0:
                yield node.test


def _is_about_few(test: ast.expr, name: str, counted: set[str]) -> bool:
    """`len(samples) < 3`, or `i < 3` where the loop counts by `i`."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Lt, ast.LtE)):
        return False
    left = test.left
    if isinstance(left, ast.Name):
        return left.id in counted
    return isinstance(left, ast.Call) and dotted(left.func) == "len" and [dotted(item) for item in left.args] == [name]


def _is_window(node: ast.AST, name: str) -> bool:
    """`recent = recent[-n:]`."""
    if not isinstance(node, ast.Assign) or not any(dotted(target) == name for target in node.targets):
        return False
    parts = (item for item in walk(node.value) if isinstance(item, ast.Subscript) and isinstance(item.slice, ast.Slice))
    return any(dotted(item.value) == name for item in parts)


def _takes_out(node: ast.AST, owner: str) -> bool:
    """`groups.pop(key)`, where lists are entries of `groups`."""
    method = node.func if isinstance(node, ast.Call) else None
    return isinstance(method, ast.Attribute) and method.attr in ("pop", "popitem") and dotted(method.value) == owner


def _root(node: ast.AST) -> str:
    """What a list is an entry of: `groups` of `groups.setdefault(key, []).append(loss)`, `groups[key].append(loss)`."""
    method = node.func if isinstance(node, ast.Call) else None
    inner = method.value if isinstance(method, ast.Attribute) else None
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        return dotted(inner.func.value)
    return dotted(inner.value) if isinstance(inner, ast.Subscript) else ""

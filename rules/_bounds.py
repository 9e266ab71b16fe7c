"""Lists that never hold more than a few: rings, windows, the first ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.events import Branch, Keep, Keeping, Loop
from torchlint.syntax.python_ast import dotted, names_read, walk
from torchlint.syntax.python_tree import PythonTree

_TAKING = frozenset({"pop", "popitem"})


class Bounds:
    """Asks whether a program bounds what it keeps, as it is written around the place."""

    def __init__(self, tree: PythonTree) -> None:
        self.tree = tree
        self._known: dict[ast.AST, set[str]] = {}

    def are_set(self, keep: Keep, loop: Loop | None) -> bool:
        """Whether a loop never leaves more than a few of what it keeps at a place."""
        node = self.tree.node(keep.site)
        if keep.how is Keeping.SLOT and isinstance(node, ast.Subscript):
            operators = (item.op for item in walk(node.slice) if isinstance(item, ast.BinOp))
            return any(isinstance(item, ast.Mod) for item in operators)  # `recent[i % size] = loss`
        if keep.how is not Keeping.APPEND or loop is None:
            return False
        body = self.tree.node(loop.site)
        counted = names_read(body.target) if isinstance(body, (ast.For, ast.AsyncFor)) else set()
        if any(_is_about_few(test, keep.name, counted) for test in self._conditions(keep, loop)):
            return True
        around = self.tree.function_around(node)  # which may cut its list itself
        cut = self._cut_in(body) | (self._cut_in(around) if around is not None else set())
        return keep.name in cut or _root(node) in cut

    def _cut_in(self, body: ast.AST) -> set[str]:
        if body not in self._known:
            self._known[body] = _bounded(body)
        return self._known[body]

    def _conditions(self, keep: Keep, loop: Loop) -> Iterator[ast.expr]:
        for branch, arm in keep.path[len(loop.path) :]:
            node = self.tree.node(branch.site) if isinstance(branch, Branch) else None
            if isinstance(node, ast.If) and arm == 0:
                yield node.test


def _is_about_few(test: ast.expr, name: str, counted: set[str]) -> bool:
    """`len(samples) < 3`, or `i < 3` where the loop counts by `i`; `not samples`, `i == 0`, which hold once."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return dotted(test.operand) == name
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.Eq)):
        return False
    left = test.left
    if isinstance(left, ast.Name):
        return left.id in counted
    return isinstance(left, ast.Call) and dotted(left.func) == "len" and [dotted(item) for item in left.args] == [name]


def _bounded(body: ast.AST) -> set[str]:
    """The lists that a loop cuts, `recent = recent[-n:]`, and what it takes entries out of, `groups.pop(key)`."""
    found: set[str] = set()
    for node in walk(body):
        if isinstance(node, ast.Assign):
            cuts = (item for item in walk(node.value) if isinstance(item, ast.Subscript))
            cut = {dotted(item.value) for item in cuts if isinstance(item.slice, ast.Slice)}
            found |= cut & set(map(dotted, node.targets))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TAKING:
            found.add(dotted(node.func.value))
    return found - {""}


def _root(node: ast.AST) -> str:
    """What a list is an entry of: `groups` of `groups.setdefault(key, []).append(loss)`, `groups[key].append(loss)`."""
    method = node.func if isinstance(node, ast.Call) else None
    inner = method.value if isinstance(method, ast.Attribute) else None
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        return dotted(inner.func.value)
    return dotted(inner.value) if isinstance(inner, ast.Subscript) else ""

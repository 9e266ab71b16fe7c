"""The LibCST nodes of a file for the nodes of Python's parser, found by walking both trees."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import libcst as cst

from torchlint.syntax.python_ast import Site, site_of
from torchlint.syntax.python_tree import PythonTree
from torchlint.syntax.tree import Tree

Written = Any
"""A LibCST node; its class and fields follow from Python's node."""


class Nodes:
    """Finds the LibCST node at a site."""

    def __init__(self, python: PythonTree, tree: Tree) -> None:
        self.python = python
        self.tree = tree

    def at(self, site: Site | None) -> Written | None:
        """The node at a site; None if the two parsers disagree about it."""
        if site is None or site.inner is not None:
            return None
        if site.kind == "decorator":
            return self._decorator(site)
        node = self.python.node(site)
        path = [node, *self.python.ancestors(node)][::-1]
        written: Written = self.tree.module
        try:
            for parent, child in pairwise(path):
                written = _step(written, parent, child)
                if parent is self.python.module:
                    self.tree.enter(written)
        except (AttributeError, IndexError, LookupError):
            return None
        return written if isinstance(written, cst.CSTNode) and _is_alike(node, written) else None

    def _decorator(self, site: Site) -> Written | None:
        for function in self.python.of_type(ast.FunctionDef, ast.AsyncFunctionDef):
            for number, decorator in enumerate(function.decorator_list):
                if (decorator.end_lineno, decorator.end_col_offset) == (site.end_line, site.end_column):
                    written = self.at(site_of(function))
                    return written.decorators[number] if written is not None else None
        return None


def _step(written: Written, parent: ast.AST, child: ast.AST) -> Written:
    """The node below a node that corresponds to a child of the other tree's node."""
    name, number = _place(parent, child)
    how = _STEPS.get((type(parent), name)) or _FIELDS.get(name)
    if how is not None:
        return how(written, number, parent)
    value = getattr(written, name)
    return value[number] if isinstance(value, (tuple, list)) else value


def _place(parent: ast.AST, child: ast.AST) -> tuple[str, int]:
    """The field of a node that holds a child, and the child's number in it."""
    for name in parent._fields:
        value = getattr(parent, name, None)
        if value is child:
            return name, 0
        if isinstance(value, list):
            for number, item in enumerate(value):
                if item is child:
                    return name, number
    raise LookupError


def _statements(body: Written) -> list[Written]:
    """The statements of a module, suite or `else`; small ones are taken out of their lines."""
    if isinstance(body, (cst.Else, cst.Finally)):
        body = body.body
    found: list[Written] = []
    for item in body.body if not isinstance(body, (tuple, list)) else body:
        found.extend(item.body if isinstance(item, cst.SimpleStatementLine) else [item])
    return found


def _body(written: Written, number: int, parent: ast.AST) -> Written:
    if isinstance(parent, (ast.Lambda, ast.IfExp)):
        return written.body
    return _statements(written if isinstance(parent, ast.Module) else written.body)[number]


def _orelse(written: Written, number: int, parent: ast.AST) -> Written:
    if isinstance(parent, ast.IfExp):
        return written.orelse
    if isinstance(written.orelse, cst.If):
        return written.orelse
    return _statements(written.orelse)[number]


def _operand(written: Written, number: int, parent: ast.AST) -> Written:
    """An operand of `a and b and c`, which LibCST nests as `(a and b) and c`."""
    assert isinstance(parent, ast.BoolOp)
    for _ in range(len(parent.values) - 1 - max(number, 1)):
        written = written.left
    return written.right if number else written.left


def _positional(written: Written, number: int, parent: ast.AST) -> Written:
    return [item for item in written.args if item.keyword is None and item.star != "**"][number].value


def _keyword(written: Written, number: int, parent: ast.AST) -> Written:
    arguments = written.keywords if isinstance(parent, ast.ClassDef) else written.args
    return [item for item in arguments if item.keyword is not None or item.star == "**"][number]


def _generator(written: Written, number: int, parent: ast.AST) -> Written:
    written = written.for_in
    for _ in range(number):
        written = written.inner_for_in
    return written


def _slice(written: Written, number: int, parent: ast.AST) -> Written:
    """The expression in the brackets; several indices have no node of their own."""
    if len(written.slice) > 1:
        return written
    index = written.slice[0].slice
    return index.value if isinstance(index, cst.Index) else index


def _element(written: Written, number: int, parent: ast.AST) -> Written:
    if isinstance(written, cst.Subscript):
        index = written.slice[number].slice
        return index.value if isinstance(index, cst.Index) else index
    element = written.elements[number]
    return element if isinstance(element, cst.StarredElement) else element.value


def _default(written: Written, number: int, parent: ast.AST) -> Written:
    assert isinstance(parent, ast.arguments)
    positional = [*written.posonly_params, *written.params]
    return positional[len(positional) - len(parent.defaults) + number].default


How = Callable[[Written, int, ast.AST], Written]
_FIELDS: dict[str, How] = {
    "body": _body,
    "orelse": _orelse,
    "finalbody": lambda written, number, parent: _statements(written.finalbody)[number],
    "elts": _element,
    "generators": _generator,
}
"""The next step for fields with these names, in any node."""
_STEPS: dict[tuple[type[ast.AST], str], How] = {
    (ast.FunctionDef, "args"): lambda written, number, parent: written.params,
    (ast.AsyncFunctionDef, "args"): lambda written, number, parent: written.params,
    (ast.Lambda, "args"): lambda written, number, parent: written.params,
    (ast.FunctionDef, "decorator_list"): lambda written, number, parent: written.decorators[number].decorator,
    (ast.AsyncFunctionDef, "decorator_list"): lambda written, number, parent: written.decorators[number].decorator,
    (ast.ClassDef, "decorator_list"): lambda written, number, parent: written.decorators[number].decorator,
    (ast.ClassDef, "bases"): lambda written, number, parent: written.bases[number].value,
    (ast.ClassDef, "keywords"): _keyword,
    (ast.arguments, "defaults"): _default,
    (ast.arguments, "kw_defaults"): lambda written, number, parent: written.kwonly_params[number].default,
    (ast.Assign, "targets"): lambda written, number, parent: written.targets[number].target,
    (ast.withitem, "context_expr"): lambda written, number, parent: written.item,
    (ast.withitem, "optional_vars"): lambda written, number, parent: written.asname.name,
    (ast.BoolOp, "values"): _operand,
    (ast.UnaryOp, "operand"): lambda written, number, parent: written.expression,
    (ast.Compare, "comparators"): lambda written, number, parent: written.comparisons[number].comparator,
    (ast.comprehension, "ifs"): lambda written, number, parent: written.ifs[number].test,
    (ast.Dict, "keys"): lambda written, number, parent: written.elements[number].key,
    (ast.Dict, "values"): lambda written, number, parent: written.elements[number].value,
    (ast.Await, "value"): lambda written, number, parent: written.expression,
    (ast.Raise, "cause"): lambda written, number, parent: written.cause.item,
    (ast.YieldFrom, "value"): lambda written, number, parent: written.value.item,
    (ast.Call, "args"): _positional,
    (ast.Call, "keywords"): _keyword,
    (ast.Starred, "value"): lambda written, number, parent: (
        written.value if isinstance(written, cst.StarredElement) else written
    ),
    (ast.Subscript, "slice"): _slice,
    (ast.Delete, "targets"): lambda written, number, parent: (
        _element(written.target, number, parent) if isinstance(written.target, cst.Tuple) else written.target
    ),
}
"""The next step for fields with other names, or with other nodes."""

_ALIKE: dict[str, str] = {
    "BinOp": "BinaryOperation", "UnaryOp": "UnaryOperation", "BoolOp": "BooleanOperation", "Compare": "Comparison",
    "withitem": "WithItem", "keyword": "Arg", "AsyncFor": "For", "AsyncWith": "With", "AsyncFunctionDef": "FunctionDef",
    "YieldFrom": "Yield", "JoinedStr": "FormattedString", "comprehension": "CompFor", "Delete": "Del",
}  # fmt: skip


def _is_alike(node: ast.AST, written: cst.CSTNode) -> bool:
    """Whether two nodes are of the same kind, by its name."""
    name = type(node).__name__
    return isinstance(node, (ast.Constant, ast.Starred)) or type(written).__name__ == _ALIKE.get(name, name)

"""Errors that the program expects, or prevents by an earlier check: not reported."""

from __future__ import annotations

import ast

from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax.python_ast import FUNCTIONS, LEAVING, Site, called_name, names_in, walk
from torchlint.syntax.python_tree import PythonTree

MEASURES = frozenset("shape size dim ndim ndimension numel len dtype is_floating_point".split())
_TESTS = (ast.If, ast.IfExp, ast.While, ast.Match)
_ANNOUNCED = LazyPattern(r"(?i)#.*\b(?:errors?|fails?|raises?|won't work|(?:does not|doesn't) (?:work|match|fit))\b")


def is_handled(tree: PythonTree, site: Site) -> bool:
    """Whether the program expects an error at a site of the file, or of a called file.

    That is a `try`, a test for the error, a comment that mentions it, or a check of sizes that leaves before it.
    """
    places = [(tree, tree.node(site.here))]
    if site.inner is not None:
        places.append((site.inner.tree, tree.node(site)))
    lines = tree.source.lines[max(site.line - 2, 0) : site.end_line]
    return any(map(_ANNOUNCED.search, lines)) or any(_is_waited_for(*place) for place in places)


def measures(test: ast.AST | None) -> bool:
    """Whether a condition depends on shapes or types."""
    return test is not None and any(
        (isinstance(item, ast.Attribute) and item.attr in MEASURES)
        or (isinstance(item, ast.Name) and item.id in ("len", "isinstance"))
        for item in walk(test)
    )


def _is_waited_for(tree: PythonTree, node: ast.AST) -> bool:
    below = node
    for item in tree.ancestors(node):
        if (isinstance(item, ast.Try) and item.handlers) or _expects_error(tree, item):
            return True
        if isinstance(item, _TESTS) and measures(getattr(item, "test", None) or getattr(item, "subject", None)):
            return True
        if isinstance(below, ast.stmt) and any(_checks(tree, one, names_in(below)) for one in tree.before(below)):
            return True
        if isinstance(item, FUNCTIONS) and _is_called_to_fail(tree, item.name):
            return True
        below = item
    return False


def _expects_error(tree: PythonTree, item: ast.AST) -> bool:
    """Whether a node is `with pytest.raises(...)` or similar."""
    return isinstance(item, (ast.With, ast.AsyncWith)) and any("aises" in tree.code(it) for it in item.items)


def _is_called_to_fail(tree: PythonTree, name: str) -> bool:
    """Whether a function with this name is called in code that expects an error."""
    calls = FileIndex.of(tree).calls_named(name)
    return any(_expects_error(tree, item) for call in calls for item in tree.ancestors(call))


def _checks(tree: PythonTree, statement: ast.AST, used: set[str]) -> bool:
    """Whether a statement checks the shapes of values used after it, and may leave, itself or in a called function."""
    if used.isdisjoint(names_in(statement)):
        return False
    if _leaves(statement):
        return True
    value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    if not isinstance(value, ast.Call):
        return False
    name = called_name(value)
    functions = (item for item in tree.of_type(*FUNCTIONS) if item.name == name)
    return any(_leaves(item) for function in functions for item in function.body)


def _leaves(statement: ast.AST) -> bool:
    """Whether a statement leaves if shapes are not as expected."""
    if isinstance(statement, ast.Assert):
        return measures(statement.test)
    return isinstance(statement, ast.If) and isinstance(statement.body[-1], LEAVING) and measures(statement.test)

"""Optional imports: `try: import torch`, `except ImportError: torch = None`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.syntax.python_ast import FUNCTIONS, is_literal
from torchlint.syntax.python_tree import PythonTree

_SCOPES = (*FUNCTIONS, ast.Lambda, ast.ClassDef)


def stand_ins(tree: PythonTree) -> frozenset[ast.Name]:
    """The names that are bound to None in case their import fails or does not run; they stand for the import."""
    ends = _ends_of_optional_imports(tree)
    if not ends:
        return frozenset()
    return frozenset(
        name
        for statement in tree.of_type(ast.Assign, ast.AnnAssign)
        for name in _bound_to_none(statement)
        if statement.lineno <= ends.get((_scope(tree, statement), name.id), 0)
    )


def imported_names(node: ast.Import | ast.ImportFrom) -> set[str]:
    """The names that an import binds."""
    return {alias.asname or alias.name.partition(".")[0] for alias in node.names}


def _ends_of_optional_imports(tree: PythonTree) -> dict[tuple[ast.AST | None, str], int]:
    """The last line of the `try` or `if` around the imports of each name, by the scope of the name."""
    ends: dict[tuple[ast.AST | None, str], int] = {}
    for node in tree.of_type(ast.Import, ast.ImportFrom):
        around = list(_around(tree, node))
        if around:
            scope, end = _scope(tree, node), around[-1].end_lineno or 0
            for name in imported_names(node):
                ends[scope, name] = max(end, ends.get((scope, name), 0))
    return ends


def _around(tree: PythonTree, node: ast.AST) -> Iterator[ast.Try | ast.If]:
    """Each `try` and `if` around a node in its scope, the innermost first."""
    for item in tree.ancestors(node):
        if isinstance(item, _SCOPES):
            return
        if isinstance(item, (ast.Try, ast.If)):
            yield item


def _scope(tree: PythonTree, node: ast.AST) -> ast.AST | None:
    return next((item for item in tree.ancestors(node) if isinstance(item, _SCOPES)), None)


def _bound_to_none(node: ast.Assign | ast.AnnAssign) -> Iterator[ast.Name]:
    """The names that a statement binds to None, also several: `torch = nn = None`, `torch, nn = None, None`."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        targets, values = [target], [node.value]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            targets, values = target.elts, list(node.value.elts)
        for name, value in zip(targets, values, strict=False):
            if isinstance(name, ast.Name) and value is not None and is_literal(value, None):
                yield name

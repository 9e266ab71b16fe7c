"""Freezing: the statements that set `requires_grad` for the parameters of a module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.syntax import python_ast
from torchlint.syntax.python_tree import PythonTree

FLAG = "requires_grad"
_OF_PARAMETERS = frozenset({"parameters", "named_parameters"})


class Setting(NamedTuple):
    """`node`, in `statement`, sets the flag of the parameters of `owner`; of all of them, unless it `is_partial`."""

    owner: str
    flag: bool
    is_partial: bool
    node: ast.AST
    statement: ast.stmt


def settings(statement: ast.AST, tree: PythonTree) -> Iterator[Setting]:
    """The flags that a loop over parameters sets, or `module.requires_grad_(...)`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        found = _set_by_call(statement.value)
        if found is not None:
            yield Setting(python_ast.dotted(found[0]), found[1], False, statement, statement)
    owner = owner_of(statement.iter) if isinstance(statement, ast.For) else ""
    if isinstance(statement, ast.For) and owner:
        names = python_ast.names_bound(statement.target)
        leaves = any(isinstance(node, python_ast.LEAVING) for node in python_ast.walk(statement))
        for node in python_ast.walk(statement):
            flag = _set_for_one(node, names)
            if flag is not None:
                yield Setting(owner, flag, leaves or tree.statement(node) not in statement.body, node, statement)


def owner_of(node: ast.expr) -> str:
    """The module of `module.parameters()`: `model.body`; empty for other expressions."""
    if not isinstance(node, ast.Call) or node.args or node.keywords:
        return ""
    owner, _, method = python_ast.dotted(node.func).rpartition(".")
    return owner if method in _OF_PARAMETERS else ""


def _flag(node: ast.expr) -> bool | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def _set_by_call(call: ast.Call) -> tuple[ast.expr, bool] | None:
    """The module or parameter, and the flag, of `x.requires_grad_(flag)`."""
    given = python_ast.arguments(call)
    if not isinstance(call.func, ast.Attribute) or call.func.attr != f"{FLAG}_" or len(given) > 1:
        return None
    flag = _flag(given[0]) if given else True
    return (call.func.value, flag) if flag is not None and python_ast.dotted(call.func.value) else None


def _set_for_one(node: ast.AST, names: set[str]) -> bool | None:
    """The flag that a statement sets for the parameter of a loop."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        target = node.targets[0]
        return _flag(node.value) if target.attr == FLAG and python_ast.dotted(target.value) in names else None
    found = _set_by_call(node) if isinstance(node, ast.Call) else None
    return found[1] if found is not None and python_ast.dotted(found[0]) in names else None

"""Arguments that functions of the program receive and never use."""

from __future__ import annotations

import ast

from torchlint.model.definitions import Definitions, FunctionInfo, all_parameters
from torchlint.syntax.python_ast import dotted, walk

_ALL_NAMES = frozenset({"locals", "vars", "eval", "exec"})
"""Functions that access variables without naming them."""


def is_ignored(node: ast.expr, known: Definitions) -> bool:
    """Whether an argument goes to a function that never reads it, alone or as one of a list that it unpacks."""
    parent, place = known.tree.parent(node), None
    if isinstance(parent, (ast.List, ast.Tuple)) and isinstance(parent.ctx, ast.Load):
        place = len(parent.elts), parent.elts.index(node)
        node, parent = parent, known.tree.parent(parent)
    keyword = parent if isinstance(parent, ast.keyword) else None
    call = known.tree.parent(keyword) if keyword is not None else parent
    function = known.defined(dotted(call.func)) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or not isinstance(function, FunctionInfo) or function.is_method:
        return False
    name = _parameter(call, node, keyword, function)
    nodes = list(walk(function.node))
    is_open = any(isinstance(item, ast.Call) and dotted(item.func) in _ALL_NAMES for item in nodes)
    if name is None or is_open or function.decorator_names:
        return False
    uses = _named(name, nodes)
    return not uses if place is None else len(uses) == 1 and _is_dropped(uses[0], place, nodes, function)


def _parameter(call: ast.Call, node: ast.expr, keyword: ast.keyword | None, function: FunctionInfo) -> str | None:
    """The parameter that receives an argument."""
    names = [item.arg for item in all_parameters(function.node)]
    if keyword is not None:
        return keyword.arg if keyword.arg in names else None
    arguments = function.node.args
    positional = [item.arg for item in (*arguments.posonlyargs, *arguments.args)]
    if node not in call.args or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    index = call.args.index(node)
    return positional[index] if index < len(positional) else None


def _is_dropped(use: ast.Name, place: tuple[int, int], nodes: list[ast.AST], function: FunctionInfo) -> bool:
    """Whether a function unpacks a parameter, and uses the variable for this place nowhere."""
    statement = function.definitions.tree.parent(use)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    length, index = place
    if not isinstance(target, ast.Tuple) or len(target.elts) != length:
        return False
    variable = target.elts[index]
    return isinstance(variable, ast.Name) and len(_named(variable.id, nodes)) == 1


def _named(name: str, nodes: list[ast.AST]) -> list[ast.Name]:
    return [item for item in nodes if isinstance(item, ast.Name) and item.id == name]

"""Callees: the function of the program that a call runs, and the argument that each of its parameters receives."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.index import FileIndex
from torchlint.model.definitions import ClassInfo, FunctionInfo
from torchlint.model.queries import names, variables, written
from torchlint.syntax.python_ast import called_name, dotted, walk

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions

_BY_TEXT = ("locals", "vars", "globals", "eval", "exec")


def function(node: ast.expr, definitions: Definitions) -> FunctionInfo | None:
    """The function of the program that an expression refers to, also one of another file."""
    return names.function(node, definitions) or definitions.function_anywhere(dotted(node))


def callee(call: ast.Call, definitions: Definitions) -> FunctionInfo | None:
    """The function that a call runs: a function, a method, or the `__init__`, `__call__` or `forward` of a class."""
    found = function(call.func, definitions)
    if found is not None:
        return found
    info = definitions.defined(dotted(call.func))
    if isinstance(info, ClassInfo):
        return info.method("__init__")
    made = written.value_of(call.func, definitions)
    info = definitions.defined(dotted(made.func)) if isinstance(made, ast.Call) else None
    return info.method("__call__") or info.method("forward") if isinstance(info, ClassInfo) else None


def arguments(call: ast.Call, function: FunctionInfo | None) -> dict[str, ast.expr]:
    """The arguments of a call by parameter; by keyword only if the function is unknown or a star hides places."""
    given = {item.arg: item.value for item in call.keywords if item.arg is not None}
    if function is None or any(isinstance(item, ast.Starred) for item in call.args):
        return given
    own = function.node.args
    places = [item.arg for item in (*own.posonlyargs, *own.args)][1 if function.is_method else 0 :]
    return {**dict(zip(places, call.args, strict=False)), **given}


def reads_by_text(scope: ast.AST, definitions: Definitions) -> bool:
    """Whether code may read any variable of a function, or of the module: `locals()`, `eval(text)`."""
    tree = definitions.tree
    for call in FileIndex.of(tree).calls_named(*_BY_TEXT):
        is_own = isinstance(call.func, ast.Name) and not variables.is_parameter(call.func.id, call, definitions)
        if is_own and not (call.args and called_name(call) == "vars"):
            if scope is tree.module or scope in tree.ancestors(call):
                return True
    return False


def ignores(argument: ast.expr, definitions: Definitions) -> bool:
    """Whether an argument goes to a function that never reads it, alone or as one of a list that it unpacks."""
    parent, place = definitions.tree.parent(argument), None
    if isinstance(parent, (ast.List, ast.Tuple)) and isinstance(parent.ctx, ast.Load):
        place = len(parent.elts), parent.elts.index(argument)
        argument, parent = parent, definitions.tree.parent(parent)
    call = definitions.tree.parent(parent) if isinstance(parent, ast.keyword) else parent
    info = definitions.defined(dotted(call.func)) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or not isinstance(info, FunctionInfo) or info.is_method or info.decorator_names:
        return False
    name = next((name for name, item in arguments(call, info).items() if item is argument), None)
    if name not in info.parameters or reads_by_text(info.node, info.definitions):
        return False
    nodes = [item for item in walk(info.node) if isinstance(item, ast.Name)]
    uses = [item for item in nodes if item.id == name]
    return not uses if place is None else len(uses) == 1 and _is_dropped(uses[0], place, nodes, info)


def _is_dropped(use: ast.Name, place: tuple[int, int], nodes: list[ast.Name], function: FunctionInfo) -> bool:
    """Whether a function unpacks a parameter, and uses the variable for this place nowhere."""
    statement = function.definitions.tree.parent(use)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    length, index = place
    if not isinstance(target, ast.Tuple) or len(target.elts) != length:
        return False
    variable = target.elts[index]
    return isinstance(variable, ast.Name) and sum(item.id == variable.id for item in nodes) == 1

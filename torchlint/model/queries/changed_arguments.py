"""Arrays and tensors that a function certainly changes in place, where its caller gives them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import callees, written
from torchlint.syntax.python_ast import FUNCTIONS, dotted, walk

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions, FunctionInfo

_IN_PLACE = LazyPattern(r"^(?:add|sub|mul|div|clamp|abs|neg|log|sqrt|pow|fill|zero|normal|uniform|copy|masked_fill)_$")
_CHOICES = (ast.If, ast.Try, ast.While, ast.Match, ast.IfExp, ast.BoolOp, ast.Lambda, *FUNCTIONS)
_DEEPEST = 3


def _is_changed_by(call: ast.Call, name: str, definitions: Definitions, steps: int) -> bool:
    """Whether a call of a function of the program surely changes the elements of a variable that it is given."""
    info = callees.function(call.func, definitions)
    around = definitions.method_around(call)
    if isinstance(call.func, ast.Attribute) and dotted(call.func.value) == "self" and around is not None:
        info = around.owner.method(call.func.attr) if around.owner is not None else info
    if info is None or info.decorators or info.is_generator or not steps:
        return False
    own = info.parameters[1:] if info.is_method else info.parameters
    given = [parameter for parameter, item in zip(own, call.args, strict=False) if dotted(item) == name]
    given += [item.arg for item in call.keywords if item.arg in own and dotted(item.value) == name]
    is_plain = not any(isinstance(item, ast.Starred) for item in call.args) and isinstance(info.node, FUNCTIONS)
    return is_plain and any(_changes(info, parameter, steps) for parameter in given)


def _changes(info: FunctionInfo, parameter: str, steps: int) -> bool:
    """Whether a function changes a parameter before anything else is assigned to it, under no condition."""
    for statement in info.node.body if isinstance(info.node, (ast.FunctionDef, ast.AsyncFunctionDef)) else ():
        if any(is_change(node, parameter, info.definitions, steps) for node in _always(statement)):
            return True
        nodes = walk(statement)
        if isinstance(statement, ast.Return) or any(_is_store(node, parameter) for node in nodes):
            return False
    return False


def _always(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement that run whenever it does, or in a loop of it."""
    if isinstance(node, _CHOICES):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _always(child)


def _is_store(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and not written.is_load(node)


def is_change(node: ast.AST, name: str, definitions: Definitions, steps: int = _DEEPEST) -> bool:
    """Whether a node surely changes the elements of a variable: `x[0] = 1`, `x.mul_(2)`, `normalize(x)`."""
    if isinstance(node, ast.Subscript) and not written.is_load(node):
        return dotted(node.value) == name
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and dotted(node.func.value) == name and _IN_PLACE.search(node.func.attr):
        return True
    return _is_changed_by(node, name, definitions, steps - 1)

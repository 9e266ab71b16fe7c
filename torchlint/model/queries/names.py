"""What names in a program stand for, as far as it is written in one place: asked without interpreting anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.definitions import Definitions, FunctionInfo
from torchlint.syntax.python_ast import SCOPES, children, dotted, walk


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """What is in a function, and in no other function or class in it, in the order of the program."""
    stack = list(reversed(children(function)))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, SCOPES):
            stack.extend(reversed(children(node)))


def only_value(name: ast.Name, definitions: Definitions) -> ast.expr | None:
    """What a variable is assigned, where one statement of its function (or the module) binds it, and it alone."""
    function = definitions.function_around(name)
    found = list(walk(function.node if function is not None else definitions.tree.module))
    stores = [node for node in found if isinstance(node, ast.Name) and node.id == name.id and _is_bound(node)]
    statement = definitions.tree.parent(stores[0]) if len(stores) == 1 else None
    is_alone = isinstance(statement, ast.Assign) and statement.targets == stores
    return statement.value if is_alone and isinstance(statement, ast.Assign) else None


def _is_bound(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def function(node: ast.expr, definitions: Definitions) -> FunctionInfo | None:
    """The function of the file that an expression surely stands for: a lambda, a function in sight, a method."""
    if isinstance(node, ast.Lambda):
        return definitions.functions.get(node)
    if isinstance(node, ast.Attribute):
        return _method(node, definitions)
    around = definitions.function_around(node)
    while isinstance(node, ast.Name):
        same = [item for item in definitions.functions.values() if item.name == node.id and item.owner is None]
        here = [item for item in same if item.enclosing is around]
        if here or around is None:
            return here[0] if len(here) == 1 else None
        around = around.enclosing
    return None


def _method(node: ast.Attribute, definitions: Definitions) -> FunctionInfo | None:
    """The method that `self.m` stands for."""
    around = definitions.method_around(node)
    if around is None or around.owner is None or not around.is_method:
        return None
    return around.owner.method(node.attr) if dotted(node.value) in around.parameters[:1] else None

"""Variables: the places that bind or read a variable in its function, and its last value before a use."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.index import FileIndex
from torchlint.model.definitions import ClassInfo, Definitions
from torchlint.syntax.python_ast import dotted

if TYPE_CHECKING:
    from torchlint.model.model import Model

_BY_NAME = (b"getattr(", b"vars(", b"__dict__")
"""Words of code that may reach an attribute by its name."""


def bindings(name: str, near: ast.AST, definitions: Definitions) -> list[ast.Name]:
    """The places that bind a variable in the function around a node, or in the module. Parameters do not count."""
    around = definitions.function_around(near)
    same = FileIndex.of(definitions.tree).bindings_of(name)
    return [item for item in same if definitions.function_around(item) is around]


def reads(name: str, near: ast.AST, definitions: Definitions) -> list[ast.Name]:
    """The places that read a variable in the function around a node, or in the module."""
    around = definitions.function_around(near)
    same = FileIndex.of(definitions.tree).reads_of(name)
    return [item for item in same if definitions.function_around(item) is around]


def uses(target: ast.expr, model: Model) -> list[ast.Name | ast.Attribute] | None:
    """The places that read or set the same variable, or the same attribute of `self`; None if other code may do so."""
    if isinstance(target, ast.Name):
        return _uses_of_name(target, model)
    method = model.definitions.method_around(target)
    owner = method.owner if method is not None else None
    if owner is None or not isinstance(target, ast.Attribute) or dotted(target.value) != "self":
        return None
    others = (info for info in model.definitions.classes.values() if info is not owner)
    is_derived = any(owner in info.ancestors() for info in others)
    is_by_name = any(word in model.tree.source.code for word in _BY_NAME)
    if is_derived or is_by_name or any(isinstance(item, ClassInfo) for item in owner.ancestors() if item is not owner):
        return None
    if next(model.importers(owner.name, (f".{target.attr}".encode(),)), None) is not None:
        return None
    return [item for item in model.tree.of_type(ast.Attribute) if item.attr == target.attr]


def _uses_of_name(name: ast.Name, model: Model) -> list[ast.Name | ast.Attribute] | None:
    """The uses of a variable of a function, also in functions inside it, or of a module that no other file imports."""
    definitions, index = model.definitions, FileIndex.of(model.tree)
    around = definitions.function_around(name)
    same = [*index.bindings_of(name.id), *index.reads_of(name.id)]
    own = {item for item in same if definitions.function_around(item) is around}
    if is_shared(name.id, definitions):
        return None
    if around is not None:
        inside = (item for item in same if around.node in model.tree.ancestors(item))
        return [item for item in inside if item in own or not is_parameter(name.id, item, definitions)]
    if next(model.importers(name.id, (name.id.encode(),)), None) is not None:
        return None
    return [item for item in same if definitions.scopes.binding(item.id, item) is None]


def is_parameter(name: str, near: ast.AST, definitions: Definitions) -> bool:
    """Whether a variable is a parameter of the function around a node."""
    around = definitions.function_around(near)
    return around is not None and name in around.parameters


def value_before(name: ast.Name, definitions: Definitions) -> ast.expr | None:
    """The last value of a variable before its use, if an assignment of the same block, or of one around it, binds it.

    None for a variable that a branch or a loop may bind in between.
    """
    tree = definitions.tree
    use = tree.statement(name)
    earlier = (
        item for item in bindings(name.id, name, definitions)
        if item.lineno <= name.lineno and tree.statement(item) is not use
    )  # fmt: skip
    last = max(earlier, key=lambda item: item.lineno, default=None)
    statement = tree.parent(last) if last is not None else None
    if not isinstance(statement, ast.Assign) or statement not in tree.before(name):
        return None
    return statement.value


def is_shared(name: str, definitions: Definitions) -> bool:
    """Whether a function of the file declares a variable as one of an outer scope."""
    return any(name in item.names for item in definitions.tree.of_type(ast.Global, ast.Nonlocal))

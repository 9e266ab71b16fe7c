"""Variables: the places that bind or read a variable in its function, and its last value before a use."""

from __future__ import annotations

import ast

from torchlint.index import FileIndex
from torchlint.model.definitions import Definitions


def bindings(name: str, near: ast.AST, definitions: Definitions) -> list[ast.Name]:
    """The places that bind a variable in the function around a node, or in the module. Parameters do not count."""
    return definitions.bindings.get((definitions.function_around(near), name), [])


def reads(name: str, near: ast.AST, definitions: Definitions) -> list[ast.Name]:
    """The places that read a variable in the function around a node, or in the module."""
    around = definitions.function_around(near)
    same = FileIndex.of(definitions.tree).reads_of(name)
    return [item for item in same if definitions.function_around(item) is around]


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
    if last is None or tree.statement(last) not in tree.before(name):
        return None
    return tree.assigned_to(last)


def is_shared(name: str, definitions: Definitions) -> bool:
    """Whether a function of the file declares a variable as one of an outer scope."""
    return any(name in item.names for item in definitions.tree.of_type(ast.Global, ast.Nonlocal))

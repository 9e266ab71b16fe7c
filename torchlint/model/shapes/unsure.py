"""Files that change shapes, or layers, in ways that are not followed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.model.definitions import Definitions
from torchlint.pytorch import shapes as table
from torchlint.syntax.python_ast import dotted
from torchlint.syntax.python_tree import PythonTree

if TYPE_CHECKING:
    from torchlint.model.program import Program


def is_unsure(definitions: Definitions, program: Program) -> bool:
    """Whether a file changes shapes, or layers, in ways that are not followed."""
    tree = definitions.tree
    if b"register_forward" in tree.source.code or b"_pre_hook" in tree.source.code:
        return True
    return changes_in_place(tree) or any(
        _replaces_layer(node, definitions, program) for node in tree.of_type(ast.Assign)
    )


def changes_in_place(tree: PythonTree) -> bool:
    """Whether code changes a tensor's shape in place, for all its users."""
    nodes: Iterator[ast.Attribute] = tree.of_type(ast.Attribute)
    return any(node.attr in table.IN_PLACE_SHAPES for node in nodes)


def _replaces_layer(node: ast.Assign, definitions: Definitions, program: Program) -> bool:
    """`net.fc = nn.Linear(...)`, `net[0] = ...`, `layer.weight = ...`: a layer differs from its construction."""
    for target in node.targets:
        if isinstance(target, ast.Subscript) and _makes_layer(node.value):
            return True
        if isinstance(target, ast.Attribute) and target.attr in ("weight", "in_features", "out_features", "data"):
            return True
        if isinstance(target, ast.Attribute) and dotted(target.value) != "self":
            if _is_assigned(target.attr, definitions, program):
                return True
    return False


def _makes_layer(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2][:1].isupper()


def _is_assigned(name: str, definitions: Definitions, program: Program) -> bool:
    """Whether classes of a file have an attribute with this name that may be a layer."""
    return any(name in info.assigned and program.is_module_class(info) for info in definitions.classes.values())

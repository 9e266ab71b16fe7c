"""Outputs of a module for the batches of a loop, and predictions that are compared with labels."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_tree import PythonTree

_FUNCTIONS = frozenset({"torch", "F", "nn"})


def outputs(loop: ast.For) -> set[str]:
    """The variables that only get the result of a call for a whole batch: `output = model(x)`."""
    batch, found, others = python_ast.names_in(loop.target), set[str](), set[str]()
    for node in (item for item in python_ast.walk(loop) if isinstance(item, ast.Assign)):
        targets = {name for target in node.targets for name in python_ast.names_in(target)}
        if targets & batch and any(isinstance(item, ast.Subscript) for item in python_ast.walk(node.value)):
            return set()
        first = python_ast.dotted(node.value.func).partition(".")[0] if isinstance(node.value, ast.Call) else ""
        given = node.value.args if isinstance(node.value, ast.Call) else []
        is_output = first not in _FUNCTIONS | batch and any(
            isinstance(item, ast.Name) and item.id in batch for item in given
        )
        (found if is_output and isinstance(node.targets[0], ast.Name) else others).update(targets)
    return found - others


def comparison(prediction: ast.Call, loop: ast.For, tree: PythonTree) -> ast.Compare | None:
    """The comparison of a prediction, or of the variable that gets it, with a variable of the batch."""
    batch, statement = python_ast.names_in(loop.target), tree.parent(prediction)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    made = {name for target in targets for name in python_ast.names_in(target)} - {"_"}
    for node in python_ast.walk(loop):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            sides = (node.left, node.comparators[0])
            for side, other in (sides, sides[::-1]):
                if (
                    (made & python_ast.names_in(side) or prediction in python_ast.walk(side))
                    and batch & python_ast.names_in(other)
                    and not made & python_ast.names_in(other)
                ):
                    return node
    return None

"""Results of a loop over batches: the statements of an iteration, and the ones that use its results."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.model.queries import batch_sums
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_tree import PythonTree


def statements(loop: ast.For, tree: PythonTree) -> list[ast.AST]:
    """The statements after a loop in its block, up to one that rebinds the loop's values."""
    found: list[ast.AST] = []
    outer: ast.AST | None = loop
    while isinstance(outer, (ast.For, ast.With)):
        for statement in tree.after(outer):
            if isinstance(statement, (*python_ast.LOOPS, *python_ast.SCOPES)):
                return found
            found.append(statement)
        parent = tree.parent(outer)
        outer = parent if isinstance(parent, ast.With) else None
    return found


def each_iteration(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that each iteration runs."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.With):
            yield from each_iteration(statement.body)


def bound(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The variables of an assignment with their values."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
            elif isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                for item, value in zip(target.elts, statement.value.elts, strict=False):
                    if isinstance(item, ast.Name):
                        yield item.id, value


def adds_to(name: str, loop: ast.For) -> bool:
    """Whether the loop itself adds to a variable, and no inner loop does."""
    added = [
        item
        for item in python_ast.walk(loop)
        if isinstance(item, ast.AugAssign) and batch_sums.name_of(item.target) == name
    ]
    return len(added) == 1 and added[0] in list(each_iteration(loop.body)) and isinstance(added[0].op, ast.Add)


def is_used(name: str, made: ast.AST, loop: ast.For) -> bool:
    """Whether the loop itself uses a variable except for its backward pass, or binds it again."""
    own = set(python_ast.walk(made))
    for statement in python_ast.walk(loop):
        is_backward = isinstance(statement, ast.Expr) and any(
            isinstance(item, ast.Attribute) and item.attr == "backward" for item in python_ast.walk(statement)
        )
        own |= set(python_ast.walk(statement)) if is_backward else set()
    return any(isinstance(item, ast.Name) and item.id == name and item not in own for item in python_ast.walk(loop))


def is_zero(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) in (int, float) and not value.value


def uses(behind: list[ast.AST], name: str, is_reset: bool) -> Iterator[ast.AST]:
    """The places that use a variable as the score of all batches, before another statement binds it."""
    for statement in behind:
        for node in python_ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
                return
            if is_reset:
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and batch_sums.dividend(node) == name:
                    yield node
            elif isinstance(node, ast.Return) and node.value is not None:
                parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                if any(batch_sums.name_of(batch_sums.tensor_of(item)) == name for item in parts):
                    yield node
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.Gt, ast.LtE, ast.GtE)):
                if batch_sums.name_of(batch_sums.tensor_of(node.left)) == name:
                    yield node


def shown(behind: list[ast.AST], name: str, other: str) -> Iterator[ast.AST]:
    """The places that return a variable, compare it, or pass it to a function, before another statement binds it.

    Statements that read the variable `other`, too, do not count.
    """
    for statement in behind:
        nodes = list(python_ast.walk(statement))
        if any(isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load) for node in nodes):
            return
        if other in python_ast.names_read(statement):
            continue
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            given = (item for part in python_ast.arguments(call) for item in python_ast.walk(part))
            yield from (item for item in given if isinstance(item, ast.Name) and item.id == name)
        yield from uses([statement], name, False)

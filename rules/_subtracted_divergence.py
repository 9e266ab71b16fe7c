"""Divergences that a loss subtracts, so that training makes them larger."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.model.queries import names, numbers, variables, written
from torchlint.pytorch import losses
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model

_REDUCING = frozenset({"sum", "mean"})
_STEPS = 4
"""Variables between a divergence and the loss."""


class _Part(NamedTuple):
    """An expression, with the sign of the divergence in it, and the sum that adds it to other terms."""

    node: ast.AST
    sign: int
    others: tuple[tuple[ast.expr, int], ...]


def sum_with_loss(divergence: ast.expr, sign: int, model: Model, steps: int = _STEPS) -> ast.AST | None:
    """The sum with a PyTorch loss of the other sign, so that their optima are opposite."""
    for part in _enclosing(divergence, sign, model):
        for other, its_sign in part.others:
            if its_sign != part.sign and _is_loss(other, model):
                return part.node
        around = model.tree.parent(part.node)
        target = around.targets[0] if isinstance(around, ast.Assign) and len(around.targets) == 1 else None
        if isinstance(target, ast.Name) and isinstance(around, ast.Assign) and steps:
            for read in _reads_before_next(target, around, model):
                found = sum_with_loss(read, part.sign, model, steps - 1)
                if found is not None:
                    return found
    return None


def _reads_before_next(target: ast.Name, statement: ast.AST, model: Model) -> Iterator[ast.Name]:
    """The reads of a variable after its assignment, up to the next one of the same block."""
    bound = variables.bindings(target.id, target, model.definitions)
    block = model.tree.block(statement)
    later = [item.lineno for item in bound if item.lineno > target.lineno and model.tree.statement(item) in block]
    if any(model.tree.statement(item) not in block for item in bound):
        return
    end = min(later, default=10**9)
    for read in variables.reads(target.id, target, model.definitions):
        if target.lineno < read.lineno <= end:
            yield read


def _enclosing(node: ast.expr, sign: int, model: Model) -> Iterator[_Part]:
    """The expressions around a divergence that are a multiple of it, or a sum with other terms."""
    others: list[tuple[ast.expr, int]] = []
    current: ast.AST = node
    while True:
        yield _Part(current, sign, tuple(others))
        around = model.tree.parent(current)
        if isinstance(around, ast.Attribute) and around.attr in _REDUCING:
            around = model.tree.parent(around)
        elif isinstance(around, ast.Call):
            is_reduced = python_ast.called_name(around) in _REDUCING and around.args[:1] == [current]
            around = around if is_reduced else None
        elif isinstance(around, ast.UnaryOp) and isinstance(around.op, ast.USub):
            sign, others = -sign, [(item, -its) for item, its in others]
        elif isinstance(around, ast.BinOp) and isinstance(around.op, (ast.Add, ast.Sub)):
            is_minus = isinstance(around.op, ast.Sub)
            if around.left is current:
                others.append((around.right, -1 if is_minus else 1))
            else:
                sign, others = (-sign, [(item, -its) for item, its in others]) if is_minus else (sign, others)
                others.append((around.left, 1))
        elif isinstance(around, ast.BinOp) and isinstance(around.op, (ast.Mult, ast.Div)):
            other = around.right if around.left is current else around.left
            number = numbers.literal(other)
            if isinstance(around.op, ast.Div) and around.right is current:
                return
            if number is not None and number < 0:
                sign, others = -sign, [(item, -its) for item, its in others]
        else:
            return
        if around is None:
            return
        current = around


def _is_loss(node: ast.expr, model: Model) -> bool:
    """Whether an expression is a loss of PyTorch, perhaps in a variable or with a weight."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        sides = [node.left] if isinstance(node.op, ast.Div) else [node.left, node.right]
        return any(_is_loss(side, model) for side in sides) and not any(map(_is_negative, sides))
    value = names.only_value(node, model.definitions) if isinstance(node, ast.Name) else node
    if isinstance(value, ast.BinOp) and value is not node:
        return _is_loss(value, model)
    if not isinstance(value, ast.Call):
        return False
    if python_ast.called_name(value) in _REDUCING and isinstance(value.func, ast.Attribute):
        return _is_loss(value.func.value, model)
    module, _, function = model.definitions.named(value.func).rpartition(".")
    if module == "torch.nn.functional" and function in losses.OPERATORS:
        return True
    made = written.value_of(value.func, model.definitions)
    name = model.definitions.named(made.func) if isinstance(made, ast.Call) else ""
    return name.startswith("torch.nn.") and name.rpartition(".")[2] in losses.FUNCTIONS


def _is_negative(node: ast.expr) -> bool:
    number = numbers.literal(node)
    return isinstance(node, ast.UnaryOp) or (number is not None and number < 0)

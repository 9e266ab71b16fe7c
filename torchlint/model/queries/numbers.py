"""Numbers written in a program: literals, arithmetic on them, and defaults of parameters."""

from __future__ import annotations

import ast

from torchlint.model.definitions import defaults_of
from torchlint.model.program import Program
from torchlint.model.values import Parameter, Plain, Tensor, Value, resolved
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import FUNCTIONS

_STEPS = 6
_FAR = -1e3
"""A score below this has weight zero in a softmax."""


def of(value: Value | None, program: Program, steps: int = _STEPS) -> float | None:
    """A literal number, a parameter's default, or the sum or difference of two; None if not known."""
    if value is None:
        return None
    value = resolved(value)
    node = program.tree.node(value.site) if value.site is not None else None
    if isinstance(value, Parameter) and isinstance(node, FUNCTIONS):
        return literal(defaults_of(node).get(value.label))
    if isinstance(value, Plain) and value.is_literal:
        constant = value.constant
        return constant if isinstance(constant, (int, float)) and not isinstance(constant, bool) else None
    known = program.observations.numbers.get(value)
    operator, parts = (value.op, value.parents) if isinstance(value, Tensor) else (known or ("", ()))[:2]
    if operator in (operators.ADD, operators.SUB) and len(parts) == 2 and steps:
        left, right = (of(item, program, steps - 1) for item in parts)
        if left is not None and right is not None:
            return left + right if operator == operators.ADD else left - right
    return literal(node)


def literal(node: ast.AST | None) -> float | None:
    """The value of a literal expression: `-1 + 1e-6`."""
    if isinstance(node, ast.Constant):
        number = node.value
        return number if isinstance(number, (int, float)) and not isinstance(number, bool) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = literal(node.operand)
        return -inner if inner is not None else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Div)):
        left, right = literal(node.left), literal(node.right)
        if left is not None and right is not None and isinstance(node.op, ast.Div):
            return left / right if right else None
        if left is not None and right is not None:
            return left + right if isinstance(node.op, ast.Add) else left - right
    return None


def argument(value: Value, index: int, name: str, program: Program) -> Value | None:
    """The argument of the function or method call that creates a value, counted without the tensor."""
    known = program.observations.calls.get(value)
    if known is None:
        return None
    given = known[1].get(index if known[2] is not None else index + 1, name)
    return resolved(given) if given is not None else None


def dimension(value: Value, program: Program) -> int | None:
    """The single dimension of an operator, if it is a literal number."""
    given = argument(value, 0, "dim", program)
    constant = given.constant if isinstance(given, Plain) and given.is_literal else None
    return constant if type(constant) is int else None


def is_far(fill: Value, program: Program) -> bool:
    """Whether a literal score has no weight in a softmax: `-1e9`, `torch.finfo(x.dtype).min`."""
    fill = resolved(fill)
    number = of(fill, program)
    node = program.tree.node(fill.site) if fill.site is not None else None
    is_least = isinstance(node, ast.Attribute) and node.attr == "min" and "finfo" in ast.unparse(node)
    return is_least or (number is not None and number <= _FAR)

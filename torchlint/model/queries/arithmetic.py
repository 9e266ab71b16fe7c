"""Arithmetic as the code spells it: the terms of a sum, the factors of a product, the operand of a call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.model.queries import names, numbers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions

_PACKAGES = frozenset({"torch", "numpy", "math"})


def is_function(call: ast.Call, definitions: Definitions) -> bool:
    """Whether a call is of a function of a package, not of a method: `torch.exp(x)`."""
    return names.imported(call.func, definitions).partition(".")[0] in _PACKAGES


def operand(call: ast.Call, definitions: Definitions) -> tuple[ast.expr | None, list[ast.expr]]:
    """The tensor of a method or of a package's function, and the other arguments by position."""
    if is_function(call, definitions):
        return (call.args[0], call.args[1:]) if call.args else (None, [])
    return (call.func.value, call.args) if isinstance(call.func, ast.Attribute) else (None, [])


def reduced(node: ast.expr, method: str, definitions: Definitions) -> ast.expr | None:
    """The tensor whose elements one method combines: `x` of `x.mean()` and `torch.mean(x)`."""
    if not isinstance(node, ast.Call) or python_ast.called_name(node) != method or node.keywords:
        return None
    tensor, rest = operand(node, definitions)
    return tensor if not rest else None


def terms(node: ast.expr, sign: int = 1) -> Iterator[tuple[ast.expr, int]]:
    """The terms of a sum, each with its sign: 1 or -1."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from terms(node.left, sign)
        yield from terms(node.right, sign if isinstance(node.op, ast.Add) else -sign)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and numbers.literal(node) is None:
        yield from terms(node.operand, -sign)
    else:
        yield node, sign


def factors(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Each factor of a product with the other one: of `a * b` and `a.mul(b)`."""
    pair = None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        pair = node.left, node.right
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("mul", "mul_"):
        pair = (node.func.value, node.args[0]) if len(node.args) == 1 else None
    return [pair, pair[::-1]] if pair is not None else []


def complement(node: ast.AST | None) -> ast.expr | None:
    """The number `p` of `1 - p`."""
    is_difference = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
    return node.right if is_difference and isinstance(node, ast.BinOp) and numbers.literal(node.left) == 1 else None


def power(node: ast.expr, definitions: Definitions) -> tuple[ast.expr, float]:
    """The base and the exponent of a power: `x ** 2`, `x.pow(2)`, `torch.square(x)`, `x * x`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        exponent = numbers.literal(node.right)
        return (node, 1) if exponent is None else (node.left, exponent)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return (node.left, 2) if python_ast.written_alike(node.left, node.right) else (node, 1)
    if isinstance(node, ast.Call) and python_ast.called_name(node) in ("pow", "square"):
        base, rest = operand(node, definitions)
        exponent = 2 if python_ast.called_name(node) == "square" else numbers.literal(rest[0]) if rest else None
        return (base, exponent) if base is not None and exponent is not None else (node, 1)
    return node, 1


def exponent(node: ast.expr, definitions: Definitions) -> ast.expr | None:
    """The operand of `v.exp()` or `torch.exp(v)`, also through a variable."""
    value = names.only_value(node, definitions) if isinstance(node, ast.Name) else None
    call = value if value is not None else node
    if not isinstance(call, ast.Call) or python_ast.called_name(call) not in ("exp", "exp_"):
        return None
    tensor, rest = operand(call, definitions)
    return tensor if not rest else None

"""The terms of sums as the code spells them, with literal factors multiplied out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.model.queries import names, numbers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import Definitions

_ADDING = {"add": 1, "add_": 1, "sub": -1, "sub_": -1}
_SCALING = frozenset({"mul", "mul_"})


class Term(NamedTuple):
    """One term of a sum: `factor * function(base) ** power`, or a number without a base.

    `exp` has its power inside: `exp(2 * x)` has the power 2.
    """

    factor: float
    function: str = ""
    base: str = ""
    power: float = 1


def is_sum(node: ast.AST) -> bool:
    """Whether an expression adds or subtracts."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING
    return is_method or (isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)))


def of(node: ast.expr, definitions: Definitions) -> list[Term] | None:
    """The terms of a sum; None if a term is of another form."""
    terms = [_term(factor, item, definitions) for factor, item in _parts(node, 1)]
    return [item for item in terms if item is not None] if all(terms) else None


def _parts(node: ast.expr, factor: float) -> Iterator[tuple[float, ast.expr]]:
    """The terms of a sum with their literal factors."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and numbers.literal(node) is None:
        yield from _parts(node.operand, -factor)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _parts(node.left, factor)
        yield from _parts(node.right, factor if isinstance(node.op, ast.Add) else -factor)
    elif isinstance(node, ast.BinOp) and (scaled := _scaled(node)) is not None:
        yield from _parts(scaled[1], factor * scaled[0])
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        name, number = node.func.attr, numbers.literal(node.args[0])
        if name in _ADDING and python_ast.dotted(node.func.value) != "torch":
            yield from _parts(node.func.value, factor)
            yield from _parts(node.args[0], factor * _ADDING[name])
        elif name in _SCALING and number is not None:
            yield from _parts(node.func.value, factor * number)
        else:
            yield factor, node
    else:
        yield factor, node


def _scaled(node: ast.BinOp) -> tuple[float, ast.expr] | None:
    """The number and the other factor of a product with a number, or of a quotient by one."""
    left, right = numbers.literal(node.left), numbers.literal(node.right)
    if isinstance(node.op, ast.Mult) and (left is None) != (right is None):
        return (left, node.right) if left is not None else (right or 0, node.left)
    return (1 / right, node.left) if isinstance(node.op, ast.Div) and left is None and right else None


def _term(factor: float, node: ast.expr, definitions: Definitions, steps: int = 3) -> Term | None:
    number = numbers.literal(node)
    if number is not None:
        return Term(factor * number)
    base, power = _power(node)
    if isinstance(base, ast.Call) and python_ast.called_name(base) in ("exp", "log") and len(base.args) <= 1:
        return _function(factor, base, power, definitions)
    value = names.only_value(base, definitions) if isinstance(base, ast.Name) else None
    if steps and value is not None:
        inner = _term(factor, value, definitions, steps - 1)
        if inner is not None and inner.base and (power == 1 or inner.function != "log"):
            return inner._replace(power=inner.power * power)
    name = python_ast.dotted(base)
    return Term(factor, "", name, power) if name else None


def _power(node: ast.expr) -> tuple[ast.expr, float]:
    """The base and the exponent of a power: `x ** 2`, `x.pow(2)`, `torch.square(x)`, `x * x`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        exponent = numbers.literal(node.right)
        return (node, 1) if exponent is None else (node.left, exponent)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return (node.left, 2) if python_ast.written_alike(node.left, node.right) else (node, 1)
    if isinstance(node, ast.Call) and python_ast.called_name(node) in ("pow", "square"):
        operand, rest = _operand(node)
        exponent = 2 if python_ast.called_name(node) == "square" else numbers.literal(rest[0]) if rest else None
        return (operand, exponent) if operand is not None and exponent is not None else (node, 1)
    return node, 1


def _operand(call: ast.Call) -> tuple[ast.expr | None, list[ast.expr]]:
    """The tensor of a method or function, and the other arguments."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is None or python_ast.dotted(owner) in ("torch", "T", "th", "np", "math"):
        return (call.args[0], call.args[1:]) if call.args else (None, [])
    return owner, call.args


def _function(factor: float, call: ast.Call, power: float, definitions: Definitions) -> Term | None:
    """The term of an exponential or logarithm, with numbers beside the tensor multiplied in."""
    operand, rest = _operand(call)
    if operand is None or rest:
        return None
    if python_ast.called_name(call) == "exp":
        parts = list(_parts(operand, 1))
        name = python_ast.dotted(parts[0][1]) if len(parts) == 1 else ""
        return Term(factor, "exp", name, parts[0][0] * power) if name else None
    inner = [item for item in of(operand, definitions) or [] if item.base or abs(item.factor) > 1e-3]
    if power != 1 or len(inner) != 1 or inner[0].function or inner[0].factor != 1:
        return None
    return Term(factor * inner[0].power, "log", inner[0].base)

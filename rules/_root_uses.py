"""Uses of square roots: bounds that come too late, and hinges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.model import values
from torchlint.model.queries import numbers
from torchlint.pytorch import operators

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.model.relations.domain import Domains
    from torchlint.syntax.python_ast import Site

_BOUNDS = frozenset({"clamp", "clamp_min"})
_RESHAPING = frozenset({"unsqueeze", "view", "reshape", "expand", "squeeze"})
_HINGES = frozenset({"relu", "clamp", "clamp_min", "softplus"})
_BEHIND = 4
"""Operators between a root and the number added to it."""


def late_bound(root: values.Tensor, domain: Domains) -> Site | None:
    """The place where a small number is added to a root or bounds it from below."""
    value = root
    for _ in range(_BEHIND):
        users = domain.users(value)
        for user in users:
            if user.op == operators.ADD and any(map(domain.is_epsilon, user.parents)):
                return user.site
            bound = domain.lower_bound(user) if user.op in _BOUNDS else None
            if bound is not None and domain.is_epsilon(bound):
                return user.site
        following = [user for user in users if user.op in _RESHAPING]
        if len(following) != 1:
            return None
        value = following[0]
    return None


def is_sine(root: values.Tensor, domain: Domains, model: Model) -> bool:
    """Whether a root is that of `1 - cosine ** 2`, where the cosine is a product of normalized vectors."""
    operand = values.resolved(root.parents[0])
    if not isinstance(operand, values.Tensor) or operand.op not in (operators.SUB, operators.RSUB):
        return False
    first, square = (values.resolved(item) for item in (operand.parents[0], operand.parents[-1]))
    if operand.op == operators.RSUB:
        first, square = square, first
    if numbers.of(first, model.program) != 1 or not isinstance(square, values.Tensor) or not square.parents:
        return False
    factors = [values.resolved(item) for item in square.parents]
    is_power = square.op == operators.POW and len(factors) > 1 and numbers.of(factors[1], model.program) == 2
    is_square = square.op == operators.SQUARE or (square.op == operators.MUL and factors[0] is factors[-1])
    return (is_power or is_square) and domain.is_similarity(factors[0])


def hinge(root: values.Tensor, domain: Domains) -> Site | None:
    """The hinge of a number minus a root."""
    for user in domain.users(root):
        first, last = (values.resolved(user.parents[index]) for index in (0, -1))
        subtracted, margin = (first, last) if user.op == operators.RSUB else (last, first)
        if user.op not in (operators.SUB, operators.RSUB) or subtracted is not root:
            continue
        hinges = [item for item in domain.users(user) if item.op in _HINGES]
        if hinges and not isinstance(margin, values.Tensor):
            return hinges[0].site
    return None

"""Tensors that certainly hold a single number: reduced losses, and sums and means over all elements."""

from __future__ import annotations

from torchlint.model.program import Program
from torchlint.model.queries import losses
from torchlint.model.values import Plain, Tensor, Value, resolved
from torchlint.pytorch import operators

_MOST = 12
_ARITHMETIC = frozenset(
    {operators.ADD, operators.SUB, operators.RSUB, operators.MUL, operators.DIV, operators.POW, "neg"}
)
_REDUCTIONS = frozenset({operators.SUM, operators.MEAN})
_DIMENSIONS = ("dim", "axis", "keepdim", "keepdims")


def reduction_of(value: Value, program: Program, steps: int = _MOST) -> Tensor | None:
    """The loss, sum or mean that reduces a value to a single number, also through arithmetic; None if not known."""
    value = resolved(value)
    if not isinstance(value, Tensor) or not steps:
        return None
    if losses.is_mean(value, program.tree):
        return value
    if value.op in _REDUCTIONS:
        return value if reduces_all(value, program) else None
    if value.op not in _ARITHMETIC:
        return None
    found = [reduction_of(item, program, steps - 1) for item in value.parents]
    others = [item for item, known in zip(value.parents, found, strict=True) if known is None]
    known = [item for item in found if item is not None]
    return known[0] if known and all(_is_number(item, program) for item in others) else None


def reduces_all(value: Tensor, program: Program) -> bool:
    """Whether a sum or mean has no dimension argument."""
    known = program.observations.calls.get(value)
    if known is None:
        return False
    _, arguments, receiver = known
    is_given = any(name in arguments.keywords for name in _DIMENSIONS)
    return not is_given and len(arguments.positional) == (0 if receiver is not None else 1)


def _is_number(value: Value, program: Program) -> bool:
    value = resolved(value)
    return isinstance(value, Plain) or value in program.observations.numbers

"""Operators that cut graphs, and numbers taken from tensors."""

from __future__ import annotations

from torchlint.model.values import Plain, Tensor, Value, resolved
from torchlint.pytorch.autograd_table import NOT_DIFFERENTIABLE

_LETTING_GO = frozenset({"detach", "data", "numpy"})
CUTTING = _LETTING_GO | {"new", "compare", "bitwise"} | NOT_DIFFERENTIABLE


def is_cut(value: Value) -> bool:
    """Whether a value was taken from a tensor without its graph: `loss.item()`, `loss.detach().cpu()`."""
    while isinstance(value, Tensor) and value.op not in _LETTING_GO and len(value.parents) == 1:
        value = resolved(value.parents[0])
    if isinstance(value, Plain):
        return not value.is_literal
    return isinstance(value, Tensor) and value.op in _LETTING_GO

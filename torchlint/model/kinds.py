"""Of which class of Python's or PyTorch's a value is, as far as that is certain: `isinstance`, and `hasattr`."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchlint.model.values import Container, Module, Plain, Tensor, Unknown, Value
from torchlint.pytorch import losses

_NUMBERS = frozenset({"int", "float", "complex", "bool", "numbers.Number", "numbers.Real", "numbers.Integral"})
_COLLECTIONS = frozenset({"list", "tuple", "dict", "set", "frozenset", "collections.deque"})
_MAPPINGS = frozenset({"collections.abc.Mapping", "typing.Mapping", "collections.Mapping"})
_SEQUENCES = frozenset({"collections.abc.Sequence", "typing.Sequence", "collections.Sequence"})
_KNOWN = _NUMBERS | _COLLECTIONS | _MAPPINGS | _SEQUENCES | {"str", "bytes", "numpy.ndarray", "torch.Tensor"}
"""Classes of which each value that is known is one, or is not."""
_OF_TENSORS = frozenset({"detach", "item", "cpu", "backward", "requires_grad", "grad", "grad_fn", "numpy", "shape"})
"""Attributes that all tensors have, and no number, text or collection of Python's."""

_PERHAPS_SEVERAL = frozenset("module getitem split chunk unbind max min sort topk median mode svd qr".split())
"""Operators whose result may be a tuple."""


def is_one_of(value: Value, kinds: Iterable[str]) -> bool | None:
    """Whether a value is of one of these classes, given by their full names; None if nobody knows."""
    answers = [_is_of(value, kind) for kind in kinds]
    return True if True in answers else None if None in answers else False


def has_attribute(value: Value, name: ast.expr) -> bool | None:
    """Whether a value has the attribute of this name, a literal; None if nobody knows."""
    if not isinstance(name, ast.Constant) or name.value not in _OF_TENSORS:
        return None
    return is_one_of(value, ["torch.Tensor"])


def _is_of(value: Value, kind: str) -> bool | None:
    if kind not in _KNOWN:
        return None
    if isinstance(value, Tensor) or (isinstance(value, Unknown) and value.has_use("backward")):
        is_asked = kind == "torch.Tensor"
        return None if not is_asked and _may_be_several(value) else is_asked
    if isinstance(value, Container):
        if value.kind not in _COLLECTIONS and value.kind != "deque":
            return None
        own = {"deque": "collections.deque"}.get(value.kind, value.kind)
        return kind == own or (kind in _MAPPINGS and own == "dict") or (kind in _SEQUENCES and own in ("list", "tuple"))
    if isinstance(value, Plain):
        return _is_plain_of(value, kind)
    return None


def _may_be_several(value: Value) -> bool:
    """Whether a result may be several tensors: not that of a loss of PyTorch, nor what goes backward."""
    if not isinstance(value, Tensor) or value.op not in _PERHAPS_SEVERAL or value.has_use("backward"):
        return False
    module = value.parents[0] if value.op == "module" else None
    return not (
        isinstance(module, Module) and module.info is None and module.name.rpartition(".")[2] in losses.FUNCTIONS
    )


def _is_plain_of(value: Plain, kind: str) -> bool | None:
    """A literal is of its own class; what else is no tensor is a number or a text."""
    if value.is_literal:
        own = type(value.constant).__name__
        return (
            kind == own
            or (own in ("int", "bool", "float") and kind.startswith("numbers."))
            or (own, kind) == ("bool", "int")
        )
    return False if kind in _COLLECTIONS | _MAPPINGS | {"torch.Tensor", "numpy.ndarray"} else None

"""The Python or PyTorch class of a value, as far as it is certain: a number, `isinstance`, `hasattr`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from torchlint.model.lineage import result_of_call
from torchlint.model.module_values import called_like_module, returned_by, returned_parts
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import (
    Answer,
    Attribute,
    CallResult,
    Component,
    Container,
    Deque,
    Dict,
    Element,
    Gradient,
    Iteration,
    List,
    Module,
    ModuleOutput,
    Parameters,
    Phi,
    Plain,
    Set,
    Tensor,
    Tuple,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import api, losses
from torchlint.pytorch.autograd_table import VIEWS
from torchlint.pytorch.operators import ADD

_NUMBERS = frozenset({"int", "float", "complex", "bool", "numbers.Number", "numbers.Real", "numbers.Integral"})
_COLLECTIONS = frozenset({"list", "tuple", "dict", "set", "frozenset", "collections.deque"})
_NAMES = {List: "list", Tuple: "tuple", Set: "set", Dict: "dict", Deque: "collections.deque"}
"""The full names of the classes of containers."""
_MAPPINGS = frozenset({"collections.abc.Mapping", "typing.Mapping", "collections.Mapping"})
_SEQUENCES = frozenset({"collections.abc.Sequence", "typing.Sequence", "collections.Sequence"})
_KNOWN = _NUMBERS | _COLLECTIONS | _MAPPINGS | _SEQUENCES | {"str", "bytes", "numpy.ndarray", "torch.Tensor"}
"""Classes for which it is known whether a known value is an instance."""
_OF_TENSORS = frozenset({"detach", "item", "cpu", "backward", "requires_grad", "grad", "grad_fn", "numpy", "shape"})
"""Attributes that all tensors have, and no number, text or collection of Python."""

TENSOR = "a tensor"
"""A use: the value goes where only tensors are allowed, or an annotation declares it a tensor."""
_PARTS = frozenset({"getitem", "unbind"})
INDEX = "an index"
"""A use: the value indexes a tensor."""
SIZE = "a size"
"""A use: the value is an argument of a layer that takes only numbers, such as `nn.Linear(width, 3)`."""
_KEEPING_TYPE = VIEWS - _PARTS | frozenset("clone contiguous cpu cuda flatten ravel reshape reshape_as".split())
"""Operators whose result has the type of the first operand; `x[0]` may be part of a tuple."""
_COMPUTED = frozenset(kind.__name__ for kind in (ast.BinOp, ast.UnaryOp, ast.AugAssign, ast.Compare))
"""Expressions whose value is a number if all operands are numbers."""
_MOST_DECIDING = 64
"""Maximum number of values per answer: in a long chain of sums each one would query all before it."""
_PERHAPS_SEVERAL = frozenset("getitem split chunk unbind max min sort topk median mode svd qr".split())
"""Operators whose result may be a tuple."""


def is_number(value: Value) -> Answer:
    """Whether a value is a plain number, or another Python value that is no tensor.

    NO: on at least one path it is a tensor. UNKNOWN: it may be either.
    """
    found, seen, stack = Answer.YES, set[Value](), [value]
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        if len(seen) == _MOST_DECIDING:
            return Answer.UNKNOWN
        seen.add(item)
        if _is_surely_tensor(item):
            return Answer.NO
        parts = _decided_by(item)
        if not parts and not isinstance(item, Plain):
            found = Answer.UNKNOWN
        stack.extend(parts)
    return found


def note_tensor(value: Value) -> None:
    """Record that a value is a tensor, or a list of tensors, together with the values that share its storage."""
    seen, stack = set[Value](), [value]
    while stack:
        item = stack.pop()
        if item in seen or item.has_use(TENSOR):
            continue
        seen.add(item)
        if isinstance(item, (Phi, Container)):
            stack.extend(_decided_by(item))
        elif isinstance(item, (Tensor, Unknown)):
            item.used_as(TENSOR)
            stack.extend(filter(None, [item.base if isinstance(item, Tensor) else None]))


def note_index(value: Value) -> None:
    """Record that a value indexes a tensor: it contains integers or truth values, which have no gradient."""
    seen, stack = set[Value](), [value]
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        if isinstance(item, Phi):
            stack.extend(item.parents)
        elif isinstance(item, (Tensor, Unknown)):
            item.used_as(INDEX)
            if isinstance(item, Tensor) and item.op in _KEEPING_TYPE:
                stack.extend(item.parents[:1])


def note_size(value: Value) -> None:
    """Record that a value is a number, since a layer has this size."""
    value = resolved(value)
    if isinstance(value, Unknown):
        value.used_as(SIZE)


def _is_surely_tensor(value: Value) -> bool:
    if value.has_use(TENSOR):
        return True
    if isinstance(value, Tensor):
        return value.leaf or not _decided_by(value)
    if isinstance(value, Unknown):
        if isinstance(value, CallResult):
            return value.callee is not None and called_like_module(value.callee)
        is_batch = isinstance(value, Iteration) and any(is_kind(item, Kind.LOADER) for item in value.parents)
        return is_batch or isinstance(value, Gradient)
    return isinstance(value, Parameters)


def _decided_by(value: Value) -> Collection[Value]:
    """The values that decide whether a value is a number: the operands of arithmetic, or the whole of a part."""
    if isinstance(value, Phi):
        return value.parents
    if isinstance(value, Container):
        return value.elements()
    if isinstance(value, Tensor):
        return _operands(value)
    if isinstance(value, Attribute):
        call = result_of_call(value)  # the receiver of `model.to(device)` may be a module, and `model.beta` a number
        return (call,) if call is not None else ()
    return value.parents if isinstance(value, (Element, Iteration)) else ()


def _operands(value: Tensor) -> tuple[Value, ...]:
    """The operands of a result that may be a number, or the numbers that a module returns.

    The result is of Python's operators and functions, or of methods that numbers and arrays have, too.
    """
    made = value.site.written if value.site is not None else None
    if made is not None and made.kind in _COMPUTED:
        return value.parents
    if (
        made is not None
        and made.is_of(ast.Call)
        and (value.op in api.OF_NUMBERS_TOO or (value.op == ADD and len(value.parents) == 1))
    ):
        return value.parents[:1]
    if isinstance(value, (ModuleOutput, Component)):
        returned = [returned_by(value)] if isinstance(value, ModuleOutput) else returned_parts(value)
        meant = (list(inputs_of(item)) for item in returned if item is not None)
        return tuple(item for items in meant if all(isinstance(item, Plain) for item in items) for item in items)
    return value.parents[:1] if value.op in _PARTS else ()


def is_one_of(value: Value, kinds: Iterable[str]) -> bool | None:
    """Whether a value is an instance of one of these classes, by their full names; None if unknown."""
    answers = [_is_of(value, kind) for kind in kinds]
    return True if True in answers else None if None in answers else False


def has_attribute(value: Value, name: ast.expr) -> bool | None:
    """Whether a value has the attribute with this literal name; None if unknown."""
    if not isinstance(name, ast.Constant) or name.value not in _OF_TENSORS:
        return None
    return is_one_of(value, ["torch.Tensor"])


def _is_of(value: Value, kind: str) -> bool | None:
    if kind not in _KNOWN:
        return None
    if isinstance(value, Tensor) or (isinstance(value, Unknown) and value.has_use("backward")):
        if is_number(value) is not Answer.NO:
            return None
        is_asked = kind == "torch.Tensor"
        return None if not is_asked and _may_be_several(value) else is_asked
    if isinstance(value, Container):
        own = _NAMES.get(type(value))
        if own is None:
            return None
        return kind == own or (kind in _MAPPINGS and own == "dict") or (kind in _SEQUENCES and own in ("list", "tuple"))
    if isinstance(value, Plain):
        return _is_plain_of(value, kind)
    return None


def _may_be_several(value: Value) -> bool:
    """Whether a result may be several tensors: not that of a PyTorch loss, nor a value that goes backward."""
    module = value.parents[0] if isinstance(value, ModuleOutput) else None
    may_be = module is not None or (isinstance(value, Tensor) and value.op in _PERHAPS_SEVERAL)
    if not may_be or value.has_use("backward"):
        return False
    return not (
        isinstance(module, Module) and module.info is None and module.name.rpartition(".")[2] in losses.FUNCTIONS
    )


def _is_plain_of(value: Plain, kind: str) -> bool | None:
    """The class of a plain value: a literal has its own class, any other non-tensor is a number or a text."""
    if value.is_literal:
        own = type(value.constant).__name__
        return (
            kind == own
            or (own in ("int", "bool", "float") and kind.startswith("numbers."))
            or (own, kind) == ("bool", "int")
        )
    return False if kind in _COLLECTIONS | _MAPPINGS | {"torch.Tensor", "numpy.ndarray"} else None

"""Types of elementwise results and of matrix products."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from torchlint.model.shapes.case import Case, Stop
from torchlint.model.shapes.operation_arguments import Operation
from torchlint.model.shapes.scope import Scope
from torchlint.model.shapes.sizes import ONE, Known, differ, is_number
from torchlint.model.shapes.tensor_type import ANY, Misfit, TensorType, contiguous, strides_of
from torchlint.model.values import External, Plain, Tensor, Value, inputs_of, resolved
from torchlint.pytorch import operators
from torchlint.pytorch import shapes as table
from torchlint.pytorch.shapes import SAME, SAME_AT
from torchlint.syntax.python_ast import called_name

_ELEMENTWISE = frozenset(
    {
        operators.ADD, operators.SUB, operators.MUL, operators.DIV,
        operators.ADD_, operators.SUB_, operators.MUL_, operators.DIV_,
    }
)  # fmt: skip


def _same(call: Operation) -> TensorType:
    """Each element separately."""
    if call.value.op.startswith("cl") and any(isinstance(resolved(item), Tensor) for item in call.value.parents[1:]):
        return ANY
    return _typed(call, call.operand())


def _same_at(call: Operation) -> TensorType:
    """Along a dimension, which has to exist."""
    type_ = call.operand()
    call.dimension("dim", type_.rank)
    return _typed(call, type_)


def _typed(call: Operation, type_: TensorType) -> TensorType:
    """A result with the sizes of an operand, and the element type from the table."""
    if call.value.op not in (operators.DETACH, operators.DATA, operators.REQUIRES_GRAD_):
        in_order = strides_of(type_.sizes) if not type_.is_open else None
        is_in_order = in_order == type_.strides or call.value.op == operators.CONTIGUOUS
        type_ = replace(type_, strides=in_order if is_in_order else None)
    asked = call.get("dtype")
    if asked is not None:
        return type_.with_dtype(dtype_named(asked))
    return type_.with_dtype(dtype_of(call.transfer.dtype, type_))


def dtype_of(rule: str, type_: TensorType) -> str | None:
    """The element type of a result, according to the table."""
    if rule == "same":
        return type_.dtype
    if rule == "floating":
        return "float" if type_.is_integral else type_.dtype
    if rule == "summed":
        return "int64" if type_.is_integral else type_.dtype
    return rule or None


def dtype_named(value: Value) -> str | None:
    """The element type behind a name such as `torch.float32`."""
    value = resolved(value)
    if not isinstance(value, External) or not value.name.startswith("torch."):
        return None
    last = value.name.rpartition(".")[2]
    return table.DTYPES.get(last) or table.TENSOR_TYPES.get(last)


def _convert(call: Operation) -> TensorType:
    """`x.to(device)`, `x.to(torch.long)`, `x.type_as(y)`."""
    type_ = call.operand()
    if call.value.op == operators.TYPE_AS:
        return type_.with_dtype(call.type_of(call.rest[0]).dtype if call.rest else None)
    made = call.case.observations.calls.get(call.value)
    given = [*call.rest, *(made[1].keywords.values() if made is not None else ())]
    named = [found for item in given if (found := dtype_named(item)) is not None]
    if named:
        return type_.with_dtype(named[0])
    is_device = call.is_complete and all(_is_device(call, item) for item in given) and call.value.op == operators.TO
    return type_ if is_device else type_.with_sizes(type_.sizes).with_dtype(None)


def _is_device(call: Operation, value: Value) -> bool:
    """Whether an argument surely is a device, or a flag, and no element type."""
    return all(_is_one_device(call, item) for item in inputs_of(value))


def _is_one_device(call: Operation, value: Value) -> bool:
    if not isinstance(value, Plain):
        return False
    if value.is_literal:
        return isinstance(value.constant, (str, bool))
    made = call.case.observations.numbers.get(value)
    if made is not None:
        return made[0] == "device"
    node = call.case.program.tree.node(value.site) if value.site is not None else None
    return isinstance(node, ast.Call) and called_name(node) == "device"


# -- broadcasting -----------------------------------------------------------------------------------------


def broadcast(call: Operation, first: TensorType, second: TensorType) -> TensorType:
    """The common shape of two operands; raises if they have none."""
    sizes: list[Known] = []
    for left, right in zip_longest(reversed(first.sizes), reversed(second.sizes), fillvalue=ONE):
        if _cannot_meet(left, right):
            call.misfit(f"is given sizes {text(first)} and {text(second)}, which cannot be broadcast")
        sizes.append(_met(left, right))
    is_open = first.is_open or second.is_open
    shortest = min((len(item.sizes) for item in (first, second) if item.is_open), default=len(sizes))
    return TensorType(tuple(reversed(sizes[:shortest])), is_open)


def _cannot_meet(left: Known, right: Known) -> bool:
    """Whether two sizes surely differ, and neither can be 1."""
    if left is None or right is None or left.number == 1 or right.number == 1:
        return False
    return left.number is not None and right.number is not None and left != right


def _met(left: Known, right: Known) -> Known:
    if is_number(left, 1):
        return right
    if is_number(right, 1) or left == right:
        return left
    numbers = [size for size in (left, right) if size is not None and size.number is not None]
    return numbers[0] if numbers else None  # one of them equals the other, or 1


def _broadcast(call: Operation) -> TensorType:
    values = [resolved(item) for item in (call.get("self"), call.get("other")) if item is not None]
    if len(values) != 2 or not call.is_complete or _is_membership(call):
        return ANY
    types = [_operand_type(call, item) for item in values]
    tensors = [item for item in types if item is not None]
    if not tensors:
        return ANY
    shape = broadcast(call, tensors[0], tensors[1]) if len(tensors) == 2 else tensors[0].with_sizes(tensors[0].sizes)
    return shape.with_dtype(_promoted(call, types, values))


def _is_membership(call: Operation) -> bool:
    """Whether a comparison is `is` or `in`, which Python evaluates, or a chain of several."""
    node = call.case.program.tree.node(call.value.site) if call.value.site is not None else None
    simple = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    return isinstance(node, ast.Compare) and not (len(node.ops) == 1 and isinstance(node.ops[0], simple))


def _operand_type(call: Operation, value: Value) -> TensorType | None:
    """The type of an operand; None for a number."""
    return None if isinstance(value, Plain) else call.type_of(value)


def _promoted(call: Operation, types: Sequence[TensorType | None], values: Sequence[Value]) -> str | None:
    """The element type of a result: that of both operands, or of the tensor combined with a number."""
    tensors = [item for item in types if item is not None]
    rule = call.transfer.dtype
    if rule not in ("same", "floating"):
        return rule if rule and any(item.dtype for item in tensors) else None
    dtypes = {item.dtype for item in tensors}
    if len(dtypes) != 1 or None in dtypes:
        return "float" if all(item.is_floating for item in tensors) else None
    first = tensors[0]
    if rule == "same" and first.is_integral and len(tensors) == 1:
        number = next(item for item in values if isinstance(item, Plain))
        return first.dtype if type(number.constant) is int and first.dtype != "bool" else None
    return dtype_of(rule, first)


def _where(call: Operation) -> TensorType:
    if call.get("self") is None or call.get("other") is None:
        return ANY
    types = [_operand_type(call, resolved(item)) for item in call.arguments.values()]
    tensors = [item for item in types if item is not None]
    if not tensors:
        return ANY
    shape = tensors[0]
    for item in tensors[1:]:
        shape = broadcast(call, shape, item)
    return shape.with_dtype(None)


def _masked_fill(call: Operation) -> TensorType:
    first, mask = call.operand(), call.operand("mask")
    return broadcast(call, first, mask).with_dtype(first.dtype)


def _as_other(call: Operation) -> TensorType:
    other = call.operand("other")
    return other.with_sizes(other.sizes).with_dtype(call.operand().dtype)


def changed_in_place(case: Case, value: Tensor, scope: Scope) -> TensorType:
    """The type after an in-place change, which keeps shape and element type; the other operand has to fit."""
    old = case.type_of(value.parents[0], scope)
    if value.op in _ELEMENTWISE and len(value.parents) > 1:
        by = resolved(value.parents[1])
        other = case.type_of(by, scope) if not isinstance(by, Plain) else ANY
        for left, right in zip(reversed(old.sizes), reversed(other.sizes), strict=False):
            if right is not None and left is not None and right.number not in (1, None) and left.number is not None:
                if left != right and value.site is not None:
                    reason = f"changes a tensor of sizes {text(old)} by one of sizes {text(other)}"
                    raise Stop(Misfit("shape", value.site, reason, value.order))
    return ANY if _is_part(case, value) else old


def _is_part(case: Case, value: Tensor) -> bool:
    """Whether the change is of a part of a tensor: the value represents the part and the whole."""
    node = case.program.tree.node(value.site) if value.site is not None else None
    target = node.target if isinstance(node, ast.AugAssign) else None
    old = resolved(value.parents[0])
    return isinstance(target, ast.Subscript) or (isinstance(old, Tensor) and old.op == operators.GETITEM)


# -- products of matrices -----------------------------------------------------------------------------------


def _matmul(call: Operation) -> TensorType:
    first, second = call.operand(), call.operand("other")
    _same_kind(call, first, second)
    if 0 in (first.rank, second.rank):
        call.misfit("takes tensors of 1 dimension or more, but is given a single number")
    inner = second.size(0) if second.rank == 1 else second.size(-2)
    if differ(first.size(-1), inner):
        call.misfit(f"is given sizes {text(first)} and {text(second)}, which cannot be multiplied")
    return _product(call, first, second).with_dtype(first.dtype if first.dtype == second.dtype else None)


def _product(call: Operation, first: TensorType, second: TensorType) -> TensorType:
    if first.is_open or second.is_open:
        return TensorType((second.size(-1),) if second.rank == 2 else (), is_open=True)
    rows: tuple[Known, ...] = first.sizes[-2:-1] if len(first.sizes) > 1 else ()
    columns: tuple[Known, ...] = second.sizes[-1:] if len(second.sizes) > 1 else ()
    batch = broadcast(call, TensorType(first.sizes[:-2]), TensorType(second.sizes[:-2]))
    return TensorType((*batch.sizes, *rows, *columns))


def _same_kind(call: Operation, first: TensorType, second: TensorType) -> None:
    """Check the element types of a matrix product: floating point numbers and integers do not mix."""
    for left, right in ((first, second), (second, first)):
        if left.is_integral and right.is_floating:
            reason = f"is given elements of type `{first.dtype}` and `{second.dtype}`, which have to be the same"
            call.misfit(reason, "dtype")


def _mm(call: Operation) -> TensorType:
    return _of_matrices(call, 2)


def _bmm(call: Operation) -> TensorType:
    return _of_matrices(call, 3)


def _of_matrices(call: Operation, rank: int) -> TensorType:
    first, second = call.operand(), call.operand("mat2")
    for item in (first, second):
        if item.rank not in (None, rank):
            call.misfit(f"takes tensors of {rank} dimensions, but is given one of sizes {text(item)}")
    _same_kind(call, first, second)
    if differ(first.size(-1), second.size(-2)) or (rank == 3 and differ(first.size(-3), second.size(-3))):
        call.misfit(f"is given sizes {text(first)} and {text(second)}, which cannot be multiplied")
    batch = (first.size(-3) if first.size(-3) is not None else second.size(-3),) if rank == 3 else ()
    sizes = (*batch, first.size(-2), second.size(-1))
    return TensorType(sizes, False, first.dtype if first.dtype == second.dtype else None)


def text(type_: TensorType) -> str:
    """Sizes as torch prints them; `?` for an unknown size."""
    sizes = ["?" if size is None or size.number is None else str(size.number) for size in type_.sizes]
    return f"({', '.join([*(['...'] if type_.is_open else []), *sizes])}{',' if len(sizes) == 1 else ''})"


def _loss(call: Operation) -> TensorType:
    """A single number, unless the arguments say otherwise."""
    made = call.case.observations.calls.get(call.value)
    is_plain = made is not None and not made[1].keywords.keys() & {"reduction", "reduce", "size_average"}
    is_short = made is not None and call.is_complete and len(made[1].positional) == 2
    return contiguous((), "float") if is_plain and is_short else ANY


HANDLERS = {
    SAME: _same,
    SAME_AT: _same_at,
    "convert": _convert,
    "broadcast": _broadcast,
    "where": _where,
    "masked_fill": _masked_fill,
    "as_other": _as_other,
    "matmul": _matmul,
    "mm": _mm,
    "bmm": _bmm,
    "loss": _loss,
}

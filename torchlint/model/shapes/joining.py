"""Types of joined, looked-up and counted values: `cat`, `stack`, `gather`, `one_hot`."""

from __future__ import annotations

from collections.abc import Sequence

from torchlint.model.shapes import numbers
from torchlint.model.shapes.arithmetic import text
from torchlint.model.shapes.operation_arguments import Operation
from torchlint.model.shapes.sizes import Known, Size, differ
from torchlint.model.shapes.tensor_type import ANY, TensorType
from torchlint.model.values import Container, resolved


def _parts(call: Operation) -> list[TensorType] | None:
    """The types of the joined tensors, if they are known."""
    tensors = resolved(given) if (given := call.get("tensors")) is not None else None
    elements = numbers.written_elements(call.case, tensors) if isinstance(tensors, Container) else None
    return [call.type_of(item) for item in elements] if elements else None


def _cat(call: Operation) -> TensorType:
    types = _parts(call)
    if types is None or any(item.is_open for item in types):
        return ANY
    if any(len(item.sizes) == 1 and (item.size(0) is None or item.size(0) == Size.of(0)) for item in types):
        return ANY  # an empty one is skipped, whatever the others are
    _same_rank(call, types)
    rank = len(types[0].sizes)
    dimension = call.dimension("dim", rank, 0)
    if dimension is None:
        return TensorType((None,) * rank)
    sizes = [_common(call, [item.sizes[index] for item in types], types) if index != dimension else _total(types, index)
             for index in range(rank)]  # fmt: skip
    return TensorType(tuple(sizes), False, _common_dtype(types))


def _same_rank(call: Operation, types: Sequence[TensorType]) -> None:
    for item in types[1:]:
        if item.rank != types[0].rank:
            call.misfit(f"is given tensors of sizes {text(types[0])} and {text(item)}")


def _common(call: Operation, sizes: Sequence[Known], types: Sequence[TensorType]) -> Known:
    """The common size of all in a dimension."""
    for index, size in enumerate(sizes):
        if differ(sizes[0], size):
            call.misfit(f"is given tensors of sizes {text(types[0])} and {text(types[index])}")
    return next((size for size in sizes if size is not None and size.number is not None), sizes[0])


def _total(types: Sequence[TensorType], dimension: int) -> Known:
    total = Size.of(0)
    for item in types:
        size = item.sizes[dimension]
        if size is None:
            return None
        total += size
    return total


def _common_dtype(types: Sequence[TensorType]) -> str | None:
    dtypes = {item.dtype for item in types}
    return dtypes.pop() if len(dtypes) == 1 else None


def _stack(call: Operation) -> TensorType:
    types = _parts(call)
    if types is None or any(item.is_open for item in types):
        return ANY
    _same_rank(call, types)
    rank = len(types[0].sizes)
    sizes = [_common(call, [item.sizes[index] for item in types], types) for index in range(rank)]
    dimension = call.dimension("dim", rank + 1, 0)
    if dimension is None:
        return TensorType((None,) * (rank + 1))
    return TensorType((*sizes[:dimension], Size.of(len(types)), *sizes[dimension:]), False, _common_dtype(types))


def _gather(call: Operation) -> TensorType:
    type_, index = call.operand(), call.operand("index")
    if type_.rank and index.rank and type_.rank != index.rank:
        call.misfit(f"takes an index of {type_.rank} dimensions, but is given sizes {text(index)}")
    return index.with_sizes(index.sizes).with_dtype(type_.dtype)


def _one_hot(call: Operation) -> TensorType:
    type_ = call.operand()
    if type_.is_floating:
        call.misfit(f"takes indices of type `int64`, but is given `{type_.dtype}`", "dtype")
    classes = call.number("num_classes", -1)
    known = None if classes is None or (classes.number or 0) < 0 else classes
    return TensorType((*type_.sizes, known), type_.is_open, "int64")


HANDLERS = {"cat": _cat, "stack": _stack, "gather": _gather, "one_hot": _one_hot}

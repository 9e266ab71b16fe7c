"""Types of sums, means, extrema and their indices."""

from __future__ import annotations

from torchlint.model.shapes.arithmetic import broadcast, dtype_of
from torchlint.model.shapes.operation_arguments import Operation
from torchlint.model.shapes.sizes import ONE, Known, numbers_of
from torchlint.model.shapes.tensor_type import ANY, TensorType
from torchlint.model.values import Container, Plain, resolved
from torchlint.pytorch.binding import OTHER_NAMES
from torchlint.pytorch.shapes import EXTREMUM


def _reduce(call: Operation) -> TensorType:
    """Over all dimensions, one or several."""
    type_ = call.operand()
    dtype = None if call.get("dtype") is not None else dtype_of(call.transfer.dtype, type_)
    return _without(call, type_).with_dtype(dtype if call.is_of_tensor(type_) else None)


def _mean(call: Operation) -> TensorType:
    type_ = call.operand()
    if type_.is_integral and call.is_complete and call.get("dtype") is None:
        call.misfit(f"takes floating point numbers, but is given `{type_.dtype}`", "dtype")
    return _reduce(call)


def _deviation(call: Operation) -> TensorType:
    """`x.std(0)`: a leading boolean is no dimension."""
    first = call.get("dim")
    is_flag = first is not None and isinstance(resolved(first), Plain) and call.integer("dim") is None
    return ANY if is_flag or call.get("correction") is not None else _reduce(call)


def _without(call: Operation, type_: TensorType) -> TensorType:
    """A type without the reduced dimensions, or with size 1 in their place."""
    keep = call.flag("keepdim")
    if not call.is_given("dim"):
        return TensorType((), is_open=keep is not False)
    dimensions = _dimensions(call, type_)
    if keep is None or dimensions is None:
        return ANY
    if type_.is_open:
        return _without_last(type_, dimensions, keep)
    sizes: list[Known] = []
    for index, size in enumerate(type_.sizes):
        sizes += [size] if index not in dimensions else [ONE] if keep else []
    return TensorType(tuple(sizes))


def _without_last(type_: TensorType, dimensions: tuple[int, ...], keep: bool) -> TensorType:
    """The same for dimensions counted from the end, if the number of dimensions is unknown."""
    count = len(type_.sizes)
    if any(not -count <= item < 0 for item in dimensions):
        return ANY
    places = {item % count for item in dimensions}
    sizes: list[Known] = []
    for index, size in enumerate(type_.sizes):
        sizes += [size] if index not in places else [ONE] if keep else []
    return TensorType(tuple(sizes), is_open=True)


def _dimensions(call: Operation, type_: TensorType) -> tuple[int, ...] | None:
    """The literal dimensions, counted from the front if the rank is known."""
    given = call.get("dim")
    several = resolved(given) if given is not None else None
    if not isinstance(several, Container):
        one = call.dimension("dim", type_.rank)
        return None if one is None else (one,)
    sizes = call.sizes_of([several])
    numbers = numbers_of(sizes) if sizes else None
    if not numbers:
        return None
    rank = type_.rank
    if rank is not None and any(not -max(rank, 1) <= item < max(rank, 1) for item in numbers):
        call.misfit(f"uses dimensions {numbers} of a tensor with {rank} dimensions")
    return tuple(item % rank for item in numbers) if rank else numbers


def _extremum(call: Operation) -> TensorType:
    """`x.max()`, and `torch.max(x, y)`; with a dimension it is a tuple."""
    given = call.get("dim")
    if given is None:
        return TensorType((), False, call.operand().dtype) if call.is_complete else ANY
    other = resolved(given)
    if isinstance(other, Plain) or not _keywords(call).isdisjoint(("dim", OTHER_NAMES["dim"])):
        return ANY
    return broadcast(call, call.operand(), call.type_of(other)).with_dtype(None)


def _keywords(call: Operation) -> set[str]:
    made = call.case.observations.calls.get(call.value)
    return set(made[1].keywords) if made is not None else set()


def part_of_extremum(call: Operation, part: int) -> TensorType | None:
    """The values, or the indices, of `x.max(dim)`; None for a call that returns one tensor."""
    given = call.get("dim")
    if given is None or not isinstance(resolved(given), Plain):
        return None
    type_ = call.operand()
    dtype = "int64" if part else type_.dtype
    return _without(call, type_).with_dtype(dtype if call.is_of_tensor(type_) else None)


HANDLERS = {
    "reduce": _reduce,
    "reduce_one": _reduce,
    "mean": _mean,
    "deviation": _deviation,
    EXTREMUM: _extremum,
}

"""Types of the same elements in other dimensions: `view`, `transpose`, `squeeze`, indexing."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from torchlint.model.shapes.arithmetic import text
from torchlint.model.shapes.operation_arguments import Operation
from torchlint.model.shapes.sizes import ONE, Known, Size, Symbol, differ_by_parts, is_number, numbers_of, product_of
from torchlint.model.shapes.tensor_type import ANY, TensorType, strides_of
from torchlint.model.values import External, resolved
from torchlint.pytorch.shapes import FLATTEN

_REST = Size.of(-1)


# -- view and reshape -------------------------------------------------------------------------------------


def _view(call: Operation) -> TensorType:
    return _in_sizes(call, must_share=True)


def _reshape(call: Operation) -> TensorType:
    return _in_sizes(call, must_share=False)


def _in_sizes(call: Operation, *, must_share: bool) -> TensorType:
    type_, asked = call.operand(), call.sizes_of(call.rest) if call.rest else None
    if asked is None or not call.is_complete or isinstance(resolved(call.rest[0]), External):
        return ANY.with_dtype(type_.dtype if not call.rest or not _names_type(call) else None)
    sizes = _filled(call, type_, asked)
    strides = _strides(call, type_, sizes, must_share=must_share)
    return TensorType(sizes, False, type_.dtype, strides)


def _names_type(call: Operation) -> bool:
    return isinstance(resolved(call.rest[0]), External)


def _filled(call: Operation, type_: TensorType, asked: tuple[Known, ...]) -> tuple[Known, ...]:
    """The requested sizes, with the value of -1; raises if the number of elements differs."""
    total = product_of(type_.sizes) if not type_.is_open else None
    rest = [index for index, size in enumerate(asked) if size == _REST]
    if not rest:
        product = product_of(asked)
        if differ_by_parts(total, product) and not _may_be_rest(asked):
            call.misfit(f"is asked for sizes {text(TensorType(asked))}, but is given {text(type_)}")
        return tuple(None if _may_be_rest([size]) else size for size in asked)
    others = product_of(size for size in asked if size != _REST)
    if len(rest) > 1 or others is None or total is None or others.number == 0:
        return tuple(None if size == _REST else size for size in asked)
    if total.number and others.number and total.number % others.number:
        call.misfit(f"is asked for sizes {text(TensorType(asked))}, but is given {text(type_)}")
    left = total.divided_by(others)
    return tuple(left if size == _REST else size for size in asked)


def _may_be_rest(sizes: Sequence[Known]) -> bool:
    """Whether one of the sizes is a variable that may be -1."""
    symbols = {symbol for size in sizes if size is not None for symbol in size.symbols}
    return any(isinstance(symbol, Symbol) and symbol.dimension is None for symbol in symbols)


def _strides(
    call: Operation, type_: TensorType, sizes: tuple[Known, ...], *, must_share: bool
) -> tuple[int, ...] | None:
    """The strides of the same storage with other sizes; a view raises if there are none."""
    old, new = numbers_of(type_.sizes), numbers_of(sizes)
    if type_.strides is None or old is None or new is None or 0 in old:
        return None
    strides = _shared(old, type_.strides, new)
    if strides is None and must_share:
        call.misfit("is called on a tensor whose elements lie in another order in memory", "view")
    return strides if strides is not None else strides_of(sizes)


def _shared(old: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> tuple[int, ...] | None:
    """The strides of memory with these sizes and strides for other sizes; None if a copy is necessary."""
    blocks = _blocks(old, strides)
    found: list[int] = []
    position = len(new) - 1
    for size, stride in reversed(blocks):
        filled = 1
        while position >= 0 and (filled < size or new[position] == 1):
            found.append(filled * stride)
            filled *= new[position]
            position -= 1
        if filled != size:
            return None
    return tuple(reversed(found)) if position < 0 else None


def _blocks(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """The dimensions, merged if they are contiguous in memory, as size and innermost stride."""
    blocks: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if blocks and blocks[-1][1] == size * stride:
            blocks[-1] = (blocks[-1][0] * size, stride)
        else:
            blocks.append((size, stride))
    return blocks or [(1, 1)]


def _flatten(call: Operation) -> TensorType:
    is_layer = "self" not in call.transfer.names
    return flattened(call, call.operand(), call.integer("start_dim", int(is_layer)), call.integer("end_dim", -1))


def flattened(call: Operation, type_: TensorType, start: int | None, end: int | None) -> TensorType:
    """A type with the dimensions from `start` to `end` merged into one."""
    if type_.is_open or start is None or end is None:
        is_first = start == 0 and end == -1
        return TensorType((None,), not is_first, type_.dtype) if end == -1 else ANY.with_dtype(type_.dtype)
    rank = max(len(type_.sizes), 1)
    if not (-rank <= start < rank and -rank <= end < rank):
        call.misfit(f"flattens from dimension {start} to {end}, but is given sizes {text(type_)}")
    start, end = start % rank, end % rank
    if start > end:
        call.misfit(f"flattens from dimension {start} to {end}, but is given sizes {text(type_)}")
    sizes = (*type_.sizes[:start], product_of(type_.sizes[start : end + 1]), *type_.sizes[end + 1 :])
    strides = strides_of(sizes) if type_.strides == strides_of(type_.sizes) else None
    return TensorType(sizes, False, type_.dtype, strides)


# -- dimensions ---------------------------------------------------------------------------------------------


def _unsqueeze(call: Operation) -> TensorType:
    type_, given = call.operand(), call.integer("dim")
    if type_.is_open:
        if given is not None and -len(type_.sizes) - 1 <= given < 0:
            place = len(type_.sizes) + 1 + given
            return type_.with_sizes((*type_.sizes[:place], ONE, *type_.sizes[place:]))
        return type_ if given == 0 else ANY.with_dtype(type_.dtype)
    place_ = call.dimension("dim", len(type_.sizes) + 1)
    if place_ is None:
        return TensorType((None,) * (len(type_.sizes) + 1), False, type_.dtype)
    sizes, old, strides = numbers_of(type_.sizes), type_.strides, None
    if sizes is not None and old is not None:
        step = old[place_] * sizes[place_] if place_ < len(old) else 1
        strides = (*old[:place_], step, *old[place_:])
    return TensorType((*type_.sizes[:place_], ONE, *type_.sizes[place_:]), False, type_.dtype, strides)


def _squeeze(call: Operation) -> TensorType:
    type_ = call.operand()
    if type_.is_open:
        return ANY.with_dtype(type_.dtype)
    if not call.is_given("dim"):
        numbers = numbers_of(type_.sizes)
        return _kept(type_, [index for index, number in enumerate(numbers) if number != 1]) if numbers else ANY
    dimension = call.dimension("dim", type_.rank)
    if dimension is None or (size := type_.size(dimension)) is None or size.number is None:
        is_scalar = type_.rank == 0
        return type_ if is_scalar else ANY.with_dtype(type_.dtype)
    return _kept(type_, [index for index in range(len(type_.sizes)) if index != dimension or not is_number(size, 1)])


def _kept(type_: TensorType, dimensions: Sequence[int]) -> TensorType:
    """A tensor with these dimensions only, in this order."""
    strides = tuple(type_.strides[index] for index in dimensions) if type_.strides is not None else None
    return TensorType(tuple(type_.sizes[index] for index in dimensions), False, type_.dtype, strides)


def _transpose(call: Operation) -> TensorType:
    type_ = call.operand()
    if type_.is_open:
        return _transposed_end(call, type_)
    first, second = call.dimension("dim0", type_.rank), call.dimension("dim1", type_.rank)
    if first is None or second is None:
        return TensorType((None,) * len(type_.sizes), False, type_.dtype)
    if not type_.sizes:
        return type_
    order = list(range(len(type_.sizes)))
    order[first], order[second] = second, first
    return _kept(type_, order)


def _transposed_end(call: Operation, type_: TensorType) -> TensorType:
    """Two of the last dimensions, if the number of dimensions before them is unknown."""
    first, second = call.integer("dim0"), call.integer("dim1")
    if first is None or second is None or not (-len(type_.sizes) <= min(first, second) and max(first, second) < 0):
        return ANY.with_dtype(type_.dtype)
    sizes = list(type_.sizes)
    sizes[first], sizes[second] = sizes[second], sizes[first]
    return type_.with_sizes(sizes)


def _permute(call: Operation) -> TensorType:
    type_, asked = call.operand(), call.sizes_of(call.rest) if call.rest else None
    order = numbers_of(asked) if asked is not None and call.is_complete else None
    if order is None:
        return ANY.with_dtype(type_.dtype)
    if type_.is_open:
        return TensorType((None,) * len(order), False, type_.dtype)
    if sorted(item % max(len(order), 1) for item in order) != list(range(len(type_.sizes))):
        call.misfit(f"is asked for dimensions {order}, but is given sizes {text(type_)}")
    return _kept(type_, [item % len(order) for item in order])


def _t(call: Operation) -> TensorType:
    """`x.t()`, `x.T`, `x.mT`, `x.H`; `x.real` and `x.imag` have the shape of `x`."""
    type_, node = call.operand(), call.case.program.tree.node(call.value.site) if call.value.site is not None else None
    name = node.attr if isinstance(node, ast.Attribute) else "t"
    if name in ("real", "imag"):
        return type_.with_sizes(type_.sizes).with_dtype(None)
    if type_.is_open:
        swapped = (*type_.sizes[:-2], *reversed(type_.sizes[-2:])) if name == "mT" and len(type_.sizes) > 1 else ()
        return TensorType(swapped, True, type_.dtype)
    if name == "t" and len(type_.sizes) > 2:
        call.misfit(f"takes a tensor of 2 dimensions or fewer, but is given sizes {text(type_)}")
    if name == "mT":
        rank = len(type_.sizes)
        return _kept(type_, [*range(rank - 2), rank - 1, rank - 2]) if rank > 1 else ANY
    return _kept(type_, list(reversed(range(len(type_.sizes))))) if name != "H" else ANY


def _expand(call: Operation) -> TensorType:
    type_, asked = call.operand(), call.sizes_of(call.rest) if call.rest else None
    if asked is None or not call.is_complete:
        return ANY.with_dtype(type_.dtype)
    if type_.is_open or len(asked) < len(type_.sizes):
        return TensorType(tuple(None if size == _REST or _may_be_rest([size]) else size for size in asked), False,
                          type_.dtype)  # fmt: skip
    old = (*((ONE,) * (len(asked) - len(type_.sizes))), *type_.sizes)
    sizes: list[Known] = []
    for before, after in zip(old, asked, strict=True):
        sizes.append(before if after == _REST else None if _may_be_rest([after]) else after)
        numbers = numbers_of((before, after))
        if numbers is not None and numbers[0] != 1 and numbers[1] not in (-1, numbers[0]):
            call.misfit(f"is asked for sizes {text(TensorType(asked))}, but is given {text(type_)}")
    return TensorType(tuple(sizes), False, type_.dtype)


def _repeat(call: Operation) -> TensorType:
    type_, times = call.operand(), call.sizes_of(call.rest) if call.rest else None
    if times is None or not call.is_complete:
        return ANY.with_dtype(type_.dtype)
    if type_.is_open or len(times) < len(type_.sizes):
        return TensorType((None,) * len(times), False, type_.dtype)
    old = (*((ONE,) * (len(times) - len(type_.sizes))), *type_.sizes)
    sizes = [product_of((before, after)) for before, after in zip(old, times, strict=True)]
    return TensorType(tuple(sizes), False, type_.dtype)


# -- indexing -----------------------------------------------------------------------------------------------


def _unbind(call: Operation) -> TensorType:
    """The type of the tensors that iterating over a tensor yields."""
    type_ = call.operand()
    is_iteration = call.value not in call.case.observations.calls
    return _kept(type_, range(1, len(type_.sizes))) if is_iteration and type_.rank else ANY


def _getitem(call: Operation) -> TensorType:
    """Literal numbers, slices, `None` and `...` in brackets; nothing is known for other indices."""
    owner = resolved(call.value.parents[0])
    site = call.value.site
    node = call.case.program.tree.node(site) if site is not None else None
    if not isinstance(node, ast.Subscript):
        type_ = call.operand()
        return _kept(type_, range(1, len(type_.sizes))) if type_.rank else ANY
    part = node.slice.value if isinstance(node.slice, ast.Constant) else None
    extremum = call.case.operations.part_of_extremum(call.case, owner, 0, call.scope) if part == 0 else None
    if extremum is not None:
        return extremum
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return _indexed(call, call.operand(), items)


def _indexed(call: Operation, type_: TensorType, items: Sequence[ast.expr]) -> TensorType:
    kinds = [_kind(item) for item in items]
    used = sum(kind in ("number", "slice", "all") for kind in kinds)
    if type_.is_open or None in kinds or kinds.count("rest") > 1:
        return ANY.with_dtype(type_.dtype)
    if used > len(type_.sizes):
        call.misfit(f"has {used} indices, but the tensor has the sizes {text(type_)}")
    if "rest" not in kinds:
        kinds.append("rest")
    left, sizes = list(type_.sizes), list[Known]()
    for kind in kinds:
        if kind == "rest":
            taken = len(type_.sizes) - used
            sizes += left[:taken]
            left = left[taken:]
        elif kind == "new":
            sizes.append(ONE)
        else:
            size = left.pop(0)
            sizes += [] if kind == "number" else [size if kind == "all" else None]
    return TensorType(tuple(sizes), False, type_.dtype)


def _kind(item: ast.expr) -> str | None:
    """The effect of an index on its dimension."""
    if isinstance(item, ast.Slice):
        return "all" if item.lower is item.upper is item.step is None else "slice"
    if isinstance(item, ast.UnaryOp) and isinstance(item.op, ast.USub) and isinstance(item.operand, ast.Constant):
        return "number"
    if not isinstance(item, ast.Constant):
        return None
    if item.value is None:
        return "new"
    return "rest" if item.value is ... else "number" if type(item.value) is int else None


HANDLERS = {
    "view": _view,
    "reshape": _reshape,
    FLATTEN: _flatten,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "transpose": _transpose,
    "permute": _permute,
    "t": _t,
    "expand": _expand,
    "repeat": _repeat,
    "unbind": _unbind,
    "getitem": _getitem,
}

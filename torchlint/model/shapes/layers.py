"""Output types of PyTorch layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torchlint.model.module_values import is_as_made
from torchlint.model.shapes import rearranging
from torchlint.model.shapes.arithmetic import text
from torchlint.model.shapes.batches import loader_of
from torchlint.model.shapes.case import Stop
from torchlint.model.shapes.operation_arguments import Operation
from torchlint.model.shapes.sizes import ONE, Known, Size, differ_by_parts, is_number
from torchlint.model.shapes.tensor_type import ANY, Choice, Misfit, TensorType
from torchlint.model.values import Container, Module, ModuleOutput, Tensor, Value, is_none, resolved
from torchlint.pytorch.shapes import ATTENTION, ENCODER, ENCODER_LAYER, FLATTEN, POOL, RECURRENT, SAME, SEQUENTIAL

_FLOAT = "float"


def apply(call: Operation, module: Module, type_: TensorType) -> TensorType:
    """The type of a layer's output for an input of this type; `call` is the layer's call."""
    if call.transfer.kind == SEQUENTIAL:
        return _sequential(call, module, type_)
    made = call.case.made_with(module, call.transfer)
    if not made and call.transfer.names and call.transfer.kind != FLATTEN:
        return ANY
    given = {"self": call.arguments["self"]} if "self" in call.arguments else {}
    layer = replace(call, arguments={**made, **given}, is_complete=True)
    return _LAYERS[call.transfer.kind](layer, type_)


def _sequential(call: Operation, module: Module, type_: TensorType) -> TensorType:
    """The output of a `Sequential`; a size that does not fit is a problem of the whole call."""
    try:
        return chained(call, module, type_)
    except Stop as stop:
        raise Stop(seen_from(call.value, stop.result)) from None


def chained(call: Operation, module: Module, type_: TensorType, before: Value | None = None) -> TensorType:
    """The output of the layers of a `Sequential`, of all or of those `before` one.

    A size that does not fit is reported where its layer is made.
    """
    for layer in written_layers(call, module) or [module]:
        if layer is before:
            return type_
        transfer = call.case.layer(layer)
        if not isinstance(layer, Module) or transfer is None or layer is module:
            type_, call = ANY, replace(call, arguments={})
            continue
        step = replace(call, transfer=transfer, value=_stand_in(call, layer))
        type_ = apply(step, layer, type_)
        if transfer.kind != SAME:
            call = replace(call, arguments={})
    return type_


def seen_from(call: Tensor, result: Misfit | Choice) -> Misfit | Choice:
    """A misfit inside a callee, as seen from the call."""
    if not isinstance(result, Misfit) or call.site is None:
        return result
    related = result.related or ((result.site, result.reason),)
    return Misfit(result.what, call.site, f"leads to a layer that {related[0][1]}", call.order, related)


def _stand_in(call: Operation, layer: Module) -> Tensor:
    """A stand-in value at the place that creates a layer, where a misfit is reported."""
    made = ModuleOutput(layer.site, call.value.parents)
    made.order = max(layer.order, call.value.order)
    return made


def written_layers(call: Operation, module: Module) -> list[Value] | None:
    """The modules of a `Sequential`, if its call lists them all and nothing changes them."""
    made = call.case.observations.calls.get(module)
    if made is None or made[1].starred or made[1].keywords or not is_as_made(module) or module.site is None:
        return None
    node = call.case.program.tree.node(module.site)
    if len(getattr(node, "args", ())) != len(made[1].positional):
        return None
    return [resolved(item) for item in made[1].positional]


# -- layers -----------------------------------------------------------------------------------------------------


def _same(call: Operation, type_: TensorType) -> TensorType:
    return type_


def _takes(call: Operation, what: str, wanted: Known, given: Known) -> None:
    if differ_by_parts(wanted, given):
        call.misfit(f"takes {_text(wanted)} {what}, but is given {_text(given)}")


def _text(size: Known) -> str:
    if size is not None and size.number is not None:
        return str(size.number)
    return "a different number of"


def _takes_floats(call: Operation, type_: TensorType) -> None:
    if type_.is_integral:
        call.misfit(f"takes floating point numbers, but is given `{type_.dtype}`", "dtype")


def _linear(call: Operation, type_: TensorType) -> TensorType:
    if type_.rank == 0:
        call.misfit("takes an input of 1 dimension or more, but is given a single number")
    wanted, given = call.number("in_features"), type_.size(-1)
    if differ_by_parts(wanted, given):
        call.misfit(f"takes {_features(wanted, given)}")
    _takes_floats(call, type_)
    return TensorType((*type_.sizes[:-1], call.number("out_features")), type_.is_open, _FLOAT)


def _features(wanted: Known, given: Known) -> str:
    wanted_number = wanted.number if wanted is not None else None
    given_number = given.number if given is not None else None
    if wanted_number is None or given_number is None:
        return "a different number of features than its input has"
    return f"{wanted_number} features, but is given {given_number}"


def _spatial(call: Operation, type_: TensorType, channels: Known) -> TensorType:
    """An input of images or similar data: with channels, and perhaps in batches."""
    goes_over = call.transfer.dimensions
    type_ = call.with_rank("self", (goes_over + 1, goes_over + 2), type_)
    given = type_.size(-goes_over - 1)
    if channels is not None and differ_by_parts(channels, given):
        call.misfit(f"takes {_text(channels)} channels, but is given {_text(given)}")
    return type_


def _conv(call: Operation, type_: TensorType) -> TensorType:
    type_ = _spatial(call, type_, call.number("in_channels"))
    _takes_floats(call, type_)
    if type_.rank == call.transfer.dimensions + 2:
        call.case.sample_counts.add(type_.size(0))
    return _with_spatial(call, type_, _strided, call.number("out_channels"), _FLOAT)


def _conv_transpose(call: Operation, type_: TensorType) -> TensorType:
    type_ = _spatial(call, type_, call.number("in_channels"))
    _takes_floats(call, type_)
    return _with_spatial(call, type_, _widened, call.number("out_channels"), _FLOAT)


def _pool(call: Operation, type_: TensorType) -> TensorType:
    if call.get("return_indices") is not None:
        return ANY
    type_ = _spatial(call, type_, None)
    size = _strided if call.flag("ceil_mode") is False else _not_known
    return _with_spatial(call, type_, size, type_.size(-call.transfer.dimensions - 1), type_.dtype)


def _pool_function(call: Operation) -> TensorType:
    return _pool(call, call.operand())


def _with_spatial(
    call: Operation, type_: TensorType, size: Callable[[Operation, Known, int], Known], channels: Known,
    dtype: str | None,
) -> TensorType:  # fmt: skip
    goes_over = call.transfer.dimensions
    sizes = [size(call, type_.size(index - goes_over), index) for index in range(goes_over)]
    for new in sizes:
        if new is not None and new.number is not None and new.number <= 0:
            call.misfit(f"is given sizes {text(type_)}, which are too small for its kernel")
    return TensorType((*type_.sizes[: -goes_over - 1], channels, *sizes), type_.is_open, dtype)


def _not_known(call: Operation, size: Known, index: int) -> Known:
    return None


def _each_way(call: Operation, name: str, index: int, default: int | None = None) -> int | None:
    """A kernel's size, stride ... per dimension: one number for all, or a tuple."""
    value = call.get(name)
    several = resolved(value) if value is not None else None
    if value is None or several is None or is_none(several):
        return default
    if isinstance(several, Container):
        sizes = call.sizes_of([several])
        known = sizes[index] if sizes is not None and len(sizes) == call.transfer.dimensions else None
    else:
        known = call.number_of(value)
    return known.number if known is not None else None


def _strided(call: Operation, size: Known, index: int) -> Known:
    """The size after a kernel."""
    kernel = _each_way(call, "kernel_size", index)
    is_pool = call.transfer.kind == POOL
    stride = _each_way(call, "stride", index, kernel if is_pool else 1)
    padding, dilation = _each_way(call, "padding", index, 0), _each_way(call, "dilation", index, 1)
    if None in (kernel, stride, padding, dilation) or size is None or not stride:
        return None
    span = 2 * (padding or 0) - (dilation or 1) * ((kernel or 1) - 1) - 1
    if stride == 1:
        return size + Size.of(span + 1)
    return Size.of((size.number + span) // stride + 1) if size.number is not None else None


def _widened(call: Operation, size: Known, index: int) -> Known:
    """The size after a transposed kernel."""
    kernel, stride = _each_way(call, "kernel_size", index), _each_way(call, "stride", index, 1)
    padding, dilation = _each_way(call, "padding", index, 0), _each_way(call, "dilation", index, 1)
    more = _each_way(call, "output_padding", index, 0)
    if None in (kernel, stride, padding, dilation, more) or size is None:
        return None
    span = (dilation or 0) * ((kernel or 0) - 1) + (more or 0) + 1 - 2 * (padding or 0)
    return (size - ONE) * Size.of(stride or 1) + Size.of(span)


def _adaptive_pool(call: Operation, type_: TensorType) -> TensorType:
    size, goes_over = call.get("output_size"), call.transfer.dimensions
    if call.get("return_indices") is not None or (not type_.is_open and len(type_.sizes) <= goes_over):
        return ANY  # to size 1 it accepts fewer dimensions than documented
    type_ = _spatial(call, type_, None)
    several = resolved(size) if size is not None else None
    sizes: tuple[Known, ...] | None = (call.number("output_size"),) * goes_over
    if isinstance(several, Container):
        sizes = call.sizes_of([several])
    if sizes is None or len(sizes) != goes_over or is_none(several):
        sizes = (None,) * goes_over
    leading = type_.sizes[:-goes_over] if len(type_.sizes) > goes_over else (None,)
    return TensorType((*leading, *sizes), type_.is_open, type_.dtype)


def _adaptive_function(call: Operation) -> TensorType:
    return _adaptive_pool(call, call.operand())


def _batch_norm(call: Operation, type_: TensorType) -> TensorType:
    goes_over = call.transfer.dimensions
    ranks = (2, 3) if goes_over == 1 else (goes_over + 2,)
    type_ = call.with_rank("self", ranks, type_)
    _takes(call, "channels", call.number("num_features"), type_.size(1) if not type_.is_open else None)
    _takes_floats(call, type_)
    return type_.with_sizes(type_.sizes)


def _layer_norm(call: Operation, type_: TensorType) -> TensorType:
    shape = call.get("normalized_shape")
    sizes = call.sizes_of([shape]) if shape is not None else None
    single = call.number("normalized_shape") if sizes is None else None
    for wanted, given in zip(reversed(sizes or (single,)), reversed(type_.sizes), strict=False):
        _takes(call, "features", wanted, given)
    _takes_floats(call, type_)
    return type_.with_sizes(type_.sizes)


def _group_norm(call: Operation, type_: TensorType) -> TensorType:
    _takes(call, "channels", call.number("num_channels"), type_.size(1) if not type_.is_open else None)
    return type_.with_sizes(type_.sizes)


def _embedding(call: Operation, type_: TensorType) -> TensorType:
    if type_.is_floating:
        call.misfit(f"takes indices, which are integers, but is given `{type_.dtype}`", "dtype")
    return TensorType((*type_.sizes, call.number("embedding_dim")), type_.is_open, _FLOAT)


def _flatten(call: Operation, type_: TensorType) -> TensorType:
    return rearranging.flattened(call, type_, call.integer("start_dim", 1), call.integer("end_dim", -1))


def _attention(call: Operation, type_: TensorType) -> TensorType:
    """Attention over a sequence, in the shape of its first input."""
    _note_batch(call, type_, call.flag("batch_first"))
    return type_.with_sizes(type_.sizes).with_dtype(None)


def _encoder(call: Operation, type_: TensorType) -> TensorType:
    """Several encoder layers, all with the settings of the first."""
    layer = resolved(call.arguments["encoder_layer"]) if "encoder_layer" in call.arguments else None
    transfer = call.case.layer(layer) if layer is not None else None
    if layer is None or transfer is None or transfer.kind != ENCODER_LAYER:
        return ANY
    made = call.case.made_with(layer, transfer)
    flag = replace(call, transfer=transfer, arguments=made).flag("batch_first") if made else None
    _note_batch(call, type_, flag)
    return type_.with_sizes(type_.sizes).with_dtype(None)


def _note_batch(call: Operation, type_: TensorType, batch_first: bool | None) -> None:
    """Record a call that treats the samples as the steps of a sequence longer than 1."""
    module, site = resolved(call.value.parents[0]), call.value.site
    steps = type_.size(0) if type_.rank == 3 and batch_first is False else None
    if steps is None or site is None or not isinstance(module, Module) or is_number(type_.size(1), 1):
        return
    loader = loader_of(steps)
    if loader is not None or _counts_samples(steps, call.case.sample_counts):
        call.case.batches_as_time[site] = module, loader


def _counts_samples(size: Size, counts: set[Known]) -> bool:
    """Whether a size is a number of samples, or a multiple of one: `batch * rows`."""
    return size.number is None and any(
        count is not None and count.number is None and size.divided_by(count) is not None for count in counts
    )


def _recurrent(call: Operation, type_: TensorType) -> TensorType:
    """The output of each step; the layer returns it together with its state."""
    type_ = call.with_rank("self", (2, 3), type_)
    _note_batch(call, type_, call.flag("batch_first"))
    wanted, given = call.number("input_size"), type_.size(-1)
    if differ_by_parts(wanted, given):
        call.misfit(f"takes {_features(wanted, given)}")
    hidden, both = call.number("hidden_size"), call.flag("bidirectional")
    if both is None or hidden is None or call.get("proj_size") is not None:
        return type_.with_sizes((*type_.sizes[:-1], None))
    return TensorType((*type_.sizes[:-1], hidden * Size.of(2 if both else 1)), type_.is_open, _FLOAT)


def _function_linear(call: Operation) -> TensorType:
    type_, weight = call.operand(), call.operand("weight")
    wanted, given = weight.size(-1), type_.size(-1)
    if weight.rank == 2 and differ_by_parts(wanted, given) and _is_constant(wanted, given):
        call.misfit(f"takes {_features(wanted, given)}")
    rows = weight.size(0) if weight.rank == 2 else None
    return TensorType((*type_.sizes[:-1], rows), type_.is_open) if weight.rank == 2 else ANY


def _is_constant(*sizes: Known) -> bool:
    return all(size is not None and size.number is not None for size in sizes)


Layer = Callable[[Operation, TensorType], TensorType]
_LAYERS: dict[str, Layer] = {
    SAME: _same,
    "linear": _linear,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    POOL: _pool,
    "adaptive_pool": _adaptive_pool,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "embedding": _embedding,
    FLATTEN: _flatten,
    RECURRENT: _recurrent,
    ENCODER_LAYER: _attention,
    ATTENTION: _attention,
    ENCODER: _encoder,
}
FUNCTIONS = {"linear": _function_linear, POOL: _pool_function, "adaptive_pool": _adaptive_function}

"""Result shapes and element types of PyTorch's operators and layers, from those of their inputs.

Names are those people write, for functions and methods alike. `self` is the parameter that functions call `input`.
Sources: the PyTorch 2.13 documentation; `tests/test_shapes.py` runs random programs of these operators against the
installed torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from torchlint.pytorch.binding import OTHER_NAMES, Parameters

SAME = "same"
"""Each element separately."""
SAME_AT = "same_at"
"""Along a dimension, with the sizes of the operand."""
EXTREMUM = "extremum"
"""`max` and similar functions: one result, or values and indices."""
FLATTEN = "flatten"
TRANSPOSE = "transpose"
PERMUTE = "permute"
POOL = "pool"
RECURRENT = "recurrent"
ENCODER_LAYER = "encoder_layer"
ENCODER = "encoder"
ATTENTION = "attention"
"""Attention over a sequence, which also returns its weights."""
SEQUENTIAL = "sequential"


@dataclass(frozen=True)
class Transfer:
    """The rule for a result: `kind` names the computation of the sizes, `dtype` the element type of the result.

    `dtype` may be `same`, `floating` (integers become floating point numbers), `summed` (small integers become large)
    or the name of a type; `""` means that it is not known, or depends on `kind`. `float` is any type of floating
    point numbers.
    """

    kind: str
    names: tuple[str, ...]
    dtype: str = "same"
    rest: str = ""
    """The parameter that takes all remaining arguments."""
    dimensions: int = 0
    """For a layer over images and similar data: the number of dimensions it works on."""

    @property
    def parameters(self) -> Parameters:
        return _parameters(self.names)


@lru_cache(maxsize=256)
def _parameters(names: tuple[str, ...]) -> Parameters:
    return Parameters(*map(_with_other_name, names))


def _with_other_name(name: str) -> str:
    other = OTHER_NAMES.get(name.partition("|")[0])
    return f"{name}|{other}" if other is not None else name


def _transfer(kind: str, parameters: str, dtype: str = "same", dimensions: int = 0) -> Transfer:
    names = parameters.split()
    rest = next((name[1:] for name in names if name[:1] == "*" and len(name) > 1), "")
    return Transfer(kind, tuple(name for name in names if name[1:] != rest or not rest), dtype, rest, dimensions)


def _each(names: str, transfer: Transfer) -> dict[str, Transfer]:
    return dict.fromkeys(names.split(), transfer)


_MAX_POOL = "self kernel_size stride padding dilation ceil_mode return_indices"

OPERATORS: dict[str, Transfer] = {
    **_each(
        "abs neg relu relu6 leaky_relu elu selu celu clone contiguous detach data cuda cpu clamp clamp_min clamp_max "
        "clip sign square hardtanh threshold requires_grad_ pin_memory nan_to_num tril triu round floor "
        "ceil trunc roll flip dropout dropout1d dropout2d dropout3d alpha_dropout gelu silu mish "
        "hardswish softplus softsign tanhshrink softshrink hardshrink logsigmoid normalize",
        _transfer(SAME, "self"),
    ),
    **_each(
        "exp log log2 log10 log1p expm1 sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh sigmoid erf reciprocal",
        _transfer(SAME, "self", "floating"),
    ),
    **_each("softmax log_softmax softmin", _transfer(SAME_AT, "self dim", "floating")),
    "masked_fill": _transfer("masked_fill", "self mask"),
    **_each("logical_not isnan isinf isfinite", _transfer(SAME, "self", "bool")),
    **_each("float", _transfer(SAME, "self", "float32")),
    **_each("double", _transfer(SAME, "self", "float64")),
    **_each("half", _transfer(SAME, "self", "float16")),
    **_each("bfloat16", _transfer(SAME, "self", "bfloat16")),
    **_each("long", _transfer(SAME, "self", "int64")),
    **_each("int", _transfer(SAME, "self", "int32")),
    **_each("bool", _transfer(SAME, "self", "bool")),
    **_each("byte", _transfer(SAME, "self", "uint8")),
    "to": _transfer("convert", "self *to"),
    "type": _transfer("convert", "self *to"),
    "type_as": _transfer("convert", "self *to"),
    **_each("add sub mul maximum minimum fmax fmin remainder", _transfer("broadcast", "self other")),
    **_each("div true_divide atan2", _transfer("broadcast", "self other", "floating")),
    **_each("pow floor_divide fmod bitwise", _transfer("broadcast", "self other", "")),
    **_each("compare eq ne lt le gt ge", _transfer("broadcast", "self other", "bool")),
    "where": _transfer("where", "condition self other", ""),
    **_each("matmul", _transfer("matmul", "self other|tensor2")),
    "mm": _transfer("mm", "self mat2"),
    "bmm": _transfer("bmm", "self mat2"),
    "linear": _transfer("linear", "self weight bias"),
    **_each("view", _transfer("view", "self *size|shape")),
    **_each("reshape", _transfer("reshape", "self *shape")),
    "flatten": _transfer(FLATTEN, "self start_dim end_dim"),
    "unsqueeze": _transfer("unsqueeze", "self dim"),
    "squeeze": _transfer("squeeze", "self dim"),
    **_each("transpose swapaxes swapdims", _transfer(TRANSPOSE, "self dim0|axis0 dim1|axis1")),
    "permute": _transfer(PERMUTE, "self *dims"),
    "t": _transfer("t", "self"),
    "expand": _transfer("expand", "self *size"),
    "expand_as": _transfer("as_other", "self other"),
    "view_as": _transfer("as_other", "self other"),
    "reshape_as": _transfer("as_other", "self other"),
    "repeat": _transfer("repeat", "self *repeats"),
    **_each("cat concat concatenate", _transfer("cat", "tensors dim", "")),
    "stack": _transfer("stack", "tensors dim", ""),
    "getitem": _transfer("getitem", "self"),
    "unbind": _transfer("unbind", "self dim"),
    **_each("sum nansum", _transfer("reduce", "self dim keepdim", "summed")),
    **_each("mean nanmean", _transfer("mean", "self dim keepdim")),
    **_each("std var", _transfer("deviation", "self dim unbiased keepdim")),
    "prod": _transfer("reduce_one", "self dim keepdim", "summed"),
    **_each("amax amin logsumexp", _transfer("reduce", "self dim keepdim")),
    **_each("argmax argmin", _transfer("reduce_one", "self dim keepdim", "int64")),
    **_each("any all", _transfer("reduce", "self dim keepdim", "")),
    **_each("max min", _transfer(EXTREMUM, "self dim|other keepdim")),
    **_each("median nanmedian mode", _transfer(EXTREMUM, "self dim keepdim")),
    **_each("cumsum cumprod logcumsumexp", _transfer(SAME_AT, "self dim", "summed")),
    "gather": _transfer("gather", "self dim index"),
    "one_hot": _transfer("one_hot", "self|tensor num_classes", "int64"),
    **_each(
        "cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits mse_loss l1_loss smooth_l1_loss "
        "huber_loss kl_div",
        _transfer("loss", "self target", ""),
    ),
    **_each("max_pool1d", _transfer(POOL, _MAX_POOL, dimensions=1)),
    **_each("max_pool2d", _transfer(POOL, _MAX_POOL, dimensions=2)),
    **_each("avg_pool1d", _transfer(POOL, "self kernel_size stride padding ceil_mode", dimensions=1)),
    **_each("avg_pool2d", _transfer(POOL, "self kernel_size stride padding ceil_mode", dimensions=2)),
    **_each("adaptive_avg_pool1d", _transfer("adaptive_pool", "self output_size", dimensions=1)),
    **_each("adaptive_avg_pool2d", _transfer("adaptive_pool", "self output_size", dimensions=2)),
}
"""Functions of `torch` and `torch.nn.functional`, and methods of tensors; `bitwise` and `compare` are operators."""

CREATORS: dict[str, Transfer] = {
    **_each("zeros ones rand randn empty", _transfer("create", "*size * dtype", "float")),
    "full": _transfer("full", "size fill_value * dtype", ""),
    "randint": _transfer("randint", "*bounds * size dtype", "int64"),
    "randperm": _transfer("create_one", "n * dtype", "int64"),
    "arange": _transfer("arange", "*bounds * dtype", ""),
    "linspace": _transfer("linspace", "start end steps * dtype", "float"),
    "eye": _transfer("eye", "n m * dtype", "float"),
    "tensor": _transfer("data", "data * dtype", ""),
    **_each("zeros_like ones_like rand_like randn_like empty_like", _transfer("create_like", "self * dtype")),
    "full_like": _transfer("create_like", "self fill_value * dtype"),
    "randint_like": _transfer("create_like", "self *bounds * dtype"),
}
"""Functions that create a new tensor."""

_LINE = "kernel_size stride padding dilation"
_CONV = "in_channels out_channels kernel_size stride padding dilation groups bias padding_mode"
_UP = "in_channels out_channels kernel_size stride padding output_padding groups bias dilation"
_NORM = "num_features eps momentum affine track_running_stats"
_RECURRENT = "input_size hidden_size num_layers bias batch_first dropout bidirectional proj_size"


def _dimensions(names: str, kind: str, parameters: str) -> dict[str, Transfer]:
    return {f"{name}{n}d": _transfer(kind, parameters, dimensions=n) for name in names.split() for n in (1, 2, 3)}


LAYERS: dict[str, Transfer] = {
    **_each(
        "Identity ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Hardswish Hardtanh Hardsigmoid Softplus Softsign "
        "Tanhshrink Softshrink Hardshrink LogSigmoid Sigmoid Tanh Threshold RReLU Dropout Dropout1d Dropout2d "
        "Dropout3d AlphaDropout FeatureAlphaDropout Softmax LogSoftmax Softmin LocalResponseNorm",
        _transfer(SAME, ""),
    ),
    "PReLU": _transfer(SAME, ""),
    "Linear": _transfer("linear", "in_features out_features bias"),
    **_dimensions("Conv", "conv", _CONV),
    **_dimensions("ConvTranspose", "conv_transpose", _UP),
    **_dimensions("MaxPool", POOL, f"{_LINE} return_indices ceil_mode"),
    **_dimensions("AvgPool", POOL, "kernel_size stride padding ceil_mode"),
    **_dimensions("AdaptiveAvgPool AdaptiveMaxPool", "adaptive_pool", "output_size return_indices"),
    **_dimensions("BatchNorm", "batch_norm", _NORM),
    "LayerNorm": _transfer("layer_norm", "normalized_shape"),
    "GroupNorm": _transfer("group_norm", "num_groups num_channels"),
    "Embedding": _transfer("embedding", "num_embeddings embedding_dim"),
    "Flatten": _transfer(FLATTEN, "start_dim end_dim"),
    "TransformerEncoderLayer": _transfer(
        ENCODER_LAYER, "d_model nhead dim_feedforward dropout activation layer_norm_eps batch_first norm_first bias"
    ),
    "TransformerEncoder": _transfer(ENCODER, "encoder_layer num_layers norm"),
    "MultiheadAttention": _transfer(
        ATTENTION, "embed_dim num_heads dropout bias add_bias_kv add_zero_attn kdim vdim batch_first"
    ),
    "LSTM": _transfer(RECURRENT, _RECURRENT),
    "GRU": _transfer(RECURRENT, _RECURRENT.replace(" proj_size", "")),
    "RNN": _transfer(RECURRENT, f"input_size hidden_size num_layers nonlinearity {_RECURRENT[34:]}"),
    "Sequential": _transfer(SEQUENTIAL, ""),
}
"""Layers of `torch.nn`; the parameters are those of their constructors."""

IN_PLACE_SHAPES = frozenset(
    "unsqueeze_ squeeze_ t_ transpose_ swapaxes_ swapdims_ resize_ resize_as_ set_ as_strided_".split()
)
"""Methods that change a tensor's shape in place, for all its users."""
DTYPES = {
    "float": "float32", "float32": "float32", "double": "float64", "float64": "float64", "half": "float16",
    "float16": "float16", "bfloat16": "bfloat16", "long": "int64", "int64": "int64", "int": "int32", "int32": "int32",
    "short": "int16", "int16": "int16", "int8": "int8", "uint8": "uint8", "bool": "bool",
}  # fmt: skip
"""Element types by their names in `torch`."""
TENSOR_TYPES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "LongTensor": "int64",
    "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "BoolTensor": "bool", "ByteTensor": "uint8",
}  # fmt: skip
INTEGRAL = frozenset({"int64", "int32", "int16", "int8", "uint8", "bool"})
"""Element types of tensors without gradients."""
INTEGER_TYPES = frozenset(f"torch.{name}" for name, dtype in (DTYPES | TENSOR_TYPES).items() if dtype in INTEGRAL)
"""Names of integer types."""

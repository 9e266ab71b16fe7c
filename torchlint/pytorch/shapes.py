"""How operators and layers of PyTorch make the shape and element type of their result of those they are given.

Names are those people write, for functions and methods alike. `self` is what functions call `input`. Sources: the
PyTorch 2.13 documentation; `tests/test_shapes.py` runs random programs of these operators against the installed torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from torchlint.pytorch.binding import OTHER_NAMES, Parameters

Way = Enum(
    "Way",
    "SAME SAME_AT MASKED_FILL CONVERT BROADCAST WHERE MATMUL MM BMM LINEAR VIEW RESHAPE FLATTEN UNSQUEEZE "
    "SQUEEZE TRANSPOSE PERMUTE T EXPAND AS_OTHER REPEAT CAT STACK GETITEM UNBIND REDUCE MEAN DEVIATION "
    "REDUCE_ONE EXTREMUM GATHER ONE_HOT LOSS POOL ADAPTIVE_POOL CREATE FULL RANDINT CREATE_ONE ARANGE "
    "LINSPACE EYE DATA CREATE_LIKE LAYER_NORM GROUP_NORM EMBEDDING RECURRENT SEQUENTIAL CONV "
    "CONV_TRANSPOSE BATCH_NORM",
)
"""The rules by which results are made: `torchlint.model.shapes` has a function for each."""


@dataclass(frozen=True)
class Transfer:
    """How a result is made of the arguments: `way` says by which rule, `dtype` the element type of the result.

    `dtype` may be `same`, `floating` (integers become floating point numbers), `summed` (small integers become large)
    or the name of a type; `""` is not known, or a matter of `way`. `float` is any type of floating point numbers.
    """

    way: Way
    names: tuple[str, ...]
    dtype: str = "same"
    rest: str = ""
    """The parameter that takes all arguments that are left."""
    dimensions: int = 0
    """Of a layer for images and their like: how many dimensions it goes over."""

    @property
    def parameters(self) -> Parameters:
        return _parameters(self.names)


@lru_cache(maxsize=256)
def _parameters(names: tuple[str, ...]) -> Parameters:
    return Parameters(*map(_with_other_name, names))


def _with_other_name(name: str) -> str:
    other = OTHER_NAMES.get(name.partition("|")[0])
    return f"{name}|{other}" if other is not None else name


def _transfer(way: Way, parameters: str, dtype: str = "same", dimensions: int = 0) -> Transfer:
    names = parameters.split()
    rest = next((name[1:] for name in names if name[:1] == "*" and len(name) > 1), "")
    return Transfer(way, tuple(name for name in names if name[1:] != rest or not rest), dtype, rest, dimensions)


def _each(names: str, transfer: Transfer) -> dict[str, Transfer]:
    return dict.fromkeys(names.split(), transfer)


OPERATORS: dict[str, Transfer] = {
    **_each(
        "abs neg relu relu6 leaky_relu elu selu celu clone contiguous detach data cuda cpu clamp clamp_min clamp_max "
        "clip sign square hardtanh threshold requires_grad_ pin_memory nan_to_num tril triu round floor "
        "ceil trunc roll flip dropout dropout1d dropout2d dropout3d alpha_dropout gelu silu mish "
        "hardswish softplus softsign tanhshrink softshrink hardshrink logsigmoid normalize",
        _transfer(Way.SAME, "self"),
    ),
    **_each(
        "exp log log2 log10 log1p expm1 sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh sigmoid erf reciprocal",
        _transfer(Way.SAME, "self", "floating"),
    ),
    **_each("softmax log_softmax softmin", _transfer(Way.SAME_AT, "self dim", "floating")),
    "masked_fill": _transfer(Way.MASKED_FILL, "self mask"),
    **_each("logical_not isnan isinf isfinite", _transfer(Way.SAME, "self", "bool")),
    **_each("float", _transfer(Way.SAME, "self", "float32")),
    **_each("double", _transfer(Way.SAME, "self", "float64")),
    **_each("half", _transfer(Way.SAME, "self", "float16")),
    **_each("bfloat16", _transfer(Way.SAME, "self", "bfloat16")),
    **_each("long", _transfer(Way.SAME, "self", "int64")),
    **_each("int", _transfer(Way.SAME, "self", "int32")),
    **_each("bool", _transfer(Way.SAME, "self", "bool")),
    **_each("byte", _transfer(Way.SAME, "self", "uint8")),
    "to": _transfer(Way.CONVERT, "self *to"),
    "type": _transfer(Way.CONVERT, "self *to"),
    "type_as": _transfer(Way.CONVERT, "self *to"),
    **_each("add sub mul maximum minimum fmax fmin remainder", _transfer(Way.BROADCAST, "self other")),
    **_each("div true_divide atan2", _transfer(Way.BROADCAST, "self other", "floating")),
    **_each("pow floor_divide fmod bitwise", _transfer(Way.BROADCAST, "self other", "")),
    **_each("compare eq ne lt le gt ge", _transfer(Way.BROADCAST, "self other", "bool")),
    "where": _transfer(Way.WHERE, "condition self other", ""),
    **_each("matmul", _transfer(Way.MATMUL, "self other|tensor2")),
    "mm": _transfer(Way.MM, "self mat2"),
    "bmm": _transfer(Way.BMM, "self mat2"),
    "linear": _transfer(Way.LINEAR, "self weight bias"),
    **_each("view", _transfer(Way.VIEW, "self *size|shape")),
    **_each("reshape", _transfer(Way.RESHAPE, "self *shape")),
    "flatten": _transfer(Way.FLATTEN, "self start_dim end_dim"),
    "unsqueeze": _transfer(Way.UNSQUEEZE, "self dim"),
    "squeeze": _transfer(Way.SQUEEZE, "self dim"),
    **_each("transpose swapaxes swapdims", _transfer(Way.TRANSPOSE, "self dim0|axis0 dim1|axis1")),
    "permute": _transfer(Way.PERMUTE, "self *dims"),
    "t": _transfer(Way.T, "self"),
    "expand": _transfer(Way.EXPAND, "self *size"),
    "expand_as": _transfer(Way.AS_OTHER, "self other"),
    "view_as": _transfer(Way.AS_OTHER, "self other"),
    "reshape_as": _transfer(Way.AS_OTHER, "self other"),
    "repeat": _transfer(Way.REPEAT, "self *repeats"),
    **_each("cat concat concatenate", _transfer(Way.CAT, "tensors dim", "")),
    "stack": _transfer(Way.STACK, "tensors dim", ""),
    "getitem": _transfer(Way.GETITEM, "self"),
    "unbind": _transfer(Way.UNBIND, "self dim"),
    **_each("sum nansum", _transfer(Way.REDUCE, "self dim keepdim", "summed")),
    **_each("mean nanmean", _transfer(Way.MEAN, "self dim keepdim")),
    **_each("std var", _transfer(Way.DEVIATION, "self dim unbiased keepdim")),
    "prod": _transfer(Way.REDUCE_ONE, "self dim keepdim", "summed"),
    **_each("amax amin logsumexp", _transfer(Way.REDUCE, "self dim keepdim")),
    **_each("argmax argmin", _transfer(Way.REDUCE_ONE, "self dim keepdim", "int64")),
    **_each("any all", _transfer(Way.REDUCE, "self dim keepdim", "")),
    **_each("max min", _transfer(Way.EXTREMUM, "self dim|other keepdim")),
    **_each("median nanmedian mode", _transfer(Way.EXTREMUM, "self dim keepdim")),
    **_each("cumsum cumprod logcumsumexp", _transfer(Way.SAME_AT, "self dim", "summed")),
    "gather": _transfer(Way.GATHER, "self dim index"),
    "one_hot": _transfer(Way.ONE_HOT, "self|tensor num_classes", "int64"),
    **_each(
        "cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits mse_loss l1_loss smooth_l1_loss "
        "huber_loss kl_div",
        _transfer(Way.LOSS, "self target", ""),
    ),
    **_each("max_pool1d", _transfer(Way.POOL, "self kernel_size stride padding dilation ceil_mode", dimensions=1)),
    **_each("max_pool2d", _transfer(Way.POOL, "self kernel_size stride padding dilation ceil_mode", dimensions=2)),
    **_each("avg_pool1d", _transfer(Way.POOL, "self kernel_size stride padding ceil_mode", dimensions=1)),
    **_each("avg_pool2d", _transfer(Way.POOL, "self kernel_size stride padding ceil_mode", dimensions=2)),
    **_each("adaptive_avg_pool1d", _transfer(Way.ADAPTIVE_POOL, "self output_size", dimensions=1)),
    **_each("adaptive_avg_pool2d", _transfer(Way.ADAPTIVE_POOL, "self output_size", dimensions=2)),
}
"""Functions of `torch` and `torch.nn.functional`, and methods of tensors; `bitwise` and `compare` are operators."""

CREATORS: dict[str, Transfer] = {
    **_each("zeros ones rand randn empty", _transfer(Way.CREATE, "*size * dtype", "float")),
    "full": _transfer(Way.FULL, "size fill_value * dtype", ""),
    "randint": _transfer(Way.RANDINT, "*bounds * size dtype", "int64"),
    "randperm": _transfer(Way.CREATE_ONE, "n * dtype", "int64"),
    "arange": _transfer(Way.ARANGE, "*bounds * dtype", ""),
    "linspace": _transfer(Way.LINSPACE, "start end steps * dtype", "float"),
    "eye": _transfer(Way.EYE, "n m * dtype", "float"),
    "tensor": _transfer(Way.DATA, "data * dtype", ""),
    **_each("zeros_like ones_like rand_like randn_like empty_like", _transfer(Way.CREATE_LIKE, "self * dtype")),
    "full_like": _transfer(Way.CREATE_LIKE, "self fill_value * dtype"),
    "randint_like": _transfer(Way.CREATE_LIKE, "self *bounds * dtype"),
}
"""Functions that make a new tensor."""

_LINE = "kernel_size stride padding dilation"
_CONV = "in_channels out_channels kernel_size stride padding dilation groups bias padding_mode"
_UP = "in_channels out_channels kernel_size stride padding output_padding groups bias dilation"
_NORM = "num_features eps momentum affine track_running_stats"
_RECURRENT = "input_size hidden_size num_layers bias batch_first dropout bidirectional proj_size"


def _dimensions(names: str, way: Way, parameters: str) -> dict[str, Transfer]:
    return {f"{name}{n}d": _transfer(way, parameters, dimensions=n) for name in names.split() for n in (1, 2, 3)}


LAYERS: dict[str, Transfer] = {
    **_each(
        "Identity ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Hardswish Hardtanh Hardsigmoid Softplus Softsign "
        "Tanhshrink Softshrink Hardshrink LogSigmoid Sigmoid Tanh Threshold RReLU Dropout Dropout1d Dropout2d "
        "Dropout3d AlphaDropout FeatureAlphaDropout Softmax LogSoftmax Softmin LocalResponseNorm",
        _transfer(Way.SAME, ""),
    ),
    "PReLU": _transfer(Way.SAME, ""),
    "Linear": _transfer(Way.LINEAR, "in_features out_features bias"),
    **_dimensions("Conv", Way.CONV, _CONV),
    **_dimensions("ConvTranspose", Way.CONV_TRANSPOSE, _UP),
    **_dimensions("MaxPool", Way.POOL, f"{_LINE} return_indices ceil_mode"),
    **_dimensions("AvgPool", Way.POOL, "kernel_size stride padding ceil_mode"),
    **_dimensions("AdaptiveAvgPool AdaptiveMaxPool", Way.ADAPTIVE_POOL, "output_size"),
    **_dimensions("BatchNorm", Way.BATCH_NORM, _NORM),
    "LayerNorm": _transfer(Way.LAYER_NORM, "normalized_shape"),
    "GroupNorm": _transfer(Way.GROUP_NORM, "num_groups num_channels"),
    "Embedding": _transfer(Way.EMBEDDING, "num_embeddings embedding_dim"),
    "Flatten": _transfer(Way.FLATTEN, "start_dim end_dim"),
    "LSTM": _transfer(Way.RECURRENT, _RECURRENT),
    "GRU": _transfer(Way.RECURRENT, _RECURRENT.replace(" proj_size", "")),
    "RNN": _transfer(Way.RECURRENT, f"input_size hidden_size num_layers nonlinearity {_RECURRENT[34:]}"),
    "Sequential": _transfer(Way.SEQUENTIAL, ""),
}
"""Layers of `torch.nn`; the parameters are those that they are made with."""

IN_PLACE_SHAPES = frozenset(
    "unsqueeze_ squeeze_ t_ transpose_ swapaxes_ swapdims_ resize_ resize_as_ set_ as_strided_".split()
)
"""Methods that give a tensor another shape, for all who hold it."""
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
"""Element types of tensors that have no gradients."""
INTEGER_TYPES = frozenset(f"torch.{name}" for name, dtype in (DTYPES | TENSOR_TYPES).items() if dtype in INTEGRAL)
"""What names one of them."""

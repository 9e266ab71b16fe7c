"""Modules of `torch.nn` that own parameters or running statistics: https://docs.pytorch.org/docs/stable/nn.html"""

from __future__ import annotations

import ast
from typing import NamedTuple

from torchlint.pytorch.binding import Bound, Parameters, bind

WEIGHTED = frozenset(
    (
        "AdaptiveLogSoftmaxWithLoss Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d "
        "Embedding EmbeddingBag GRU GRUCell LSTM LSTMCell LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d "
        "LazyConvTranspose2d LazyConvTranspose3d LazyLinear Linear LinearCrossEntropyLoss MultiheadAttention PReLU RNN "
        "RNNCell Transformer TransformerDecoderLayer TransformerEncoderLayer"
    ).split()
)
"""Modules that always own weights."""


class _Norm(NamedTuple):
    """Possible state of a normalization: its parameter, and the default."""

    parameters: Parameters
    flags: dict[str, bool]


def _norm(parameters: str, **flags: bool) -> _Norm:
    return _Norm(Parameters(*parameters.split()), flags)


_BATCH = _norm("num_features eps momentum affine track_running_stats", affine=True, track_running_stats=True)
_LAZY_BATCH = _norm("eps momentum affine track_running_stats", affine=True, track_running_stats=True)
_INSTANCE = _norm("num_features eps momentum affine track_running_stats", affine=False, track_running_stats=False)
NORMS = {
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"), _BATCH),
    **dict.fromkeys(("LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d"), _LAZY_BATCH),
    **dict.fromkeys(("LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d"), _LAZY_BATCH),
    **dict.fromkeys(("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"), _INSTANCE),
    "GroupNorm": _norm("num_groups num_channels eps affine", affine=True),
    "LayerNorm": _norm("normalized_shape eps elementwise_affine", elementwise_affine=True),
    "RMSNorm": _norm("normalized_shape eps elementwise_affine", elementwise_affine=True),
}
"""Modules that own weights or statistics by default, or only on request."""


def may_own(qualified: str) -> bool:
    """Whether a class is, by its name, a PyTorch module class with weights or statistics."""
    module, _, name = qualified.rpartition(".")
    return module == "torch.nn" and (name in WEIGHTED or name in NORMS)


def owned(name: str, call: ast.Call) -> str:
    """The state that a module created by a call certainly owns: "weights", "statistics", or none."""
    if name in WEIGHTED:
        return "weights"
    norm = NORMS.get(name)
    keywords = {item.arg: item.value for item in call.keywords if item.arg is not None}
    if norm is None or len(keywords) < len(call.keywords) or any(isinstance(item, ast.Starred) for item in call.args):
        return ""
    arguments = bind(norm.parameters, call.args, keywords)
    on = [flag for flag, default in norm.flags.items() if _is_on(arguments, flag, default)]
    return "" if not on else "statistics" if on == ["track_running_stats"] else "weights"


def _is_on(arguments: Bound[ast.expr], flag: str, default: bool) -> bool:
    given = arguments.get(flag)
    return default if given is None else isinstance(given, ast.Constant) and given.value is True

"""The meaning of PyTorch's callables, by qualified name or method name; sources: the PyTorch 2.13 documentation."""

from __future__ import annotations

import re

from torchlint.pytorch.autograd_table import INPLACE, INPLACE_MODULES, MAYBE_VIEWS, NOT_DIFFERENTIABLE, OPERATORS, VIEWS
from torchlint.pytorch.binding import Parameters
from torchlint.pytorch.effects import DropsElements, Result, SwitchesGradMode
from torchlint.pytorch.effects import GradMode as GradMode  # rules use it on values
from torchlint.pytorch.packages import HARMLESS_PACKAGES as HARMLESS_PACKAGES
from torchlint.pytorch.table import FUNCTIONS, family, function, functions_with

GRAD_MODES = {
    name: effect.to
    for name, effect in functions_with(SwitchesGradMode).items()
    if isinstance(effect, SwitchesGradMode) and effect.to is not None
}
"""Context managers and decorators, with the mode that they set."""
SET_GRAD_MODE = frozenset(functions_with(SwitchesGradMode)) - GRAD_MODES.keys()
"""Functions that set the grad mode from an argument."""
SWITCHES_OFF = SET_GRAD_MODE | {name for name, mode in GRAD_MODES.items() if mode is GradMode.OFF}
SWITCHES_ON = SET_GRAD_MODE | {name for name, mode in GRAD_MODES.items() if mode is GradMode.ON}
"""Functions that may switch gradients off or on."""
DROPPING = {
    name: effect.mode for name, effect in functions_with(DropsElements).items() if isinstance(effect, DropsElements)
}
"""Functions that drop elements at random, with the parameter that may switch it off."""
PARAMETERS = frozenset(name for entry in FUNCTIONS if entry.returns is Result.LEAF for name in entry.names)
"""Callables that create a parameter of a module."""
CLOCKS = frozenset(
    "time.time time.time_ns time.perf_counter time.perf_counter_ns time.monotonic time.process_time "
    "timeit.default_timer".split()
)

# Calls that create a tensor without a graph, unless they have `requires_grad=True`.
CREATORS = frozenset(
    (
        "tensor zeros ones rand randn randint randperm empty full arange linspace logspace eye from_numpy "
        "as_tensor zeros_like ones_like rand_like randn_like randint_like empty_like full_like Tensor "
        "FloatTensor LongTensor DoubleTensor HalfTensor IntTensor BoolTensor ByteTensor normal bernoulli "
        "poisson multinomial tril_indices triu_indices load from_dlpack frombuffer asarray scalar_tensor "
        "hann_window range"
    ).split()
)
COPIERS = frozenset("tensor as_tensor from_numpy asarray FloatTensor DoubleTensor HalfTensor new_tensor".split())
"""Functions that create a tensor from data, their first argument."""
HANDING_ON = frozenset("Tensor FloatTensor as_tensor asarray".split())
"""Functions that return a tensor argument itself: it keeps its graph."""
CREATOR_METHODS = frozenset(["new", "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"])

# Methods of a tensor that return a value without a graph, or no tensor at all.
GRADIENTS = ("grad", "_grad")
"""Attributes of a tensor that hold its gradient; code before 0.4 sets the second."""
ACCUMULATING = frozenset(
    "add sub mul div cat stack hstack vstack concat concatenate maximum minimum lerp append".split()
)
"""Functions that continue a sum: `total = torch.lerp(total, loss, 0.1)`."""
ACCUMULATING_IN_PLACE = frozenset(["add_", "sub_", "lerp_"])
"""The same for methods that change their receiver in place."""
PLAIN_METHODS = frozenset(
    (
        "item tolist numpy size dim ndimension numel element_size stride data_ptr is_contiguous get_device "
        "storage untyped_storage storage_offset nelement is_floating_point allclose equal cpu_numpy __len__"
    ).split()
)
PLAIN_FUNCTIONS = frozenset("device Size Generator finfo iinfo dtype numel manual_seed seed save typename".split())
PLAIN_ATTRIBUTES = frozenset(
    "shape ndim dtype device layout is_cuda requires_grad is_leaf names itemsize nbytes".split()
)
# Methods that return their module (or unknown) receiver.
SELF_METHODS = frozenset(
    (
        "to cuda cpu half float double bfloat16 train eval requires_grad_ share_memory xpu npu to_empty compile module"
    ).split()
)
DROPOUT, STATISTICS, NOISE, DEPTH = "dropout", "batch statistics", "random slopes", "stochastic depth"
MODE_DEPENDENT = {
    **dict.fromkeys("Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout".split(), DROPOUT),
    **dict.fromkeys("Transformer TransformerEncoderLayer TransformerDecoderLayer".split(), DROPOUT),
    **dict.fromkeys("BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm".split(), STATISTICS),
    **dict.fromkeys("LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d".split(), STATISTICS),
    "RReLU": NOISE,
}
"""Layers of `torch.nn` that behave differently in training and in evaluation, with their effect in training only."""
_MODE_DEPENDENT_MODELS = "torchvision.models."
"""Packages of models, most of which have batch normalization."""
_OTHER_MODELS = (
    (re.compile(r"(alexnet|squeezenet\w+|vgg\d+)$", re.IGNORECASE), DROPOUT),
    (re.compile(r"(convnext|swin|mvit)", re.IGNORECASE), DEPTH),
    (re.compile(r"vit_|VisionTransformer$", re.IGNORECASE), None),
)
"""Models without it, with their default behavior in training only. From torchvision's own sources."""
PRETRAINED_DROPOUT = "dropout in its pretrained layers"
_PRETRAINED_CLASS = re.compile(
    r"transformers\.(?:\w+\.)*(?:Bert|DistilBert|Roberta|XLMRoberta|Camembert|Electra|Deberta|DebertaV2|GPT2|M?T5|M?Bart"
    r"|Longformer|BigBird|Wav2Vec2|Hubert)(?:Model|For|LMHead|Encoder|PreTrained|DoubleHeads)\w*\.from_pretrained$"
)
_PRETRAINED_NAME = re.compile(
    r"(?:[\w.-]+/)?(?:(?:distil|xlm-)?(?:bert|roberta|gpt2)|camembert|electra|deberta|(?:flan-|m)?t5|m?bart|longformer"
    r"|bigbird|wav2vec2|hubert)(?:[-_].*)?$"
)
_AUTO_CLASS = re.compile(r"transformers\.(?:\w+\.)*AutoModel\w*\.from_pretrained$")
MODELS_WITH_LOSSES = ("torchvision.models.detection.",)
"""Models that return losses in training mode and results in evaluation mode.

For a validation loss people keep them in training mode.
"""
MODULE_EVIDENCE = (
    "parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "eval",
    "train", "buffers", "load_state_dict", "register_forward_hook", "forward",
)  # fmt: skip
OF_DISTRIBUTIONS = frozenset("log_prob entropy rsample cdf icdf perplexity".split())
"""Methods of distributions whose results have the graph of the distribution's parameters."""
SHIFTED_DISTRIBUTIONS = frozenset("Normal MultivariateNormal LowRankMultivariateNormal Laplace Cauchy Gumbel".split())
"""Distributions whose entropy does not depend on their first parameter: from the sources of PyTorch 2.13."""
RECURRENT = frozenset("RNN LSTM GRU RNNCell LSTMCell GRUCell".split())
"""Modules that return an output and a state, both with a graph."""
# Names of tensor methods that strings, lists, dictionaries and files also have.
_NOT_ONLY_TENSORS = frozenset(
    (
        "index copy sort split pop replace format values type count get apply update add append set join "
        "strip remove insert extend clear reverse keys items lower upper map register_hook backward"
    ).split()
)
_FUNCTIONS = frozenset(OPERATORS) | VIEWS | MAYBE_VIEWS | NOT_DIFFERENTIABLE | INPLACE
TENSOR_METHODS = _FUNCTIONS - _NOT_ONLY_TENSORS
OF_NUMBERS_TOO = frozenset(
    (
        "all any argmax argmin argsort clip conj cumprod cumsum diagonal dot fill flatten item max mean min nonzero "
        "prod put ravel real imag repeat reshape round searchsorted size squeeze std sum swapaxes take tolist trace "
        "transpose var"
    ).split()
)
"""Methods that numbers and NumPy arrays also have; few programs call `view` on one."""
TENSOR_CLASSES = frozenset({"torch.Tensor", "torch.FloatTensor", "torch.LongTensor"})
TAKING_NUMBERS = frozenset(
    (
        "add div divide float_power mul multiply normal pow remainder sub subtract true_divide xlogy "
        "special.xlog1py special.xlogy special.zeta"
    ).split()
)
"""Functions whose first operand may be a number, from calls of all operators with PyTorch 2.13."""
MOVING = frozenset("to cuda cpu float double half bfloat16".split())
"""Methods that change a module in place, but return another tensor."""
OUT_OF_PLACE = (
    frozenset(name for name in TENSOR_METHODS if f"{name}_" in INPLACE)
    | frozenset(
        (
            "bool clone contiguous detach expand expand_as flatten flip int log_softmax long movedim permute repeat "
            "repeat_interleave reshape reshape_as roll softmax swapaxes tile transpose type_as unfold unsqueeze view "
            "view_as"
        ).split()
    )
) - frozenset("dropout eq fill log normal put resize_as round t threshold".split())
"""Methods that leave a tensor unchanged, but that people call as if they changed it; few other objects have them."""
# Not in derivatives.yaml under this name, but functions or methods that continue their input's graph.
PASSING_METHODS = frozenset(
    ("to cuda cpu float double half bfloat16 type type_as contiguous clone requires_grad_ retain_grad sum mean").split()
)
ONLY_OF_TENSORS = (TENSOR_METHODS | PASSING_METHODS | {"backward"}) - OF_NUMBERS_TOO
"""Methods that no number and no NumPy array has."""

_INPLACE_SECOND = {"Threshold": "threshold value inplace", "Hardtanh": "min_val max_val inplace"} | {
    name: f"{parameter} inplace"
    for parameter, names in (
        ("p", "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout"),
        ("negative_slope", "LeakyReLU"),
        ("alpha", "ELU CELU"),
        ("lower upper", "RReLU"),
    )
    for name in names.split()
}
MODULES_IN_PLACE = {name: Parameters(*_INPLACE_SECOND.get(name, "inplace").split()) for name in INPLACE_MODULES}
"""The parameters of modules that may overwrite their input: https://docs.pytorch.org/docs/stable/nn.html"""

# Functions that return values and indices.
WITH_INDICES = frozenset(
    {
        "max",
        "min",
        "sort",
        "topk",
        "median",
        "mode",
        "kthvalue",
        "nanmedian",
        "cummax",
        "cummin",
        *(f"{kind}max_pool{n}d_with_indices" for kind in ("", "adaptive_") for n in (1, 2, 3)),
        *(f"fractional_max_pool{n}d_with_indices" for n in (2, 3)),
    }
)
_FRACTIONAL = "kernel_size output_size output_ratio return_indices"
INDICES_ON_REQUEST = {
    name.format(n): Parameters(*parameters.split())
    for name, parameters in (
        ("max_pool{}d", "input kernel_size stride padding dilation ceil_mode return_indices"),
        ("adaptive_max_pool{}d", "input output_size return_indices"),
        ("fractional_max_pool{}d", f"input {_FRACTIONAL}"),
        ("MaxPool{}d", "kernel_size stride padding dilation return_indices ceil_mode"),
        ("AdaptiveMaxPool{}d", "output_size return_indices"),
        ("FractionalMaxPool{}d", _FRACTIONAL),
    )
    for n in (1, 2, 3)
}
"""Functions and layers that also return indices if `return_indices` is true, with their parameters."""
# Packages of potentials, whose modules compute gradients of the energy in their `forward`: forces.
DIFFERENTIATING_PACKAGES = frozenset("schnetpack torchani mace nequip matgl chgnet medcam".split())
_PLAIN_PACKAGES = frozenset(
    "numpy math random time os sys json logging re pathlib matplotlib argparse scipy sklearn pandas gc "
    "onnxruntime tensorflow jax xgboost lightgbm dynet mxnet chainer".split()
)
"""Packages whose functions return no tensor, except those that return their argument in another structure."""
CALLING_THE_METHOD = frozenset({"numpy.squeeze", "numpy.swapaxes"})
"""Functions of NumPy that call the method of their argument, so that a tensor stays a tensor with its graph."""
_RESTRUCTURING = re.compile(r"(numpy\.)?random\.(choices?|sample)$|tensorflow(\.\w+)*\.nest\.|jax\.tree(_util|_map)?\b")
_ARRAYS = frozenset(
    "array asarray ascontiguousarray copy empty empty_like full full_like ones ones_like zeros zeros_like arange "
    "linspace eye identity tile repeat concatenate stack vstack hstack append".split()
)
"""Functions of NumPy that certainly return an array, not a number."""
PASSING_BUILTINS = frozenset(["list", "tuple", "iter", "reversed", "sorted", "next"])
PROGRESS = frozenset(
    (
        "tqdm tqdm.tqdm tqdm.auto.tqdm tqdm.notebook.tqdm tqdm.tqdm_notebook tqdm.auto tqdm.trange rich.progress.track"
    ).split()
)
SIZED_MODULES = re.compile(r"^(Linear|Bilinear|Embedding(Bag)?|Conv\w+|RNN|GRU|LSTM|\w+Cell|LayerNorm|BatchNorm\dd)$")
"""Modules of `torch.nn` whose arguments are all numbers, flags and names."""

WRAPPERS = re.compile(
    r"(DataParallel|DistributedDataParallel|DDP|FullyShardedDataParallel|FSDP|torch\.compile|torch\.jit\.script|"
    r"script_if_tracing|convert_sync_batchnorm|convert_syncbn_model)$"
)
"""Functions that return their module argument, wrapped or with other layers."""


def operator_name(qualified: str) -> str | None:
    """The operator of a function of torch, torch.nn.functional, torch.linalg, ..., else None."""
    module, _, name = qualified.rpartition(".")
    if name[:1].isupper():
        return None
    if module in ("torch.nn.functional", "torch.nn.utils.rnn"):
        return name
    if module in ("torch", "torch.Tensor", "torch.functional"):
        return name if name in _FUNCTIONS else None
    if module in ("torch.linalg", "torch.special", "torch.fft"):
        return f"{module.removeprefix('torch.')}.{name}"
    return None


def makes_scheduler(qualified: str) -> bool:
    """Whether a qualified name creates a learning-rate scheduler."""
    entry = function(qualified) or family(qualified)
    return entry is not None and entry.returns is Result.SCHEDULER


def lost_by_model(qualified: str) -> str | None:
    """The behavior of a ready-made model in training only, by qualified name, if known."""
    if not qualified.startswith(_MODE_DEPENDENT_MODELS) or qualified.startswith(MODELS_WITH_LOSSES):
        return None
    name = qualified.rpartition(".")[2]
    return next((lost for pattern, lost in _OTHER_MODELS if pattern.match(name)), STATISTICS)


def drops_by_default(qualified: str, name: object) -> bool:
    """Whether a `from_pretrained` with this qualified name gives a model with dropout by default.

    `name` is the literal that names the weights.
    """
    if _AUTO_CLASS.match(qualified):
        return isinstance(name, str) and bool(_PRETRAINED_NAME.match(name))
    return bool(_PRETRAINED_CLASS.match(qualified))


def gives_no_tensor(qualified: str) -> bool:
    """Whether a qualified name is from a library without tensors, which returns none."""
    return package(qualified) in _PLAIN_PACKAGES and not _RESTRUCTURING.match(qualified)


def gives_array(qualified: str) -> bool:
    """Whether a function returns an array of NumPy, which refuses tensors that require grad."""
    root, _, name = qualified.partition(".")
    return root == "numpy" and name in _ARRAYS


def package(qualified: str) -> str:
    """The top package of a qualified name; empty for a relative import."""
    return qualified.partition(".")[0]

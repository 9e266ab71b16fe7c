"""What PyTorch's callables mean, by qualified name or by method name; sources: the PyTorch 2.13 documentation."""

from __future__ import annotations

import re

from torchlint.model.operators import INPLACE, MAYBE_VIEWS, NOT_DIFFERENTIABLE, OPERATORS, VIEWS
from torchlint.model.values import GradMode

# https://docs.pytorch.org/docs/stable/torch.html#locally-disabling-gradient-computation
GRAD_MODES = {
    "torch.no_grad": GradMode.OFF,
    "torch.autograd.no_grad": GradMode.OFF,
    "torch.autograd.grad_mode.no_grad": GradMode.OFF,
    "torch.inference_mode": GradMode.OFF,
    "torch.autograd.inference_mode": GradMode.OFF,
    "torch.enable_grad": GradMode.ON,
    "torch.autograd.enable_grad": GradMode.ON,
    "torch.autograd.grad_mode.enable_grad": GradMode.ON,
}
SET_GRAD_MODE = frozenset(
    {
        "torch.set_grad_enabled",
        "torch.autograd.set_grad_enabled",
        "torch._C._set_grad_enabled",
        "torch.autograd.grad_mode.set_grad_enabled",
    }
)
# https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection
DETECT_ANOMALY = frozenset({"torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly"})
SET_ANOMALY = frozenset(
    {
        "torch.autograd.set_detect_anomaly",
        "torch.autograd.anomaly_mode.set_detect_anomaly",
        "torch.set_anomaly_enabled",
    }
)
EMPTY_CACHE = frozenset(
    f"{module}.empty_cache"
    for module in (
        "torch.cuda",
        "torch.cuda.memory",
        "torch.mps",
        "torch.xpu",
        "torch.npu",
        "torch.accelerator",
        "torch.accelerator.memory",
    )
)
MEMORY_PROBES = frozenset(
    ["memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "reset_peak_memory_stats", "reset_max_memory_allocated", "memory_stats", "memory_summary", "mem_get_info", "memory_snapshot"]
)

# Calls that make a tensor without a graph, unless they are told `requires_grad=True`.
CREATORS = frozenset(
    ["tensor", "zeros", "ones", "rand", "randn", "randint", "randperm", "empty", "full", "arange", "linspace", "logspace", "eye", "from_numpy", "as_tensor", "zeros_like", "ones_like", "rand_like", "randn_like", "randint_like", "empty_like", "full_like", "Tensor", "FloatTensor", "LongTensor", "DoubleTensor", "HalfTensor", "IntTensor", "BoolTensor", "ByteTensor", "normal", "bernoulli", "poisson", "multinomial", "tril_indices", "triu_indices", "load", "from_dlpack", "frombuffer", "asarray", "scalar_tensor", "hann_window", "range"]
)
CREATOR_METHODS = frozenset(["new", "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"])

# Methods of a tensor that give something without a graph, or no tensor at all.
PLAIN_METHODS = frozenset(
    ["item", "tolist", "numpy", "size", "dim", "ndimension", "numel", "element_size", "stride", "data_ptr", "is_contiguous", "get_device", "storage", "untyped_storage", "storage_offset", "nelement", "is_floating_point", "allclose", "equal", "cpu_numpy", "__len__"]
)
PLAIN_ATTRIBUTES = frozenset(
    ["shape", "ndim", "dtype", "device", "layout", "is_cuda", "requires_grad", "is_leaf", "names", "itemsize", "nbytes"]
)
DETACHING_METHODS = frozenset({"detach", "detach_"})
# Methods that hand a module (or an unknown) on as itself.
SELF_METHODS = frozenset(
    ["to", "cuda", "cpu", "half", "float", "double", "bfloat16", "train", "eval", "requires_grad_", "share_memory", "xpu", "npu", "to_empty", "compile", "module"]
)
MODULE_EVIDENCE = (
    "parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "eval", "train", "buffers",
    "load_state_dict", "register_forward_hook", "forward",
)  # fmt: skip
# Names that are a tensor's methods and also those of strings, lists, dictionaries and files.
_NOT_ONLY_TENSORS = frozenset(
    ["index", "copy", "sort", "split", "pop", "replace", "format", "values", "type", "count", "get", "apply", "update", "add", "append", "set", "join", "strip", "remove", "insert", "extend", "clear", "reverse", "keys", "items", "lower", "upper", "map", "register_hook", "backward"]
)
TENSOR_METHODS = (
    frozenset(OPERATORS) | VIEWS | MAYBE_VIEWS | NOT_DIFFERENTIABLE | INPLACE
) - _NOT_ONLY_TENSORS
# Not in derivatives.yaml under this name, yet functions or methods that hand their input's graph on.
PASSING_METHODS = frozenset(
    ["to", "cuda", "cpu", "float", "double", "half", "bfloat16", "type", "type_as", "contiguous", "clone", "requires_grad_", "retain_grad", "sum", "mean"]
)

OPTIMIZER_CLASS = re.compile(
    r"(Adam|SGD|RMSprop|Adagrad|Adadelta|LBFGS|Optimizer|Lamb|LAMB|Lion|Adafactor|NovoGrad|Ranger|RAdam|ASGD|Rprop|Muon|Shampoo|LARS)[A-Za-z0-9]*$"
)
NOT_OPTIMIZER_CLASS = re.compile(r"Scheduler|LR$|Config|Args|Params|Hook|State")
OPTIMIZER_FACTORY = re.compile(
    r"^(?:create|get|build|make|init|configure|setup|construct|prepare|set)?_?optim(?:izer|izers|)s?(?:_|$)",
    re.I,
)
OPTIMIZER_LABEL = re.compile(
    r"opt(?:im|imi[sz]ers?)?(?:$|[^a-z])|^opt|optim|adam|sgd|lbfgs|rmsprop|(?:^|_)solver$|^trainer$(?!)", re.I
)
NOT_OPTIMIZER_LABEL = re.compile(
    r"sched|(?:^|_)lr(?:_|$)|lr_|warm|env|scaler|profil|^prof|pbar|bar$|meter|logger|timer|fabric|engine|decay|ema|writer|progress|game|sim|task|option",
    re.I,
)
SCALER_LABEL = re.compile(r"scaler", re.I)
ENGINE_LABEL = re.compile(r"(?:^|_)(?:accelerator|fabric|engine|booster|accel)$", re.I)
MODULE_LABEL = re.compile(
    r"model|net(?:work)?s?(?:$|[^a-z])|net$|module|encoder|decoder|actor|critic|policy|backbone|discriminator|generator|learner|(?:^|_)(?:gen|dis|disc|netd|netg|d|g|q|pi|ac|agent|trainer)(?:$|_)",
    re.I,
)

# Verbs of calls that leave gradients alone even when they are handed the optimizer.
HARMLESS_TO_OPTIMIZER = re.compile(
    r"^_?(?:_|print|log|save|dump|write|adjust|get_lr|set_lr|get_learning|set_learning|lr|warmup|update_lr|update_learning|decay|"
    r"schedule|scheduler|checkpoint|clip|scale_loss|unscale|state_dict|load|report|record|display|show|plot|len|repr|str|format|"
    r"set_optimizer_lr|poly_lr|cosine|step_lr|tqdm)(?:_|$|[A-Z0-9])"
)
# Verbs of calls that leave gradients alone when they are handed the model.
HARMLESS_TO_MODEL = re.compile(
    HARMLESS_TO_OPTIMIZER.pattern.rpartition("(?:_|$")[0][:-1]
    + r"|eval|evaluate|evaluation|valid|validate|validation|test|predict|infer|inference|sample|generate|visuali[sz]e|draw|ema|get|"
    r"accuracy|acc|metric|compute|calc|calculate|count|summary|summari[sz]e|track|debug|check|assert|is|has|make_grid|freeze|"
    r"unfreeze|set_requires|requires_grad|toggle|set_train|set_eval|unwrap|watch|rollout|collect|play|all_?reduce|reduce|barrier|"
    r"sync|gather|broadcast|export|early_?stop\w*|average|update_ema|update_bn|update_average|soft_update|hard_update|polyak|copy|"
    r"clone|deepcopy|seed|time|loss|criterion|forward|encode|decode|run_eval|act|select_action|choose_action|init|initialize|"
    r"register|add|append|avg|mpi|grad_?clip\w*|regulari[sz]\w*|penalty|odeint|accumulate|no_sync|autocast|device|num|embed|extract|render|greedy|translate|beam)(?:_|$|[A-Z0-9])"
)
# Methods of a module that may touch gradients; its other methods compute.
MAY_TOUCH_GRADIENTS = re.compile(
    r"zero|clear|reset_?grad|^reset$|optimi|update|step|train|backward|learn|fit|grad|attack|perturb|refine", re.I
)


def is_harmless_to_model(name: str) -> bool:
    """Whether a call of this name leaves the gradients of a model alone that it is handed."""
    if name in ("optimizers", "lr_schedulers", "configure_optimizers"):
        return True
    if re.search("zero|clear|backward|optimi", name):
        return False
    if HARMLESS_TO_MODEL.match(name):
        return True
    return name.endswith(("_fn", "_func", "_function")) and not MAY_TOUCH_GRADIENTS.search(name)


# Context managers that may well switch gradients off.
GRAD_SWITCHING_LABEL = re.compile(r"no_?grad|eval|infer|freez|frozen|grad_enabled|test|valid|disable", re.I)
# Names of what is called to compute with parameters.
CALLED_AS_MODULE = re.compile(
    MODULE_LABEL.pattern + r"|(?:^|_)(?:layers?|linear|lin|fc|conv|head|cell|block|embed(?:ding)?|proj|mlp|rnn|lstm|gru|attn)\d*$", re.I
)
_VERB = re.compile(
    r"^_?(?:get|set|unwrap|save|load|build|create|make|init|update|train|eval|test|freeze|unfreeze|log|print|register|push|"
    r"prepare|setup|construct|export|convert|copy|clone|wrap|compile|count|check|is|has|apply|configure|reset|download|parse|add|run)(?:_|[A-Z]|$)"
)
LOSS_LABEL = re.compile(r"criter|loss(?:$|_?f)|^mse$|^bce$|cross_entropy", re.I)
# Functions that return values and indices.
WITH_INDICES = frozenset({"max", "min", "sort", "topk", "median", "mode", "kthvalue", "nanmedian", "cummax", "cummin", "max_pool2d_with_indices"})
# What logs, measures, averages or schedules.
BYSTANDER_LABEL = re.compile(
    r"ema|log|writer|meter|metric|timer|sched|evaluat|checkpoint|saver|wandb|profil|progress|pbar|bar$|stats|history|tracker|monitor|"
    r"early|stopp|summary|board|visuali|vis$|plot|buffer|memory|replay|env",
    re.I,
)
# Packages whose functions never clear a gradient.
HARMLESS_PACKAGES = {"higher"} | frozenset(
    ["numpy", "math", "random", "time", "os", "sys", "json", "logging", "re", "pathlib", "PIL", "cv2", "matplotlib", "wandb", "tqdm", "argparse", "scipy", "sklearn", "pandas", "builtins", "copy", "collections", "itertools", "functools", "pickle", "torchvision", "tensorboardX", "datasets", "tokenizers", "torchmetrics", "torch", "gc", "warnings", "shutil", "glob", "csv", "seaborn", "networkx", "imageio", "skimage", "gym", "gymnasium", "typing", "contextlib", "string", "torchaudio", "torchtext", "einops", "mlflow", "visdom", "pprint", "datetime", "threading", "multiprocessing", "rich", "yaml"]
)
# Packages whose functions return no tensor.
PLAIN_PACKAGES = frozenset(
    ["numpy", "math", "random", "time", "os", "sys", "json", "logging", "re", "pathlib", "matplotlib", "argparse", "scipy", "sklearn", "pandas", "gc"]
)
PASSING_BUILTINS = frozenset(["list", "tuple", "iter", "reversed", "sorted", "next"])
PROGRESS = frozenset(
    ["tqdm", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.tqdm_notebook", "tqdm.auto", "tqdm.trange", "rich.progress.track"]
)
WRAPPERS = re.compile(
    r"(DataParallel|DistributedDataParallel|DDP|FullyShardedDataParallel|FSDP|torch\.compile|torch\.jit\.script|script_if_tracing)$"
)


def operator_name(qualified: str) -> str | None:
    """The operator of a function of torch, torch.nn.functional, torch.linalg, ..., else None."""
    module, _, name = qualified.rpartition(".")
    if name[:1].isupper():
        return None
    if module in ("torch", "torch.nn.functional", "torch.Tensor", "torch.functional", "torch.nn.utils.rnn"):
        return name
    if module in ("torch.linalg", "torch.special", "torch.fft"):
        return f"{module.removeprefix('torch.')}.{name}"
    return None


def is_called_as_module(label: str) -> bool:
    """Whether the name of what is called is a noun for a network, not a verb about one, nor a class."""
    if len(label) > 3 and label[0].isupper() and not label.isupper():
        return False
    return bool(CALLED_AS_MODULE.search(label)) and not _VERB.match(label)


def package(qualified: str) -> str:
    """The top package of a qualified name; empty for a relative import."""
    return qualified.partition(".")[0]


def looks_like_optimizer(label: str) -> bool:
    """Whether a name hints at an optimizer, and at nothing else that steps."""
    return bool(OPTIMIZER_LABEL.search(label)) and not NOT_OPTIMIZER_LABEL.search(label)

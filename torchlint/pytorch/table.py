"""Behavior and results of callables of PyTorch and related packages; sources: the PyTorch 2.13 documentation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from torchlint.pytorch.binding import Parameters
from torchlint.pytorch.effects import (
    AdjustsRates,
    Clears,
    Clips,
    DetectsAnomaly,
    DropsElements,
    Effect,
    EvaluatesModule,
    FreesCache,
    GoesBackward,
    GradMode,
    Keeps,
    ProbesMemory,
    RegistersHook,
    Result,
    Steps,
    SwitchesGradMode,
    TakesGradients,
    TrainsModule,
    Unscales,
)

_DOCS = "https://docs.pytorch.org/docs/stable/"
_TRANSFORMERS = "https://huggingface.co/docs/transformers/"
_CLASS, _ANY = "<Class>", "<any>"


@dataclass(frozen=True)
class Api:
    """A callable: a function or class by its qualified names, or a method as `Class.method`."""

    names: tuple[str, ...]
    """Its qualified names; `<Class>` stands for all classes of a module, `<any>` for all its names."""
    parameters: Parameters
    effects: tuple[Effect, ...] = ()
    returns: Result = Result.PLAIN
    source: str = ""
    """The page that documents it."""

    @property
    def last_names(self) -> Iterable[str]:
        """The last names of calls."""
        return (name.rpartition(".")[2] for name in self.names)


def _api(names: str, parameters: str, *effects: Effect, returns: Result = Result.PLAIN, page: str) -> Api:
    source = page if page.startswith("http") else f"{_DOCS}{page}"
    return Api(tuple(names.split()), Parameters(*parameters.split()), effects, returns, source)


def _in(modules: str, names: str) -> str:
    return " ".join(f"{module}.{name}" for name in names.split() for module in modules.split())


_ALLOCATORS = (
    "torch.cuda torch.cuda.memory torch.mps torch.xpu torch.xpu.memory torch.npu torch.npu.memory torch.accelerator "
    "torch.accelerator.memory"
)
_AUTOGRAD = "torch.autograd torch.autograd.grad_mode"
_BACKWARD = "gradient retain_graph create_graph inputs"
_SCALER = "init_scale growth_factor backoff_factor growth_interval enabled"

FUNCTIONS = (
    # -- gradients --------------------------------------------------------------------------------------
    _api("torch.autograd.backward", "tensors grad_tensors retain_graph create_graph grad_variables inputs",
         GoesBackward("tensors"), returns=Result.NOTHING, page="generated/torch.autograd.backward.html"),
    _api("torch.autograd.grad", "outputs inputs grad_outputs retain_graph create_graph only_inputs allow_unused",
         TakesGradients("outputs"), returns=Result.GRADIENTS, page="generated/torch.autograd.grad.html"),
    _api("torch_xla.core.xla_model.optimizer_step", "optimizer barrier optimizer_args groups pin_layout",
         Steps("optimizer"), returns=Result.NOTHING, page="https://docs.pytorch.org/xla/master/learn/api-guide.html"),
    _api(_in("torch.nn.utils torch.nn.utils.clip_grad", "clip_grad_norm_ clip_grad_norm"),
         "parameters max_norm norm_type error_if_nonfinite foreach",
         Clips("parameters", bound="max_norm"), page="generated/torch.nn.utils.clip_grad_norm_.html"),
    _api(_in("torch.nn.utils torch.nn.utils.clip_grad", "clip_grad_value_"), "parameters clip_value foreach",
         Clips("parameters", bound="clip_value"), page="generated/torch.nn.utils.clip_grad_value_.html"),
    _api(_in("torch.nn.utils torch.nn.utils.clip_grad", "clip_grads_with_norm_"),
         "parameters max_norm total_norm foreach", Clips("parameters", bound="max_norm"),
         page="generated/torch.nn.utils.clip_grads_with_norm_.html"),
    _api("torch.autograd.gradcheck.zero_gradients", "x", Clears("x"), returns=Result.NOTHING,
         page="autograd.html#numerical-gradient-checking"),
    # -- modes ------------------------------------------------------------------------------------------
    _api(f"torch.no_grad {_in(_AUTOGRAD, 'no_grad')}", "orig_func", SwitchesGradMode(GradMode.OFF),
         returns=Result.CONTEXT, page="generated/torch.no_grad.html"),
    _api("torch.inference_mode torch.autograd.inference_mode", "mode", SwitchesGradMode(GradMode.OFF),
         returns=Result.CONTEXT, page="generated/torch.autograd.grad_mode.inference_mode.html"),
    _api(f"torch.enable_grad {_in(_AUTOGRAD, 'enable_grad')}", "orig_func", SwitchesGradMode(GradMode.ON),
         returns=Result.CONTEXT, page="generated/torch.enable_grad.html"),
    _api(f"torch.set_grad_enabled torch._C._set_grad_enabled {_in(_AUTOGRAD, 'set_grad_enabled')}", "mode",
         SwitchesGradMode(None, at_once=True), returns=Result.CONTEXT, page="generated/torch.set_grad_enabled.html"),
    _api(_in("torch.autograd torch.autograd.anomaly_mode", "detect_anomaly"), "check_nan", DetectsAnomaly(),
         page="autograd.html#anomaly-detection"),
    _api(_in("torch.autograd torch.autograd.anomaly_mode", "set_detect_anomaly"), "mode check_nan",
         DetectsAnomaly("mode"), page="autograd.html#anomaly-detection"),
    _api("torch.set_anomaly_enabled", "mode|enabled check_nan", DetectsAnomaly("mode"),
         page="autograd.html#anomaly-detection"),
    _api("lightning.Trainer lightning.pytorch.Trainer pytorch_lightning.Trainer", "* detect_anomaly",
         DetectsAnomaly("detect_anomaly"), returns=Result.OBJECT,
         page="https://lightning.ai/docs/pytorch/stable/common/trainer.html"),
    # -- memory -----------------------------------------------------------------------------------------
    _api(_in(_ALLOCATORS, "empty_cache"), "", FreesCache(), page="generated/torch.cuda.memory.empty_cache.html"),
    _api(_in(_ALLOCATORS, "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached "
                          "max_memory_cached memory_stats memory_summary mem_get_info memory_snapshot "
                          "current_allocated_memory driver_allocated_memory get_memory_info"), "device",
         ProbesMemory(), page="torch_cuda_memory.html"),
    _api(_in(_ALLOCATORS, "reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached"), "device",
         ProbesMemory(resets=True), page="torch_cuda_memory.html"),
    # -- what is made -----------------------------------------------------------------------------------
    _api("torch.nn.Parameter torch.nn.parameter.Parameter", "data requires_grad", returns=Result.LEAF,
         page="generated/torch.nn.parameter.Parameter.html"),
    _api("torch.autograd.Variable torch.autograd.variable.Variable", "data requires_grad", returns=Result.DETACHED,
         page="autograd.html#variable-deprecated"),
    _api(f"torch.optim.lr_scheduler.{_ANY} torch.optim.swa_utils.SWALR", "optimizer", returns=Result.SCHEDULER,
         page="optim.html#how-to-adjust-learning-rate"),
    _api("torch.optim.lr_scheduler.ChainedScheduler", "schedulers optimizer", returns=Result.SCHEDULER,
         page="generated/torch.optim.lr_scheduler.ChainedScheduler.html"),
    _api(_in("transformers transformers.optimization",
             "get_constant_schedule get_constant_schedule_with_warmup get_linear_schedule_with_warmup "
             "get_cosine_schedule_with_warmup get_cosine_with_hard_restarts_schedule_with_warmup "
             "get_polynomial_decay_schedule_with_warmup get_inverse_sqrt_schedule get_wsd_schedule"), "optimizer",
         returns=Result.SCHEDULER, page=f"{_TRANSFORMERS}main_classes/optimizer_schedules"),
    _api("transformers.get_scheduler transformers.optimization.get_scheduler diffusers.optimization.get_scheduler",
         "name optimizer", returns=Result.SCHEDULER, page=f"{_TRANSFORMERS}main_classes/optimizer_schedules"),
    _api("torch.optim.swa_utils.AveragedModel", "model", returns=Result.COPY,
         page="optim.html#weight-averaging-swa-and-ema"),
    _api(f"torch.optim.{_CLASS}", "params", returns=Result.OPTIMIZER, page="optim.html"),
    _api("torch.GradScaler torch.amp.GradScaler torch.amp.grad_scaler.GradScaler", f"device {_SCALER}",
         returns=Result.SCALER, page="amp.html#gradient-scaling"),
    _api(_in("torch.cuda.amp torch.cuda.amp.grad_scaler torch.cpu.amp torch.cpu.amp.grad_scaler", "GradScaler"),
         _SCALER, returns=Result.SCALER, page="amp.html#gradient-scaling"),
    _api("torch.utils.data.DataLoader torch.utils.data.dataloader.DataLoader",
         "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last timeout "
         "worker_init_fn multiprocessing_context generator * prefetch_factor persistent_workers "
         "pin_memory_device in_order", returns=Result.LOADER, page="data.html#torch.utils.data.DataLoader"),
    _api(f"torch.distributions.{_CLASS}", "", returns=Result.DISTRIBUTION, page="distributions.html"),
    _api("accelerate.Accelerator", "device_placement split_batches mixed_precision gradient_accumulation_steps",
         returns=Result.ENGINE,
         page="https://huggingface.co/docs/accelerate/package_reference/accelerator"),
    _api("lightning.Fabric lightning.fabric.Fabric", "", returns=Result.ENGINE,
         page="https://lightning.ai/docs/fabric/stable/api/fabric_methods.html"),
    _api("deepspeed.initialize", "args model optimizer model_parameters training_data lr_scheduler",
         returns=Result.ENGINE_AND_OTHERS, page="https://deepspeed.readthedocs.io/en/latest/initialize.html"),
    _api("apex.amp.initialize", "models optimizers", returns=Result.SAME_EACH, page="https://nvidia.github.io/apex/amp.html"),
    _api("apex.amp.scale_loss", "loss optimizers", returns=Result.SCALED, page="https://nvidia.github.io/apex/amp.html"),
    _api("copy.deepcopy copy.copy", "x memo", returns=Result.COPY, page="https://docs.python.org/3/library/copy.html"),
    # -- what gives nothing that has a graph --------------------------------------------------------------
    *(_api(f"{module}.{_ANY}", "", page=page) for module, page in (
        ("torch.nn.init", "nn.init.html"), ("torch.cuda", "cuda.html"), ("torch.backends", "backends.html"),
        ("torch.distributed", "distributed.html"), ("torch.random", "random.html"))),
    # -- what drops ---------------------------------------------------------------------------------------
    _api(_in("torch.nn.functional", "dropout dropout1d dropout2d dropout3d"), "input p training inplace",
         DropsElements("training"), returns=Result.OPERATOR, page="generated/torch.nn.functional.dropout.html"),
    # -- what joins ---------------------------------------------------------------------------------------
    _api(_in("torch", "cat concat concatenate stack hstack vstack"), "tensors dim", Keeps("tensors"),
         returns=Result.OPERATOR, page="generated/torch.cat.html"),
)  # fmt: skip

METHODS = (
    _api("Optimizer.zero_grad Module.zero_grad", "self set_to_none", Clears("self"), returns=Result.NOTHING,
         page="generated/torch.optim.Optimizer.zero_grad.html"),
    _api("Tensor.backward", f"self {_BACKWARD}", GoesBackward("self"), returns=Result.NOTHING,
         page="generated/torch.Tensor.backward.html"),
    _api("Accelerator.backward Fabric.backward DeepSpeedEngine.backward", "self loss|tensor", GoesBackward("loss"),
         returns=Result.NOTHING, page="https://huggingface.co/docs/accelerate/package_reference/accelerator"),
    _api("LightningModule.manual_backward", "self loss", GoesBackward("loss"), returns=Result.NOTHING,
         page="https://lightning.ai/docs/pytorch/stable/model/manual_optimization.html"),
    _api("Optimizer.step", "self closure", Steps("self"), returns=Result.NOTHING,
         page="generated/torch.optim.Optimizer.step.html"),
    _api("GradScaler.step", "self optimizer", Steps("optimizer"), returns=Result.NOTHING,
         page="amp.html#gradient-scaling"),
    _api("LightningModule.clip_gradients", "self optimizer gradient_clip_val gradient_clip_algorithm",
         Clips("optimizer", bound="gradient_clip_val"), returns=Result.NOTHING,
         page="https://lightning.ai/docs/pytorch/stable/model/manual_optimization.html"),
    _api("Fabric.clip_gradients", "self module optimizer clip_val|max_norm * norm_type error_if_nonfinite",
         Clips("optimizer", bound="clip_val"), page="https://lightning.ai/docs/fabric/stable/api/fabric_methods.html"),
    _api("Accelerator.clip_grad_norm_", "self parameters max_norm norm_type", Clips("parameters", bound="max_norm"),
         page="https://huggingface.co/docs/accelerate/package_reference/accelerator"),
    _api("Accelerator.clip_grad_value_", "self parameters clip_value", Clips("parameters", bound="clip_value"),
         page="https://huggingface.co/docs/accelerate/package_reference/accelerator"),
    _api("GradScaler.unscale_", "self optimizer", Unscales("optimizer"), returns=Result.NOTHING,
         page="amp.html#gradient-scaling"),
    _api("LRScheduler.step", "self epoch|metrics", AdjustsRates("self"), returns=Result.NOTHING,
         page="optim.html#how-to-adjust-learning-rate"),
    _api("GradScaler.scale", "self outputs", returns=Result.SCALED, page="amp.html#gradient-scaling"),
    _api("Accelerator.prepare Fabric.setup", "self", returns=Result.SAME_EACH,
         page="https://huggingface.co/docs/accelerate/package_reference/accelerator"),
    _api("Module.eval", "self", EvaluatesModule("self"), returns=Result.SAME, page="generated/torch.nn.Module.html"),
    _api("Module.train", "self mode", TrainsModule("self", "mode"), returns=Result.SAME,
         page="generated/torch.nn.Module.html"),
    _api(_in("Module", "register_forward_hook register_forward_pre_hook register_backward_hook "
                       "register_full_backward_hook register_full_backward_pre_hook"), "self hook",
         RegistersHook("hook"), returns=Result.OBJECT, page="generated/torch.nn.Module.html"),
    _api("list.append deque.append deque.appendleft", "self object", Keeps("object"), returns=Result.NOTHING,
         page="https://docs.python.org/3/tutorial/datastructures.html"),
    _api("list.insert", "self index object", Keeps("object"), returns=Result.NOTHING,
         page="https://docs.python.org/3/tutorial/datastructures.html"),
    _api("set.add", "self object", Keeps("object"), returns=Result.NOTHING,
         page="https://docs.python.org/3/library/stdtypes.html#set"),
    _api("dict.setdefault", "self key default", Keeps("default"),
         page="https://docs.python.org/3/library/stdtypes.html#dict.setdefault"),
    _api("list.extend deque.extend dict.update", "self iterable", Keeps("iterable"), returns=Result.NOTHING,
         page="https://docs.python.org/3/tutorial/datastructures.html"),
)  # fmt: skip


def function(name: str) -> Api | None:
    """The function or class with a qualified name."""
    return _BY_NAME.get(name)


@lru_cache(maxsize=4096)
def family(name: str) -> Api | None:
    """Facts common to all functions or classes of the module that contains a qualified name."""
    module, _, last = name.rpartition(".")
    while module:
        known = _BY_NAME.get(f"{module}.{_ANY}") or (last[:1].isupper() and _BY_NAME.get(f"{module}.{_CLASS}"))
        if known:
            return known
        module = module.rpartition(".")[0]
    return None


@lru_cache(maxsize=1024)
def operands(parameters: tuple[str, ...]) -> Parameters:
    """The parameters of an operator; the function and the method differ only in the name of the first."""
    return Parameters(*("self|input" if name == "self" else name for name in parameters))


def method(name: str) -> Api:
    """A method as `Class.method`."""
    return _METHODS_BY_NAME[name]


_BY_NAME = {name: entry for entry in FUNCTIONS for name in entry.names}
_METHODS_BY_NAME = {name: entry for entry in METHODS for name in entry.names}


def functions_with(*effects: type[Effect]) -> dict[str, Effect]:
    """The qualified names of functions that have one of these effects, each with the effect."""
    found = ((name, _of(entry, effects)) for entry in FUNCTIONS for name in entry.names)
    return {name: effect for name, effect in found if effect is not None}


def methods_with(*effects: type[Effect]) -> frozenset[str]:
    """The names of methods that have one of these effects: `step`, `zero_grad`."""
    return frozenset(name for entry in METHODS if _of(entry, effects) is not None for name in entry.last_names)


def last_names_with(*effects: type[Effect]) -> frozenset[str]:
    """The last names of calls with one of these effects: `step`, `optimizer_step`."""
    return methods_with(*effects) | {name.rpartition(".")[2] for name in functions_with(*effects)}


def _of(entry: Api, effects: tuple[type[Effect], ...]) -> Effect | None:
    return next((effect for effect in entry.effects if isinstance(effect, effects)), None)


CHECKPOINTS = frozenset({"torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential"})
"""Functions that run a block without keeping its activations, and run it again in the backward pass."""
ACTING_METHODS = methods_with(Clears, GoesBackward, Steps, EvaluatesModule, Unscales) | {"train", "update"}
"""Methods with an effect: naming one without a call does nothing."""
_AUTOCASTS = {f"torch.{module}autocast" for module in ("", "amp.", "amp.autocast_mode.", "cuda.amp.", "cpu.amp.")}
CONTEXTS = frozenset(
    name
    for name in functions_with(SwitchesGradMode, DetectsAnomaly).keys() | _AUTOCASTS
    if name.startswith("torch.") and not name.rpartition(".")[2].startswith(("set_", "_set"))
)
"""Classes of context managers, used by calling them: `with torch.no_grad():`."""


def words(*effects: type[Effect]) -> tuple[bytes, ...]:
    """Bytes that every file with a call of one of these effects contains: the shortest parts of its spelling."""
    having = (entry for entry in (*FUNCTIONS, *METHODS) if _of(entry, effects) is not None)
    return shortest(name for entry in having for name in _written(entry))


def words_for(result: Result) -> tuple[bytes, ...]:
    """Bytes that every file with a call of this result contains: for all names of a module, the module's name."""
    names = (name.removesuffix(f".{_ANY}") for entry in FUNCTIONS if entry.returns is result for name in entry.names)
    return shortest(name.rpartition(".")[2] for name in names)


def _written(entry: Api) -> Iterable[str]:
    """The name in a call's spelling; for an effect of a keyword, the keyword."""
    return entry.parameters.by_keyword or entry.last_names


def shortest(names: Iterable[str]) -> tuple[bytes, ...]:
    """The names that contain none of the others: a text with `manual_backward` contains `backward`."""
    known = set(names)
    found = (name for name in known if not any(other != name and other in name for other in known))
    return tuple(sorted(name.encode() for name in found))

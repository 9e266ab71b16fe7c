"""Settings of optimizers and schedules: the order of their parameters, and the meaning of each parameter."""

from __future__ import annotations

from enum import Enum

from torchlint.lazy_pattern import LazyPattern


class Role(Enum):
    """The meaning of a setting; the value is the noun for it."""

    RATE = "a learning rate"
    DECAY = "a weight decay"
    MOMENTUM = "a momentum"
    FACTOR = "a decay factor"
    MILESTONES = "milestones"
    WARM_UP = "a warm-up length"
    LENGTH = "a number of steps"


_LENGTH = r"(max|total|num|n|nb|train|training)_?(train(ing)?_?)?(steps|epochs?|iters|iterations)|epochs"
_NAMES = {
    Role.WARM_UP: LazyPattern(r"(?i)(\w+_)?warm_?up(_?(steps?|epochs?|iters?|iterations|length))?"),
    Role.RATE: LazyPattern(r"(?i)(init|initial|base|max|min|start|end|final|encoder|head)?_?(lr|learning_?rate)"),
    Role.DECAY: LazyPattern(r"(?i)weight_?decay|wd"),
    Role.MOMENTUM: LazyPattern(r"(?i)momentum"),
    Role.FACTOR: LazyPattern(r"(?i)(lr_)?gamma"),
    Role.MILESTONES: LazyPattern(r"(?i)(lr_)?milestones"),
    Role.LENGTH: LazyPattern(rf"(?i){_LENGTH}"),
}
"""Names that, as a whole, surely mean one setting."""

_OPTIMIZER = {"lr": Role.RATE, "weight_decay": Role.DECAY, "momentum": Role.MOMENTUM}
ROLES = {
    **_OPTIMIZER, "betas": Role.MOMENTUM, "max_lr": Role.RATE, "base_lr": Role.RATE, "eta_min": Role.RATE,
    "step_size": Role.LENGTH, "T_max": Role.LENGTH, "T_0": Role.LENGTH, "total_iters": Role.LENGTH,
    "total_steps": Role.LENGTH, "num_training_steps": Role.LENGTH, "num_warmup_steps": Role.WARM_UP,
    "milestones": Role.MILESTONES, "gamma": Role.FACTOR,
}  # fmt: skip
"""The parameters of optimizers and schedules with one meaning."""

_ADAM = ("params", "lr", "betas", "eps", "weight_decay")
_WARM_UP = ("optimizer", "num_warmup_steps", "num_training_steps")
_WITH_WARM_UP = ("linear", "cosine", "cosine_with_hard_restarts", "polynomial_decay")
ORDERS = {
    "torch.optim.SGD": ("params", "lr", "momentum", "dampening", "weight_decay"),
    "torch.optim.RMSprop": ("params", "lr", "alpha", "eps", "weight_decay", "momentum"),
    "torch.optim.Adagrad": ("params", "lr", "lr_decay", "weight_decay"),
    **{f"torch.optim.{name}": _ADAM for name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax")},
    **{f"torch.optim.lr_scheduler.{name}": order for name, order in {
        "StepLR": ("optimizer", "step_size", "gamma"),
        "MultiStepLR": ("optimizer", "milestones", "gamma"),
        "ExponentialLR": ("optimizer", "gamma"),
        "CosineAnnealingLR": ("optimizer", "T_max", "eta_min"),
        "CosineAnnealingWarmRestarts": ("optimizer", "T_0", "T_mult", "eta_min"),
        "OneCycleLR": ("optimizer", "max_lr", "total_steps", "epochs", "steps_per_epoch"),
        "LinearLR": ("optimizer", "start_factor", "end_factor", "total_iters"),
        "PolynomialLR": ("optimizer", "total_iters", "power"),
        "CyclicLR": ("optimizer", "base_lr", "max_lr", "step_size_up", "step_size_down"),
    }.items()},
    **{f"transformers.{module}get_{name}_schedule_with_warmup": _WARM_UP
       for module in ("", "optimization.") for name in _WITH_WARM_UP},
    **{f"{module}.get_scheduler": ("name", *_WARM_UP)
       for module in ("transformers", "transformers.optimization")},
}  # fmt: skip
"""The parameters of optimizers and schedules by position."""


def role_of_name(name: str) -> Role | None:
    """The setting that a name surely means."""
    return next((role for role, pattern in _NAMES.items() if pattern.fullmatch(name)), None)

"""Queries of rules about the interpreted program. Each module is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.lazy_import import submodules

if TYPE_CHECKING:
    from torchlint.model.queries import (
        attention,
        autograd_functions,
        byte_masks,
        changed_api,
        changed_arguments,
        clipping,
        collectives,
        dataset_draws,
        default_numbers,
        draws,
        endings,
        gradient_users,
        held_out,
        initial_weights,
        losses,
        masks,
        moved_modules,
        names,
        numbers,
        polarity,
        precision,
        repeated_hooks,
        saved_tensors,
        scalars,
        sequences,
        torch_classes,
        transforms,
        version_guards,
        written,
    )

__all__ = [
    "attention",
    "autograd_functions",
    "byte_masks",
    "changed_api",
    "changed_arguments",
    "clipping",
    "collectives",
    "dataset_draws",
    "default_numbers",
    "draws",
    "endings",
    "gradient_users",
    "held_out",
    "initial_weights",
    "losses",
    "masks",
    "moved_modules",
    "names",
    "numbers",
    "polarity",
    "precision",
    "repeated_hooks",
    "saved_tensors",
    "scalars",
    "sequences",
    "torch_classes",
    "transforms",
    "version_guards",
    "written",
]

if not TYPE_CHECKING:
    __getattr__ = submodules(__name__, __all__)

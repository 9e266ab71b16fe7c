"""Queries of rules about the interpreted program. Each module is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.lazy_import import submodules

if TYPE_CHECKING:
    from torchlint.model.queries import (
        attention,
        autograd_functions,
        batch_sums,
        byte_masks,
        changed_api,
        changed_arguments,
        choices,
        clipping,
        collectives,
        compared_operands,
        dataset_draws,
        default_numbers,
        draws,
        endings,
        gradient_users,
        held_out,
        initial_weights,
        lengths,
        loop_results,
        losses,
        masks,
        moved_modules,
        names,
        next_tokens,
        numbers,
        polarity,
        precision,
        repeated_hooks,
        saved_tensors,
        scalars,
        sequences,
        torch_classes,
        transforms,
        variables,
        version_guards,
        written,
    )

__all__ = [
    "attention",
    "autograd_functions",
    "batch_sums",
    "byte_masks",
    "changed_api",
    "changed_arguments",
    "choices",
    "clipping",
    "collectives",
    "compared_operands",
    "dataset_draws",
    "default_numbers",
    "draws",
    "endings",
    "gradient_users",
    "held_out",
    "initial_weights",
    "lengths",
    "loop_results",
    "losses",
    "masks",
    "moved_modules",
    "names",
    "next_tokens",
    "numbers",
    "polarity",
    "precision",
    "repeated_hooks",
    "saved_tensors",
    "scalars",
    "sequences",
    "torch_classes",
    "transforms",
    "variables",
    "version_guards",
    "written",
]

if not TYPE_CHECKING:
    __getattr__ = submodules(__name__, __all__)

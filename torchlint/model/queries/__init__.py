"""Questions about what was interpreted: what rules ask. Each module is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.lazy_import import submodules

if TYPE_CHECKING:
    from torchlint.model.queries import (
        autograd_functions,
        byte_masks,
        changed_api,
        clipping,
        endings,
        gradient_users,
        initial_weights,
        losses,
        masks,
        moved_modules,
        names,
        repeated_hooks,
        torch_classes,
        version_guards,
    )

__all__ = [
    "autograd_functions",
    "byte_masks",
    "changed_api",
    "clipping",
    "endings",
    "gradient_users",
    "initial_weights",
    "losses",
    "masks",
    "moved_modules",
    "names",
    "repeated_hooks",
    "torch_classes",
    "version_guards",
]

if not TYPE_CHECKING:
    __getattr__ = submodules(__name__, __all__)

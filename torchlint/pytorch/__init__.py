"""PyTorch's behavior as data, and common names of its objects; each module is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.lazy_import import submodules

if TYPE_CHECKING:
    from torchlint.pytorch import (
        api,
        autograd_table,
        changes,
        losses,
        naming,
        operators,
        packages,
        releases,
        table,
        triggers,
    )

__all__ = [
    "api",
    "autograd_table",
    "changes",
    "losses",
    "naming",
    "operators",
    "packages",
    "releases",
    "table",
    "triggers",
]

if not TYPE_CHECKING:
    __getattr__ = submodules(__name__, __all__)

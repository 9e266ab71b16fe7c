"""What PyTorch does, as data, and how people name its things; each module is imported when it is first used."""

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

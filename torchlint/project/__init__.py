"""The project's own statements: configuration, and which files belong to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.lazy_import import submodules

if TYPE_CHECKING:
    from torchlint.project import keys, kinds

__all__ = ["keys", "kinds"]

if not TYPE_CHECKING:  # a run without a configuration file needs neither
    __getattr__ = submodules(__name__, __all__)

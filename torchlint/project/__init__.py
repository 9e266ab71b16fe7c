"""What a project says of itself: configuration, and which files are its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.lazy_import import submodules

if TYPE_CHECKING:
    from torchlint.project import keys, kinds

__all__ = ["keys", "kinds"]

if not TYPE_CHECKING:  # a run without a configuration file needs neither
    __getattr__ = submodules(__name__, __all__)

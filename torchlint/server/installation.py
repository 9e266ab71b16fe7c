"""Whether the language server can run here, and what to install if it cannot."""

from __future__ import annotations

from importlib.util import find_spec

INSTALL = 'pip install "torchlint[lsp]"'
MISSING = f"the language server needs pygls: {INSTALL}"


def is_installed() -> bool:
    """Whether the extra `lsp` is there."""
    return find_spec("pygls") is not None

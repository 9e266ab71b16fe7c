"""Python and its two trees: the parser's own, and LibCST's for edits. Rules import their parts on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.lazy_import import submodules

if TYPE_CHECKING:
    from torchlint.syntax import edits, matching, python_ast, python_tree

__all__ = ["edits", "matching", "python_ast", "python_tree"]

if not TYPE_CHECKING:
    __getattr__ = submodules(__name__, __all__)

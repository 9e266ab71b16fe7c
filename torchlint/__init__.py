"""The public names of torchlint for authors of rules and for embedders, imported at their first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchlint import repairs
    from torchlint.engine.examination import lint
    from torchlint.engine.registry import Selection, select
    from torchlint.files.source import SourceFile
    from torchlint.finding import Category, Confidence, Edit, Finding, Fix, Position, Related, Safety, Severity, Span
    from torchlint.model import Model
    from torchlint.rule import Rule
    from torchlint.syntax import edits

    __version__: str

__all__ = [
    "Category",
    "Confidence",
    "Edit",
    "Finding",
    "Fix",
    "Model",
    "Position",
    "Related",
    "Rule",
    "Safety",
    "Selection",
    "Severity",
    "SourceFile",
    "Span",
    "__version__",
    "edits",
    "lint",
    "repairs",
    "select",
]

_MODULES = {"edits": "torchlint.syntax.edits", "repairs": "torchlint.repairs"}
_HOMES = {
    "engine.examination": ("lint",),
    "finding": tuple("Category Confidence Edit Finding Fix Position Related Safety Severity Span".split()),
    "model": ("Model",),
    "engine.registry": ("Selection", "select"),
    "rule": ("Rule",),
    "files.source": ("SourceFile",),
    "jupyter.magics": ("load_ipython_extension", "unload_ipython_extension"),
}

if not TYPE_CHECKING:  # a type checker takes the imports above, and refuses any other name

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name == "__version__":
            from importlib.metadata import version  # takes longer to import than all the rest

            return version("torchlint")
        if name in _MODULES:
            from torchlint.lazy_import import late

            return late(_MODULES[name])
        for module, names in _HOMES.items():
            if name in names:
                return getattr(import_module(f"torchlint.{module}"), name)
        raise AttributeError(f"module 'torchlint' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*globals(), *__all__]

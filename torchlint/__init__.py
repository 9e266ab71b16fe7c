"""What a rule author or an embedder needs of torchlint, each name imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchlint import edits, repairs, triage
    from torchlint.engine import lint
    from torchlint.finding import Category, Confidence, Edit, Finding, Fix, Position, Related, Safety, Severity, Span
    from torchlint.model import Model
    from torchlint.registry import Selection, select
    from torchlint.rule import Rule
    from torchlint.source import SourceFile

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
    "triage",
]

_HOMES = {
    "engine": ("lint",),
    "finding": tuple("Category Confidence Edit Finding Fix Position Related Safety Severity Span".split()),
    "model": ("Model",),
    "registry": ("Selection", "select"),
    "rule": ("Rule",),
    "source": ("SourceFile",),
}

if not TYPE_CHECKING:  # a type checker takes the imports above, and refuses any other name

    def __getattr__(name: str) -> object:
        from importlib import import_module, metadata

        if name == "__version__":
            return metadata.version("torchlint")
        if name in ("edits", "repairs", "triage"):
            from torchlint.late import late

            return late(f"torchlint.{name}")
        for module, names in _HOMES.items():
            if name in names:
                return getattr(import_module(f"torchlint.{module}"), name)
        raise AttributeError(f"module 'torchlint' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*globals(), *__all__]

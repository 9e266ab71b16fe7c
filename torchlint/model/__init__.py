"""What a module means to PyTorch: values, events, dataflow and queries, each imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchlint.model import dataflow, definitions, events, ownership, program, tracking, values
    from torchlint.model.model import Model

__all__ = ["Model", "dataflow", "definitions", "events", "ownership", "program", "tracking", "values"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "Model":
            from torchlint.model.model import Model

            return Model
        if name in __all__:
            from torchlint.lazy_import import late

            return late(f"torchlint.model.{name}")
        raise AttributeError(f"module 'torchlint.model' has no attribute {name!r}")

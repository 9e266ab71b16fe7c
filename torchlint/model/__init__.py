"""The meaning of a module for PyTorch: values, events, dataflow and queries, each imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.lazy_import import submodules

if TYPE_CHECKING:
    from torchlint.model import (
        dataflow,
        definitions,
        events,
        held_parameters,
        kinds,
        lineage,
        module_values,
        observations,
        ownership,
        program,
        tracking,
        utilities,
        values,
        whole_steps,
    )
    from torchlint.model.model import Model

__all__ = [
    "Model",
    "dataflow",
    "definitions",
    "events",
    "held_parameters",
    "kinds",
    "lineage",
    "module_values",
    "observations",
    "ownership",
    "program",
    "tracking",
    "utilities",
    "values",
    "whole_steps",
]

if not TYPE_CHECKING:
    _submodule = submodules(__name__, __all__)

    def __getattr__(name: str) -> object:
        if name != "Model":
            return _submodule(name)
        from torchlint.model.model import Model

        return Model

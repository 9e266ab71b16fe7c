"""Relations: questions about the whole program that several rules ask, each with its page in `docs/relations`.

A relation answers yes, no or unknown. Its method `answers` says in words what it answers and where: `torchlint trace`
prints these answers, and the programs of its page state them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.lazy_import import submodules

if TYPE_CHECKING:
    from torchlint.model.relations import (
        cadence,
        datasets,
        domain,
        gradients,
        held,
        layout,
        mode,
        module_states,
        provenance,
        terms,
    )

NAMES = ("cadence", "datasets", "domain", "gradients", "held", "layout", "mode", "module_states", "provenance", "terms")
"""The relations, each the name of a file here, of its page and of the property of `Model`."""

__all__ = [
    "NAMES",
    "cadence",
    "datasets",
    "domain",
    "gradients",
    "held",
    "layout",
    "mode",
    "module_states",
    "provenance",
    "terms",
]

if not TYPE_CHECKING:
    __getattr__ = submodules(__name__, __all__)

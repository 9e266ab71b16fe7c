"""Relations: questions about the whole program that several rules ask, each with its page in `docs/relations`.

A relation answers yes, no or unknown. Its method `answers` gives the answers in words, with their places.
`torchlint trace` prints these answers, and the programs on the relation's page state them.
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
"""The relations; each name is that of a file here, of its page and of the property of `Model`."""

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

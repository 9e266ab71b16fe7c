"""Provenance: the origin of modules and parameters, names for the same object, and replacements."""

from __future__ import annotations

from torchlint.model.relations.provenance.averages import AverageUpdate
from torchlint.model.relations.provenance.flags import FlagOfModule
from torchlint.model.relations.provenance.provenance import Provenance, itself
from torchlint.model.relations.provenance.rebound import Rebound
from torchlint.model.relations.provenance.replaced import Reassigned, Replacement, Replacements, Unheld, before

__all__ = [
    "AverageUpdate",
    "FlagOfModule",
    "Provenance",
    "Reassigned",
    "Rebound",
    "Replacement",
    "Replacements",
    "Unheld",
    "before",
    "itself",
]

"""Provenance: who makes modules and parameters, which names are one object, and what takes whose place."""

from __future__ import annotations

from torchlint.model.relations.provenance.provenance import Provenance, itself
from torchlint.model.relations.provenance.replaced import Reassigned, Replacement, Replacements, Unheld, before

__all__ = ["Provenance", "Reassigned", "Replacement", "Replacements", "Unheld", "before", "itself"]

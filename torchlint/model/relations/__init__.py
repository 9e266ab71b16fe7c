"""Relations: questions about the whole program that several rules ask, each with its page in `docs/relations`.

A relation answers yes, no or unknown. Its method `answers` says in words what it answers and where: `torchlint trace`
prints these answers, and the programs of its page state them.
"""

from __future__ import annotations

NAMES = ("gradients", "module_states", "terms")
"""The relations, each the name of a file here, of its page and of the property of `Model`."""

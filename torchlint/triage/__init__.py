"""Bytes -> whether a question about tensors is worth a parse: a coarse reading, long before the model's exact one.

LibCST reads 26,000 lines a second, and most files that change something in place change counters, lists and buffers. So
this looks at bytes first (is there anything that autograd could follow, and where is something changed in place?), and
reads only those functions, with Python's own parser, for what may have been saved before it is changed.

It must not say no where the model finds something: what it does not understand is a yes.
"""

from __future__ import annotations

from functools import lru_cache

from torchlint.triage.changes import Changes

__all__ = ["may_change_leaf", "may_change_saved_tensor"]


def may_change_saved_tensor(data: bytes) -> bool:
    """Whether a file may change a tensor in place that autograd has saved for backward."""
    return _changes(data).saved


def may_change_leaf(data: bytes) -> bool:
    """Whether a file may change a leaf in place that requires grad."""
    return _changes(data).leaf


@lru_cache(maxsize=1)
def _changes(data: bytes) -> Changes:
    return Changes.of(data)

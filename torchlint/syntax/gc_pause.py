"""When Python's garbage collector runs: it visits all that lives each time that much has been made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_COLLECT_EVERY = 100_000
"""Bytes of analyzed source between two collections; more of them save little time and cost memory."""
_ALL_EVERY = 16
"""One of so many collections is a full one."""
_waiting = 0
_collections = 0


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector; without it LibCST parses nearly twice as fast."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def collect_after(size: int) -> None:
    """Collect garbage once so many bytes of source have been analyzed, where the collector is paused.

    The first collection is the last to visit what lives then: modules, rules, tables, and a few parsed files.
    """
    global _waiting, _collections
    if gc.isenabled():
        return
    _waiting += size
    if _waiting >= _COLLECT_EVERY:
        _waiting = 0
        gc.collect(1 if _collections % _ALL_EVERY else 2)
        _collections += 1
        if not gc.get_freeze_count():
            gc.freeze()


def collect_new() -> None:
    """Collect the garbage of what was made since the last collection, where the collector is paused; at times all.

    Models are dropped soon after they are made: only a full collection visits what is kept from edit to edit.
    """
    global _collections
    gc.collect(0 if _collections % _ALL_EVERY else 2)
    _collections += 1

"""Which words stand in a file: each is looked for once, though many rules ask for the same."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


def holds(data: bytes, words: Iterable[bytes]) -> bool:
    """Whether one of some words is in a file."""
    found = _found_in(data)
    for word in words:
        is_there = found.get(word)
        if is_there is None:
            is_there = found[word] = word in data
        if is_there:
            return True
    return False


@lru_cache(maxsize=64)
def _found_in(data: bytes) -> dict[bytes, bool]:
    """The words searched so far in a file."""
    return {}

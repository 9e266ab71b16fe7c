"""Which words stand in a file. Many rules search for the same words, so each file is split into names only once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

from torchlint.lazy_pattern import LazyPattern

_NAME = LazyPattern(rb"\w+")


class Words:
    """The names of a file, and the words searched so far."""

    def __init__(self, data: bytes) -> None:
        self.names = frozenset(_NAME.findall(data))
        self._data = data
        self._text = b"\n".join(self.names)
        self._known: dict[bytes, bool] = {}
        self._groups: dict[tuple[bytes, ...], bool] = {}

    def hold(self, group: Sequence[bytes]) -> bool:
        """Whether the file contains one of some words, also as a part of a name."""
        group = tuple(group)
        answer = self._groups.get(group)
        if answer is None:
            answer = self._groups[group] = any(self._has(word) for word in group)
        return answer

    def _has(self, word: bytes) -> bool:
        is_there = self._known.get(word)
        if is_there is None:
            is_there = self._known[word] = self._search(word)
        return is_there

    def _search(self, word: bytes) -> bool:
        """Search the names first: they are a fraction of the file, and most words do not occur."""
        name = _longest_name(word)
        return name in self._text and (name == word or word in self._data)


class AnyName:
    """Some names, each of them on its own: `eig` does not stand in `eigenvalues`."""

    def __init__(self, words: Iterable[str]) -> None:
        self._names = frozenset(word.encode() for word in words)

    def search(self, data: bytes) -> bool:
        """Whether a file contains one of the names."""
        return not self._names.isdisjoint(words_of(data).names)


@lru_cache(maxsize=64)
def words_of(data: bytes) -> Words:
    """The words of a file."""
    return Words(data)


@cache
def _longest_name(word: bytes) -> bytes:
    """The longest part of a word that consists of letters, digits and underscores; empty if there is none."""
    return max(_NAME.findall(word), key=len, default=b"")

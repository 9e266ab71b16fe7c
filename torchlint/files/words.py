"""Which words are in a file. Many rules search for the same words, so each file is split into names only once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

from torchlint.lazy_pattern import LazyPattern

_NAME = LazyPattern(rb"\w+")
_MOST_RECENT = 64
_MOST_NAMES = 30_000
"""Names of which the vocabulary knows the words: a few megabytes."""


class Group:
    """Words of which a file needs one: names, as a set of bits, and words that are more than a name."""

    __slots__ = ("bits", "longer")

    def __init__(self, words: Sequence[bytes]) -> None:
        self.bits = 0
        self.longer: list[tuple[int, bytes]] = []
        """Words such as `.clamp(`, each with the bit of its longest name; 0 if it has none."""
        for word in words:
            name = _longest_name(word)
            bit = _vocabulary.bit_of(name) if name else 0
            if word == name:
                self.bits |= bit
            else:
                self.longer.append((bit, word))


class Vocabulary:
    """The names for which rules search, each with a bit. Files share most names: each name is searched once."""

    def __init__(self) -> None:
        self._bits: dict[bytes, int] = {}
        self._by_start: dict[bytes, list[tuple[bytes, int]]] = {}
        """The words with their bits, by their first two letters."""
        self._short: list[tuple[bytes, int]] = []
        """The words of one letter."""
        self._known: dict[bytes, int] = {}
        """The bits of the words in each name; empty after a new word."""

    def bit_of(self, word: bytes) -> int:
        """The bit of a word."""
        bit = self._bits.get(word)
        if bit is None:
            bit = self._bits[word] = 1 << len(self._bits)
            self._known.clear()
            same = self._by_start.setdefault(word[:2], []) if len(word) > 1 else self._short
            same.append((word, bit))
        return bit

    @property
    def size(self) -> int:
        return len(self._bits)

    def words_in(self, names: Iterable[bytes]) -> int:
        """The bits of all words that some names contain."""
        known, found = self._known, 0
        if len(known) > _MOST_NAMES:
            known.clear()
        for name in names:
            bits = known.get(name)
            if bits is None:
                bits = known[name] = self._search(name)
            found |= bits
        return found

    def _search(self, name: bytes) -> int:
        found, by_start = 0, self._by_start
        for start in range(len(name) - 1):
            for word, bit in by_start.get(name[start : start + 2], ()):
                if name.startswith(word, start):
                    found |= bit
        for word, bit in self._short:
            if word in name:
                found |= bit
        return found


class Words:
    """The names of a file, and the words that they contain."""

    def __init__(self, data: bytes, names: frozenset[bytes] | None = None) -> None:
        self.names = frozenset(_NAME.findall(data)) if names is None else names
        self._data = data
        self._bits = 0
        self._size = 0
        """The size of the vocabulary when the bits were computed."""
        self._longer: dict[bytes, bool] = {}

    def hold(self, words: Sequence[bytes]) -> bool:
        """Whether the file contains one of some words, also as a part of a name."""
        return self.hold_one(group_of(tuple(words)))

    def hold_one(self, group: Group) -> bool:
        """Whether the file contains one of the words of a group."""
        if self._size != _vocabulary.size:
            self._bits, self._size = _vocabulary.words_in(self.names), _vocabulary.size
        found = self._bits
        if found & group.bits or not group.longer:
            return bool(found & group.bits)
        return any((not bit or found & bit) and self._contains(word) for bit, word in group.longer)

    def _contains(self, word: bytes) -> bool:
        is_there = self._longer.get(word)
        if is_there is None:
            is_there = self._longer[word] = word in self._data
        return is_there


class AnyName:
    """Some names, each of them on its own: `eig` does not stand in `eigenvalues`."""

    def __init__(self, words: Iterable[str]) -> None:
        self._names = frozenset(word.encode() for word in words)

    def search(self, data: bytes) -> bool:
        """Whether a file contains one of the names."""
        return not self._names.isdisjoint(words_of(data).names)


def words_of(data: bytes) -> Words:
    """The words of a file; those of the last files are kept."""
    found = _recent.get(data)
    return _keep(data, Words(data)) if found is None else found


def note_names(data: bytes, names: frozenset[bytes]) -> None:
    """Use these names for a text: those of the same program in another spelling."""
    if data not in _recent:
        _keep(data, Words(data, names))


def _keep(data: bytes, words: Words) -> Words:
    if len(_recent) >= _MOST_RECENT:
        del _recent[next(iter(_recent))]
    _recent[data] = words
    return words


@lru_cache(maxsize=4096)
def group_of(words: tuple[bytes, ...]) -> Group:
    """The group of some words."""
    return Group(words)


@cache
def _longest_name(word: bytes) -> bytes:
    """The longest part of a word that consists of letters, digits and underscores; empty if there is none."""
    return max(_NAME.findall(word), key=len, default=b"")


_vocabulary = Vocabulary()
_recent: dict[bytes, Words] = {}

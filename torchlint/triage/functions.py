"""Where in a file something is changed in place: the functions around those places, found in bytes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property, lru_cache

from torchlint.operators import INPLACE

_DEF = re.compile(rb"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)", re.M)
_TARGET = re.compile(rb"[ \t]*[A-Za-z_][\w.]*[ \t]*(\[[^\n]*\])?[ \t]*[*/]?$")
_BINDING = re.compile(rb"^[ \t]*((?:self\.)?\w+)[ \t]*(?::[^=\n]+)?=(?!=)", re.M)
_KEY = re.compile(rb"\[[ \t]*[fr]?[\"']")
_NO_TENSOR = re.compile(rb"[ \t]*(?:[fr]?[\"'\[]|len\()")
_INPLACE = frozenset(name.encode() for name in INPLACE)


class Functions:
    """The functions of a file in which something may be changed in place, each with all that is nested in it."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def _starts(self) -> list[tuple[int, int, str]]:
        """Offset, indentation and name of every `def`."""
        return [(found.start(), len(found[1]), found[2].decode()) for found in _DEF.finditer(self.data)]

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(name for _, _, name in self._starts)

    def changing(self) -> Iterator[tuple[int, bytes]]:
        """Offset and text of each outermost function that changes something; the whole file if no function does."""
        end = -1
        for place in sorted(self._places()):
            if place >= end:
                start, end = self.around(place)
                yield start, self.data[start:end]

    def calling(self, name: bytes) -> Iterator[tuple[int, bytes]]:
        """Each outermost function that calls something of a name."""
        end = -1
        for place in finds(self.data, name + b"("):
            if place >= end and self.data[place - 4 : place] != b"def " and not self.data[place - 1 : place].isalnum():
                start, end = self.around(place)
                yield start, self.data[start:end]

    def around(self, place: int) -> tuple[int, int]:
        """Start and end of the outermost function around a place, or of the file."""
        indent = self._indent(place)
        found = None
        for index in range(bisect_left(self._starts, (place,)) - 1, -1, -1):
            start, own, _ = self._starts[index]
            if own < indent:
                end = self._end(start, own)
                if end > place:
                    found, indent = (start, end), own
                if not own:
                    break
        return found or (0, len(self.data))

    def named(self, name: str, within: tuple[int, int] | None = None) -> Iterator[bytes]:
        """The text of every function of a name, in the whole file or between two offsets."""
        low, high = within or (0, len(self.data))
        for start, indent, own in self._starts:
            if own == name and low <= start < high:
                yield self.data[start : self._end(start, indent)]

    def _indent(self, place: int) -> int:
        start = self.data.rfind(b"\n", 0, place) + 1
        line = self.data[start : place + 1]
        return len(line) - len(line.lstrip(b" \t"))

    def _end(self, start: int, indent: int) -> int:
        found = _outside(indent).search(self.data, self.data.find(b"\n", start) + 1)
        return found.start() if found else len(self.data)

    # -- places -----------------------------------------------------------------------------------------

    def _places(self) -> Iterator[int]:
        yield from self._augmented()
        yield from self._elements()
        yield from self._methods()
        yield from finds(self.data, b"out=")
        for place in finds(self.data, b"inplace="):
            yield from self._calls(place) if self._is_made(place) else [place]

    def _is_made(self, place: int) -> bool:
        """Whether `inplace=` is an argument of a module that an object keeps."""
        return b"self." in self._binding(place)

    def _calls(self, place: int) -> Iterator[int]:
        """Where that is called whose binding a place belongs to: a module that works in place."""
        name = self._binding(place).removeprefix(b"self.")
        if name:
            yield from finds(self.data, name + b"(")
            yield from finds(self.data, name + b"[")

    def _binding(self, place: int) -> bytes:
        """The name that the statement around a place binds: of several, the last before it."""
        found = [item[1] for item in _BINDING.finditer(self.data, self.around(place)[0], place)]
        return found[-1] if found else b""

    def _augmented(self) -> Iterator[int]:
        for operator in (b"+=", b"-=", b"*=", b"/=", b"@="):
            for place in finds(self.data, operator):
                start = self.data.rfind(b"\n", 0, place) + 1
                target = _TARGET.match(self.data, start, place)
                if target and not (target[1] and _KEY.match(target[1])) and not _NO_TENSOR.match(self.data, place + 2):
                    yield place

    def _elements(self) -> Iterator[int]:
        for text in (b"] =", b"]="):
            for place in finds(self.data, text):
                after = place + len(text)
                start = self.data.rfind(b"\n", 0, place) + 1
                if self.data[after : after + 1] != b"=":
                    target = _TARGET.match(self.data, start, place + 1)
                    if target and target[1] and not _KEY.match(target[1]):
                        yield place

    def _methods(self) -> Iterator[int]:
        for place in finds(self.data, b"_("):
            start = place
            while self.data[start - 1 : start].isalnum() or self.data[start - 1 : start] == b"_":
                start -= 1
            if self.data[start : place + 1] in _INPLACE and self.data[max(0, start - 5) : start] != b"init.":
                yield place


@lru_cache(maxsize=64)
def _outside(indent: int) -> re.Pattern[bytes]:
    """The start of a line that ends a block which is indented deeper than so many characters."""
    return re.compile(rb"^[ \t]{0,%d}[^\s#)\]}]" % indent, re.M)


def finds(data: bytes, text: bytes) -> Iterator[int]:
    """Where a text stands in bytes."""
    place = data.find(text)
    while place >= 0:
        yield place
        place = data.find(text, place + len(text))

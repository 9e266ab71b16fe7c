"""Glob patterns as Git reads them. The time to match is linear in the pattern: none makes a run hang."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

_SPECIAL = frozenset("*?[\\")


class _Invalid(Exception):
    """A pattern that matches nothing, such as one with an open bracket."""


@dataclass(frozen=True)
class _Class:
    """`[a-z]`: a character of some ranges, or with `negated` of none of them."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool

    def holds(self, char: str) -> bool:
        return any(low <= char <= high for low, high in self.ranges) is not self.negated


_Token = str | _Class | None
"""A character, a class of them, or None for any; the empty text is a star."""
_STAR = ""
_Piece = str | tuple[_Token, ...]
"""The text between two stars, a token for each character; a string if all are plain."""
_Segment = tuple[_Piece, ...]
"""The pattern of one name, cut at its stars."""
_Run = tuple[_Segment, ...]
"""The part between two `**`, a segment for each name."""
_Part = TypeVar("_Part", bound=Sized)


class Glob:
    """A pattern without the `!` before it and the slash behind it.

    With a slash in it, it is for a whole path, or else for a name.
    """

    _runs: tuple[_Run, ...] = ()
    _start = _end = _longest = ""
    """Texts without which no path matches, which is known at once."""

    def __init__(self, text: str) -> None:
        self.is_path = "/" in text
        text = text.removeprefix("/")
        self.literal = text if _SPECIAL.isdisjoint(text) else None
        """The one path or name that it matches, if there are no wildcards."""
        if self.literal is None:
            with suppress(_Invalid):
                self._runs = tuple(_runs(list(_tokens(text)), self.is_path))
                self._find_texts()

    def _find_texts(self) -> None:
        first, last = self._runs[0], self._runs[-1]
        self._start, self._end = _text(first[0][0]) if first else "", _text(last[-1][-1]) if last else ""
        self._longest = max((_text(piece) for run in self._runs for part in run for piece in part), key=len, default="")

    def matches(self, path: str) -> bool:
        """Whether it matches a path, or a name."""
        if not self._runs:
            return path == self.literal
        if not (path.startswith(self._start) and path.endswith(self._end) and self._longest in path):
            return False
        names = path.split("/")
        return _in_order(self._runs, len(names), lambda run, first: _run_fits(run, names, first))


def _in_order(parts: Sequence[_Part], total: int, fits: Callable[[_Part, int], bool]) -> bool:
    """Whether all parts fit somewhere in a row, the first at its start and the last at its end.

    Each is put as early as it fits, which leaves most room for the others, so that none is ever put elsewhere.
    """
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return len(first) == total and fits(first, 0)
    position, limit = len(first), total - len(last)
    if position > limit or not fits(first, 0) or not fits(last, limit):
        return False
    for part in parts[1:-1]:
        places = range(position, limit - len(part) + 1)
        place = next((place for place in places if fits(part, place)), None)
        if place is None:
            return False
        position = place + len(part)
    return True


def _run_fits(run: _Run, names: list[str], first: int) -> bool:
    return all(_segment_fits(segment, name) for segment, name in zip(run, names[first:], strict=False))


def _segment_fits(segment: _Segment, name: str) -> bool:
    return _in_order(segment, len(name), lambda piece, start: _piece_fits(piece, name, start))


def _piece_fits(piece: _Piece, name: str, start: int) -> bool:
    if isinstance(piece, str):
        return name.startswith(piece, start)
    return all(_token_fits(token, char) for token, char in zip(piece, name[start:], strict=False))


def _token_fits(token: _Token, char: str) -> bool:
    return token is None or (token == char if isinstance(token, str) else token.holds(char))


# -- reading ------------------------------------------------------------------------------------------------


def _runs(tokens: list[_Token], is_path: bool) -> Iterator[_Run]:
    """The tokens cut at `**`. A last `**` stands for one name at least."""
    segments = list(_cut(tokens, "/"))
    run: list[_Segment] = []
    for number, segment in enumerate(segments, 1):
        if is_path and len(segment) > 1 and all(token == _STAR for token in segment):
            yield tuple(run)
            run = [("", "")] if number == len(segments) else []
        else:
            run.append(_segment(segment))
    yield tuple(run)


def _segment(tokens: list[_Token]) -> _Segment:
    pieces = [_piece(piece) for piece in _cut(tokens, _STAR)]
    return (pieces[0], *(piece for piece in pieces[1:-1] if piece), *pieces[1:][-1:])


def _piece(tokens: list[_Token]) -> _Piece:
    plain = [token for token in tokens if isinstance(token, str)]
    return "".join(plain) if len(plain) == len(tokens) else tuple(tokens)


def _text(piece: _Piece) -> str:
    return piece if isinstance(piece, str) else ""


def _cut(tokens: list[_Token], separator: str) -> Iterator[list[_Token]]:
    part: list[_Token] = []
    for token in tokens:
        if token == separator:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        char = text[position]
        if char == "[":
            found, position = _class(text, position + 1)
            yield found
        elif char == "\\":
            position += 1
            yield _char(text, position)
        else:
            yield {"*": _STAR, "?": None}.get(char, char)
        position += 1


def _class(text: str, position: int) -> tuple[_Class, int]:
    """The class whose members begin at `position`, and where its closing bracket stands; raises `_Invalid`.

    A closing bracket that comes first is a member.
    """
    negated = text[position : position + 1] in ("!", "^")
    position += negated
    ranges: list[tuple[str, str]] = []
    first, end_of_range = position, -1
    while _char(text, position) != "]" or position == first:
        low = text[position]
        if low == "-" and ranges and position != end_of_range and text[position + 1 : position + 2] not in ("", "]"):
            high, position = _member(text, position + 1)
            ranges.append((ranges[-1][0], high))
            end_of_range = position + 1
        elif name := _named(text, position):
            ranges += [(char, char) for char in _characters()[name]]
            position += len(name) + 3
            end_of_range = position + 1
        else:
            low, position = _member(text, position)
            ranges.append((low, low))
        position += 1
    return _Class(tuple(ranges), negated), position


def _member(text: str, position: int) -> tuple[str, int]:
    """A member of a class, which a backslash may stand before, and where it ends."""
    position += text[position] == "\\"
    return _char(text, position), position


def _named(text: str, position: int) -> str:
    """The name in `[:alpha:]`; empty if there is none. Raises `_Invalid` for a name that is not known."""
    if not text.startswith("[:", position):
        return ""
    name, colon, rest = text[position + 2 : position + 10].partition(":")
    if not colon or not rest.startswith("]"):
        return ""
    if name not in _characters():
        raise _Invalid
    return name


def _char(text: str, position: int) -> str:
    if position >= len(text):
        raise _Invalid
    return text[position]


@cache
def _characters() -> dict[str, str]:
    """The characters of classes such as `[:alnum:]`."""
    import string  # compiles a pattern; few globs name a class

    return {
        "alnum": string.ascii_letters + string.digits,
        "alpha": string.ascii_letters,
        "blank": " \t",
        "cntrl": "".join(map(chr, (*range(32), 127))),
        "digit": string.digits,
        "graph": string.ascii_letters + string.digits + string.punctuation,
        "lower": string.ascii_lowercase,
        "print": string.ascii_letters + string.digits + string.punctuation + " ",
        "punct": string.punctuation,
        "space": string.whitespace,
        "upper": string.ascii_uppercase,
        "xdigit": string.hexdigits,
    }

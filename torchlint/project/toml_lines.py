"""Facts that the standard library's TOML parser does not report: the line of a key, and absurdly long keys."""

from __future__ import annotations

import re

from torchlint.lazy_pattern import LazyPattern

MAX_PARTS = 100
"""Dotted parts of a key."""

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = LazyPattern(rf"\s*\[\[?\s*({_DOTTED})\s*\]")
_KEY = LazyPattern(rf"\s*({_DOTTED})\s*=")
_LINK = LazyPattern(rf"(?<![\w-]){_PART}[ \t]*\.[ \t]*")
_PLACE = LazyPattern(r"\(?at line (\d+), column \d+\)?|\(at end of document\)")


def line_of(text: str, key: tuple[str, ...]) -> int:
    """The line (from 1) on which `key` is set, or else that of the nearest table around it; 1 if none is."""
    best, best_line = 0, 1
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            path = table = _parts(header[1])
        elif assignment := _KEY.match(line):
            path = (*table, *_parts(assignment[1]))
        else:
            continue
        if key[: len(path)] == path and len(path) > best:
            best, best_line = len(path), number
    return best_line


def line_of_long_key(text: str) -> int:
    """The line of a key of more than `MAX_PARTS` parts, for which the parser needs the square of their number; or 0."""
    length, end = 0, -1
    for link in _LINK.finditer(text):
        length = length + 1 if link.start() == end else 1
        end = link.end()
        if length >= MAX_PARTS:
            return text.count("\n", 0, end) + 1
    return 0


def line_of_error(error: Exception, text: str) -> int:
    """The line of a syntax error, which the parser hides in its message."""
    match = _PLACE.search(str(error))
    if match is None:
        return 1
    return int(match[1]) if match[1] else len(text.splitlines())


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))

"""Where a key stands in a TOML file, which the parser of the standard library does not say."""

from __future__ import annotations

import re

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
_PLACE = re.compile(r"\(?at line (\d+), column \d+\)?|\(at end of document\)")


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


def line_of_error(error: Exception, text: str) -> int:
    """The line of a syntax error, which the parser hides in its message."""
    match = _PLACE.search(str(error))
    if match is None:
        return 1
    return int(match[1]) if match[1] else len(text.splitlines())


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))

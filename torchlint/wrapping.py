"""Wrap text for a terminal."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator

_ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")
_VERBATIM = re.compile(r"\s*(?:$|#|\||```)")
"""The start of a line that belongs to no paragraph."""
_FENCE = re.compile(r"\s*```")


def terminal_width() -> int | None:
    """The columns of the terminal; None if standard output is a file or a pipe, where lines stay as they are."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """The lines of a Markdown text with its paragraphs and list items wrapped; code and tables stay."""
    lines = list(lines)
    if width is None or all(len(line) <= width for line in lines):
        yield from lines
        return
    paragraph: list[str] = []
    in_code = False
    for line in lines:
        is_fence = bool(_FENCE.match(line))
        if in_code or _VERBATIM.match(line) or _ITEM.match(line):
            yield from _filled(paragraph, width)
            paragraph = []
        if in_code or _VERBATIM.match(line):
            yield line
        else:
            paragraph.append(line)
        in_code ^= is_fence
    yield from _filled(paragraph, width)


def _filled(paragraph: list[str], width: int) -> list[str]:
    if not paragraph:
        return []
    item = _ITEM.match(paragraph[0])
    indent = " " * (item.end() if item else len(paragraph[0]) - len(paragraph[0].lstrip()))
    first = item[0] if item else indent
    text = " ".join([paragraph[0][len(first) :], *(line.strip() for line in paragraph[1:])])
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )

"""Text as lines: offsets to positions and back, and edits that leave the rest as it is."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property

from torchlint.finding import Edit, Position
from torchlint.lazy_pattern import LazyPattern

# Strings come first, so that a `#` inside of one starts no comment. A string that is never closed ends
# with its line, a triple-quoted one with the file. Unlike `tokenize` this never gives up on broken code.
_COMMENT = LazyPattern(
    r'''
      """[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:"""|\\?\Z)
    | \'\'\'[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:\'\'\'|\\?\Z)
    | "(?:[^"\\\r\n]|\\(?:\r\n|.))*"?
    | '(?:[^'\\\r\n]|\\(?:\r\n|.))*'?
    | (?P<comment>\#[^\r\n]*)
    ''',
    re.VERBOSE | re.DOTALL,
)


def comments(text: str) -> Iterator[re.Match[str]]:
    """The comments of a program, or of a piece of one that starts outside of strings; each is the group `comment`."""
    return (found for found in _COMMENT.finditer(text) if found["comment"] is not None)


def blank_literals(text: str) -> str:
    """The program with nothing in its comments, and only quotes in its strings; all else is where it was."""
    return _COMMENT.sub(_blank, text)


def _blank(literal: re.Match[str]) -> str:
    return re.sub(r"[^\r\n]", " " if literal["comment"] else literal[0][0], literal[0])


class Text:
    """A text with newlines as they are, split where Python splits it: at LF, CRLF and CR."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def starts(self) -> list[int]:
        """The offset at which each line starts."""
        text = self.text
        starts = [0]
        position = 0
        if "\r" not in text:
            while (position := text.find("\n", position)) >= 0:
                position += 1
                starts.append(position)
            return starts
        length = len(text)
        while position < length:
            char = text[position]
            position += 1
            if char == "\r" and text.startswith("\n", position):
                position += 1
            if char in "\r\n":
                starts.append(position)
        return starts

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their newlines."""
        ends = [*self.starts[1:], len(self.text)]
        return [self.text[start:end].rstrip("\r\n") for start, end in zip(self.starts, ends, strict=True)]

    @cached_property
    def newline(self) -> str:
        """The newline that ends the first line; LF if there is none."""
        if len(self.starts) == 1:
            return "\n"
        return self.text[len(self.lines[0]) : self.starts[1]]

    def line(self, number: int) -> str:
        """Line `number` (from 1) without its newline; empty beyond the end."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def position(self, offset: int) -> Position:
        """The position of an offset into the text."""
        line = bisect_right(self.starts, offset)
        return Position(line, offset - self.starts[line - 1])

    def offset(self, position: Position) -> int:
        """The offset of a position; the end of the text for one beyond it."""
        if position.line > len(self.starts):
            return len(self.text)
        return min(self.starts[position.line - 1] + position.column, len(self.text))

    def edited(self, edits: Iterable[Edit]) -> str:
        """The text with edits made, none of which overlap; insertions at one place keep their order."""
        parts, done = [], 0
        for edit in sorted(edits, key=lambda edit: edit.span):
            start, end = self.offset(edit.span.start), self.offset(edit.span.end)
            assert start >= done, "edits overlap"
            parts += [self.text[done:start], edit.content]
            done = end
        return "".join([*parts, self.text[done:]])

"""A source file: bytes decoded as Python would, lines, and code point to UTF-16 columns."""

from __future__ import annotations

import codecs
import io
import tokenize
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torchlint.finding import Position

MAX_BYTES = 10_000_000
"""A larger file is generated data, not code that someone trains with; it is named and left out."""

_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class SourceError(Exception):
    """A file that cannot be read as Python source, and where: the message is for the user."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True)
class SourceFile:
    """One file of Python source. `path` is shown to the user as it was given; `data` is what is on disk."""

    path: str
    data: bytes

    @classmethod
    def read(cls, path: Path, shown: str | None = None) -> SourceFile:
        """Read a file; raises `SourceError` when it is too large, `OSError` when it cannot be read."""
        if not path.is_file():
            path.stat()  # a dangling or looping link: the system's own error
            raise SourceError("not a regular file")
        _check_size(path.stat().st_size)
        return cls(shown if shown is not None else str(path), path.read_bytes())

    @cached_property
    def encoding(self) -> str:
        """The encoding by BOM and PEP 263; raises `SourceError` on an unknown or contradictory one."""
        if self.data.startswith(_UTF16_BOMS):
            raise SourceError("file is UTF-16 or UTF-32, which Python does not read as source")
        try:
            return tokenize.detect_encoding(io.BytesIO(self.data).readline)[0]
        except SyntaxError as error:
            raise SourceError(str(error)) from None

    @cached_property
    def text(self) -> str:
        """The text without a BOM, newlines as they are; raises `SourceError`."""
        _check_size(len(self.data))
        nul = self.data.find(b"\0")
        encoding = self.encoding
        if nul >= 0:
            raise SourceError("source contains NUL bytes", self.data.count(b"\n", 0, nul) + 1)
        try:
            text = self.data.decode(encoding)
            if not encoding.startswith("utf-8"):
                text.encode()  # fails on lone surrogates, of which no source is made
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            raise SourceError(f"cannot decode as {encoding}: {error.reason}", line) from None
        except (LookupError, UnicodeError):
            raise SourceError(f"encoding {encoding} is not a text encoding") from None
        return text

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their newlines, split where Python splits them."""
        return [self.text[start:end].rstrip("\r\n") for start, end in zip(self._starts, self._ends, strict=True)]

    @cached_property
    def _starts(self) -> list[int]:
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

    @property
    def _ends(self) -> list[int]:
        return [*self._starts[1:], len(self.text)]

    def position(self, offset: int) -> Position:
        """The position of an offset into `text`."""
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1])

    def line(self, number: int) -> str:
        """Line `number` (from 1) without its newline; empty beyond the end."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def utf16_column(self, position: Position) -> int:
        """The column in UTF-16 code units, as the Language Server Protocol counts."""
        return len(self.line(position.line)[: position.column].encode("utf-16-le", "surrogatepass")) // 2


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise SourceError(f"file of {size:,} bytes is larger than the limit of {MAX_BYTES:,}")

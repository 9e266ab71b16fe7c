"""A source file: bytes decoded as Python would, lines, code point to UTF-16 columns, cells, and edits."""

from __future__ import annotations

import codecs
import errno
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.files import regular
from torchlint.files.ipython import SUFFIX as NOTEBOOK_SUFFIX
from torchlint.files.lines import Text
from torchlint.finding import Edit, Position, Span

if TYPE_CHECKING:
    from torchlint.files.notebook import Cell, Notebook

MAX_BYTES = 10_000_000
"""A larger file is generated data, not code that someone trains with; it is named and left out."""
MAX_NOTEBOOK_BYTES = 100_000_000
"""The same for a notebook, which is made of its outputs for the most part."""

_LIMITS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENAMETOOLONG))
"""Error numbers of the system's own limits."""
_BOM = "\ufeff"
_FOR_DOMAINS = ("punycode", "idna")
"""Encodings that take the square of the length to decode."""
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class SourceError(Exception):
    """A file that cannot be read as Python source, and where: the message is for the user."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True)
class Unread:
    """Why a file or folder was not read, and whether that is due to the machine, and would go on another one."""

    reason: str
    is_of_machine: bool = False

    @classmethod
    def because_of(cls, error: OSError, what: str = "") -> Unread:
        """`what` says what could not be done."""
        return cls(f"{what}{error.strerror or error}", error.errno in _LIMITS)


class SyntaxProblem(Exception):
    """The text is no Python, with the position where the parser gave up."""

    def __init__(self, message: str, position: Position) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class NewerSyntax(SyntaxProblem):
    """The text is valid in a later Python than the one that runs."""


@dataclass(frozen=True)
class Place:
    """Where a reader finds a position: in a notebook the line counts in its cell (which counts from 1)."""

    line: int
    column: int
    cell: int | None = None

    @property
    def shown_line(self) -> str:
        """`4`; in a notebook `cell 3:4`."""
        return str(self.line) if self.cell is None else f"cell {self.cell}:{self.line}"


@dataclass(frozen=True)
class SourceFile:
    """One file of Python source. `path` is shown to the user as it was given; `data` is what is on disk.

    Of a notebook the text is the program that its code cells make, one after the other, without those whose
    numbers are in `skipped`; positions are places in that program.
    """

    path: str
    data: bytes
    skipped: frozenset[int] = frozenset()
    known_encoding: str = ""
    """The encoding if it is known from elsewhere, whatever a comment in the file says."""

    @classmethod
    def read(cls, path: Path, shown: str | None = None) -> SourceFile:
        """Read a file; raises `OSError` when it cannot be read, or is too large."""
        return cls(shown if shown is not None else str(path), regular.read(path, _limit(str(path))))

    @classmethod
    def of_text(cls, path: str, text: str) -> SourceFile:
        """Text that need not be on disk, as an editor has it; a coding comment in it means nothing."""
        encoding = "utf-8-sig" if text.startswith(_BOM) else "utf-8"
        return cls(path, text.encode("utf-8", "surrogatepass"), known_encoding=encoding)

    @property
    def is_notebook(self) -> bool:
        return self.path.endswith(NOTEBOOK_SUFFIX)

    @cached_property
    def encoding(self) -> str:
        """The encoding by BOM and PEP 263; raises `SourceError` on an unknown or contradictory one."""
        if self.known_encoding:
            return self.known_encoding
        if self.data.startswith(_UTF16_BOMS):
            raise SourceError("file is UTF-16 or UTF-32, which Python does not read as source")
        if self.is_notebook:
            return "utf-8-sig" if self.data.startswith(codecs.BOM_UTF8) else "utf-8"
        try:
            encoding = tokenize.detect_encoding(io.BytesIO(self.data).readline)[0]
        except SyntaxError as error:
            raise SourceError(str(error)) from None
        if codecs.lookup(encoding).name in _FOR_DOMAINS:
            raise SourceError(f"encoding {encoding} is for the names of domains")
        return encoding

    @cached_property
    def _decoded(self) -> str:
        _check_size(len(self.data), self.path)
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
    def notebook(self) -> Notebook | None:
        """The notebook, if it is one; raises `SourceError` when it is broken."""
        if not self.is_notebook:
            return None
        from torchlint.files.notebook import Notebook, NotebookError

        try:
            return Notebook(self._decoded)
        except NotebookError as error:
            raise SourceError(error.message, error.line) from None

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The code cells of a notebook; none of a file that is not one. Raises `SourceError`."""
        if self.notebook is None:
            return ()
        from torchlint.files.notebook import NotebookError

        try:
            return self.notebook.cells
        except NotebookError as error:
            raise SourceError(error.message, error.line) from None

    @cached_property
    def text(self) -> str:
        """The program without a BOM, newlines as they are; raises `SourceError`."""
        if self.notebook is None:
            return self._decoded
        text = "".join(_blank(cell) if cell.number in self.skipped else cell.program for cell in self.cells)
        _check_size(len(text), "")
        return text

    @cached_property
    def code(self) -> bytes:
        """The program as bytes that ASCII can be looked for in; raises `SourceError` for a broken notebook."""
        return self.data if not self.is_notebook else self.text.encode()

    @cached_property
    def _program(self) -> Text:
        return Text(self.text)

    @cached_property
    def _written(self) -> Text:
        """The program as its author wrote it: with the magics of a notebook."""
        if self.notebook is None:
            return self._program
        return Text("".join(cell.written for cell in self.cells))

    @cached_property
    def _first_lines(self) -> list[int]:
        """The line of the program at which each cell starts, and the one after the last."""
        return list(accumulate((len(Text(cell.written).starts) - 1 for cell in self.cells), initial=1))

    @property
    def lines(self) -> list[str]:
        """The lines as written, without their newlines."""
        return self._written.lines

    @property
    def program_lines(self) -> list[str]:
        """The lines of `text`, without their newlines."""
        return self._program.lines

    @property
    def newline(self) -> str:
        """The line ending."""
        return self._program.newline

    def position(self, offset: int) -> Position:
        """The position of an offset into `text`."""
        return self._program.position(offset)

    def offset(self, position: Position) -> int:
        """The offset into `text` of a position."""
        return self._program.offset(position)

    def line(self, number: int) -> str:
        """Line `number` (from 1) as written, without its newline; empty beyond the end."""
        return self._written.line(number)

    def utf16_column(self, position: Position) -> int:
        """The column in UTF-16 code units, as the Language Server Protocol counts."""
        return len(self.line(position.line)[: position.column].encode("utf-16-le", "surrogatepass")) // 2

    def utf16_span(self, span: Span) -> Span:
        """A span with columns in UTF-16 code units."""
        start, end = (Position(place.line, self.utf16_column(place)) for place in (span.start, span.end))
        return Span(start, end)

    # -- notebooks --------------------------------------------------------------------------------------

    def cell(self, line: int) -> Cell | None:
        """The cell in which a line of the program stands; None in a file that is no notebook, or has none."""
        try:
            if not self.cells:
                return None
        except SourceError:
            return None
        return self.cells[min(bisect_right(self._first_lines, line), len(self.cells)) - 1]

    def place(self, position: Position) -> Place:
        """Where a reader finds a position."""
        cell = self.cell(position.line)
        if cell is None:
            return Place(position.line, position.column)
        return Place(position.line - self.first_line(cell) + 1, position.column, cell.number)

    def places(self, span: Span) -> tuple[Place, Place]:
        """Where a reader finds a span: in the cell in which it starts, and with which it ends."""
        cell = self.cell(span.start.line)
        if cell is None:
            return self.place(span.start), self.place(span.end)
        before = self.first_line(cell) - 1
        end = min(span.end, Position(self._first_lines[self._places_of_cells[cell.number] + 1], 0))
        return self.place(span.start), Place(end.line - before, end.column, cell.number)

    @cached_property
    def _places_of_cells(self) -> dict[int, int]:
        """Which of the code cells each is, by its number."""
        return {cell.number: place for place, cell in enumerate(self.cells)}

    def first_line(self, cell: Cell) -> int:
        """The line of the program at which a cell starts."""
        return self._first_lines[self._places_of_cells[cell.number]]

    def file_line(self, line: int) -> int:
        """The line of the file, which for a notebook is JSON, that holds a line of the program."""
        cell = self.cell(line)
        if cell is None or self.notebook is None:
            return line
        return self.notebook.line(cell.number, line - self.first_line(cell) + 1)

    # -- edits ------------------------------------------------------------------------------------------

    def edited(self, edits: Iterable[Edit]) -> SourceFile:
        """The file with edits made, which must not overlap; not a byte changes elsewhere.

        Raises `SourceError` if that cannot be: the encoding does not survive, or an edit is about two cells.
        """
        text = self._decoded
        if text.encode(self.encoding) != self.data:
            raise SourceError(f"text in {self.encoding} cannot be written back as it was")
        changed = self._program.edited(edits) if self.notebook is None else self._edited_cells(self.notebook, edits)
        try:
            return replace(self, data=changed.encode(self.encoding))
        except UnicodeEncodeError:
            raise SourceError(f"the edited text cannot be written in {self.encoding}") from None

    def _edited_cells(self, notebook: Notebook, edits: Iterable[Edit]) -> str:
        by_cell: dict[Cell, list[Edit]] = {}
        for edit in edits:
            cell = self.cell(edit.span.start.line)
            assert cell is not None, "a place in a notebook is in a cell"
            by_cell.setdefault(cell, []).append(self._inside(cell, edit))
        return notebook.replaced({cell.number: _edited_cell(cell.text, inside) for cell, inside in by_cell.items()})

    def _inside(self, cell: Cell, edit: Edit) -> Edit:
        """An edit with the lines of its cell."""
        before = self.first_line(cell) - 1
        start, end = edit.span.start, edit.span.end
        if self.cell(end.line) is not cell and end.column:
            raise SourceError("an edit would join two cells")
        inside = Span(Position(start.line - before, start.column), Position(end.line - before, end.column))
        return Edit(inside, edit.content)


def _edited_cell(text: str, edits: Iterable[Edit]) -> str:
    """The text of a cell with edits made; its last line ends with a newline only if it did."""
    edited = Text(text).edited(edits)
    return edited if text.endswith("\n") else edited.removesuffix("\n")


def _blank(cell: Cell) -> str:
    """As many empty lines as the cell has."""
    return re.sub(r"[^\r\n]", "", cell.written)


def _check_size(size: int, path: str) -> None:
    if size > _limit(path):
        raise SourceError(f"file of {size:,} bytes is larger than the limit of {_limit(path):,}")


def _limit(path: str) -> int:
    return MAX_NOTEBOOK_BYTES if path.endswith(NOTEBOOK_SUFFIX) else MAX_BYTES

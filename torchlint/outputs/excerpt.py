"""Lines of source with places underlined, straight under tabs, wide characters and what has no width."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from torchlint.colours import Paint
from torchlint.files.source import Place, SourceError, SourceFile
from torchlint.finding import Position, Span
from torchlint.outputs.escaping import without_commands

_WIDTH = 100
"""Columns of source that are shown of a long line."""
_FAR = 1_000
"""Characters around a place, of which some are shown."""
_BEFORE = 30
"""Columns shown before a place that is far to the right."""
_TAB = 4
_JOINERS = "\u200c\u200d"


@dataclass(frozen=True)
class Note:
    """A place to underline, with what is said of it."""

    span: Span
    message: str
    mark: str
    role: str


def excerpt(source: SourceFile, notes: Iterable[Note], paint: Paint) -> list[str]:
    """The lines on which the notes stand, in order, each with its notes; empty if nothing is shown."""
    by_line: dict[int, list[Note]] = {}
    for note in sorted(notes, key=lambda note: note.span):
        by_line.setdefault(note.span.start.line, []).append(note)
    places = {number: source.place(Position(number, 0)) for number in by_line if _text(source, number)}
    gutter = max((len(str(place.line)) for place in places.values()), default=0)
    margin = f"{'':>{gutter}} |"
    several_cells = len({place.cell for place in places.values()}) > 1
    shown: list[str] = []
    previous: Place | None = None
    for number, place in places.items():
        if previous is None or place.cell != previous.cell:
            shown.append(paint(f"{margin} cell {place.cell}" if several_cells else margin, "dim"))
        elif place.line > previous.line + 1:
            shown.append(paint("...", "dim"))
        previous = place
        line = _Line(_text(source, number), by_line[number][0].span.start.column)
        shown.append(f"{paint(f'{place.line:>{gutter}} |', 'dim')} {line.shown}".rstrip())
        shown += [f"{paint(margin, 'dim')} {under}" for under in _underlined(line, by_line[number], paint)]
    return shown


def _text(source: SourceFile, number: int) -> str:
    try:
        return source.line(number)
    except SourceError:
        return ""


def _underlined(line: _Line, notes: Iterable[Note], paint: Paint) -> Iterator[str]:
    for note in notes:
        one_line = note.span.end.line == note.span.start.line
        start, end = line.columns(note.span.start.column, note.span.end.column if one_line else None)
        message = f" {note.message}" if note.message else ""
        yield " " * start + paint(note.mark * (end - start) + message, note.role)


class _Line:
    """A line as it is displayed, cut to a window around a place."""

    def __init__(self, text: str, focus: int) -> None:
        self._skipped = max(0, focus - _FAR)
        """The number of characters after which a very long line is cut."""
        is_cut = len(text) > focus + _FAR
        text = without_commands(text[self._skipped : focus + _FAR].rstrip())
        focus -= self._skipped
        cells = display_cells(text)
        self._starts = list(accumulate((width for _, width in cells), initial=0))
        self._first, self._last = 0, len(cells)
        if self._starts[-1] > _WIDTH:
            self._cut(min(focus, len(cells)))
        before = "…" if self._skipped or self._first else ""
        after = "…" if self._last < len(cells) or is_cut else ""
        self._shift = len(before) - self._starts[self._first]
        self.shown = before + "".join(cell for cell, _ in cells[self._first : self._last]) + after

    def _cut(self, focus: int) -> None:
        if self._starts[focus] > _WIDTH - _BEFORE:
            left = min(self._starts[focus] - _BEFORE, self._starts[-1] - _WIDTH)
            self._first = next(index for index, start in enumerate(self._starts) if start >= left)
        limit = self._starts[self._first] + _WIDTH
        self._last = max(index for index, start in enumerate(self._starts) if start <= limit)

    def columns(self, start: int, end: int | None) -> tuple[int, int]:
        """Where a range of the text is displayed, at least one column wide; no `end`: to its end."""
        first = min(max(start - self._skipped, self._first), self._last)
        last = min(max(self._last if end is None else end - self._skipped, first), self._last)
        left, right = self._starts[first] + self._shift, self._starts[last] + self._shift
        return left, max(right, left + 1)


def display_cells(text: str) -> list[tuple[str, int]]:
    """The displayed form of each character, and its width in columns."""
    cells = []
    column = 0
    for char in text:
        cell, width = _cell(char, column)
        cells.append((cell, width))
        column += width
    return cells


def _cell(char: str, column: int) -> tuple[str, int]:
    if char.isascii() and char.isprintable():
        return char, 1
    if char == "\t":
        width = _TAB - column % _TAB
        return " " * width, width
    category = unicodedata.category(char)
    if category in ("Mn", "Me") or char in _JOINERS:
        return char, 0
    if category.startswith("C"):
        return "\N{REPLACEMENT CHARACTER}", 1
    return char, 2 if unicodedata.east_asian_width(char) in "WF" else 1

"""Lines in columns: where, what happens in which source, and what is said of it, cut and wrapped to a width."""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from torchlint.colours import Paint
from torchlint.files.source import Place
from torchlint.outputs.escaping import without_commands
from torchlint.outputs.excerpt import display_cells

WIDTH = 100
_WORD = 10
"""Columns of the word, with the space behind it."""
_CODE_ENDS = 54
"""Columns up to the end of the source, where something is said of it."""
_LEAST_CODE = 20
_LEAST_NOTE = 30
"""Columns that source and notes have however deep they are nested."""


@dataclass(frozen=True)
class Line:
    """A line before it is known how wide the columns are. Without a word the source begins where words do."""

    place: Place | None
    indent: int
    word: str
    code: str
    note: str = ""


def wrapped(text: str, indent: str = "") -> list[str]:
    """A sentence on as many lines as it takes."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)


def columns(lines: Sequence[Line], paint: Paint) -> Iterator[str]:
    """The lines as they are printed; where a cell of a notebook begins, its number stands on a line of its own."""
    places = [f"{line.place.line}:{line.place.column + 1}" if line.place else "" for line in lines]
    gutter = max(map(len, places), default=0) + 4
    codes = [_cut(line, WIDTH - gutter) for line in lines]
    notes_at = max((width for line, (_, width) in zip(lines, codes, strict=True) if line.note), default=0) + 2
    room = max(WIDTH - gutter - notes_at, _LEAST_NOTE)
    cell: int | None = None
    for line, place, (code, width) in zip(lines, places, codes, strict=True):
        if line.place and line.place.cell != cell:
            cell = line.place.cell
            yield paint(f"{'':{gutter}}cell {cell}", "dim")
        first, *others = textwrap.wrap(line.note, room, break_on_hyphens=False) or [""]
        start = f"{paint(f'{place:>{gutter - 2}}', 'dim')}  {'  ' * line.indent}{_word(line, paint)}{code}"
        yield f"{start}{'':{notes_at - width if first else 0}}{first}".rstrip()
        yield from (f"{'':{gutter + notes_at}}{other}" for other in others)


def _word(line: Line, paint: Paint) -> str:
    return paint(f"{line.word:<{_WORD}}", "code") if line.word else ""


def _cut(line: Line, width: int) -> tuple[str, int]:
    """The source of a line as far as there is room for it, and where that ends."""
    start = 2 * line.indent + (_WORD if line.word else 0)
    room = max((min(width, _CODE_ENDS) if line.note else width) - start, _LEAST_CODE)
    displayed = display_cells(without_commands(line.code))
    ends = list(accumulate(taken for _, taken in displayed))
    if not ends or ends[-1] <= room:
        return "".join(cell for cell, _ in displayed), start + (ends[-1] if ends else 0)
    kept = bisect_right(ends, room - 1)
    return "".join(cell for cell, _ in displayed[:kept]) + "…", start + ends[kept - 1] + 1

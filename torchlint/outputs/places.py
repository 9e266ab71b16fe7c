"""Where a finding is, in the words of the formats: for people, for services, and as URIs."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from urllib.parse import quote

from torchlint.finding import Position, Span
from torchlint.outputs.escaping import printable
from torchlint.source import SourceError, SourceFile


def shown_place(source: SourceFile, position: Position) -> str:
    """`path:line:column`, as editors read it; in a notebook `path:cell 3:line:column`."""
    place = source.place(position)
    cell = "" if place.cell is None else f"cell {place.cell}:"
    return f"{printable(source.path)}:{cell}{place.line}:{place.column + 1}"


def placed(message: str, source: SourceFile, position: Position) -> str:
    """A message for a format that knows files and lines only: of a notebook it begins with `cell 3, line 4: `."""
    place = source.place(position)
    return message if place.cell is None else f"cell {place.cell}, line {place.line}: {message}"


def utf16_range(source: SourceFile, span: Span) -> tuple[tuple[int, int], tuple[int, int]]:
    """A span as zero-based lines, in a notebook those of its cell, and UTF-16 columns.

    Of a file that is no text all columns are 0.
    """
    start, end = source.places(span)
    try:
        columns = source.utf16_column(span.start), source.utf16_column(Position(span.end.line, end.column))
    except SourceError:
        columns = 0, 0
    return (start.line - 1, columns[0]), (end.line - 1, columns[1])


def relative_path(path: str) -> str:
    """A path with forward slashes, relative to the working folder where it can be: services know no others."""
    try:
        return Path(path).absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return Path(path).as_posix()


def relative_uri(path: str) -> str:
    """A path as a quoted URI reference: relative inside the working folder, or else absolute."""
    absolute = Path(path).absolute()
    try:
        inside: PurePath = absolute.relative_to(Path.cwd())
    except ValueError:
        return absolute.as_uri()
    return quote(os.fsencode(inside.as_posix()))

"""Where a finding is, in the words of the formats: for people, for services, and as URIs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import quote

from torchlint.files.source import SourceError, SourceFile
from torchlint.finding import HAPPENS_HERE, Elsewhere, Finding, Position, Span
from torchlint.outputs.escaping import printable

_VARIABLES = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""Where services name the folder that their paths start from."""


def shown_place(source: SourceFile, position: Position) -> str:
    """`path:line:column`, as editors read it; in a notebook `path:cell 3:line:column`."""
    place = source.place(position)
    return f"{printable(source.path)}:{place.shown_line}:{place.column + 1}"


def shown_elsewhere(place: Elsewhere) -> str:
    """`path:line:column` of a place in another file."""
    return f"{printable(place.path)}:{place.span.start.line}:{place.span.start.column + 1}"


def whole_message(finding: Finding) -> str:
    """The message for a format that shows nothing else: behind it stands where it happens, if that is another file."""
    there = next((place for place in finding.elsewhere if place.message == HAPPENS_HERE), None)
    return finding.message if there is None else f"{finding.message} ({shown_elsewhere(there)})"


def placed(message: str, source: SourceFile, position: Position) -> str:
    """A message for a format that knows files and lines only: of a notebook it begins with `cell 3, line 4: `."""
    place = source.place(position)
    return message if place.cell is None else f"cell {place.cell}, line {place.line}: {message}"


def placed_whole(finding: Finding, source: SourceFile) -> str:
    """The message of a finding for a format that knows files and lines only, and shows nothing else."""
    return placed(whole_message(finding), source, finding.span.start)


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


def range_elsewhere(place: Elsewhere) -> tuple[tuple[int, int], tuple[int, int]]:
    """A place in another file as `utf16_range` gives a span."""
    start, end = place.utf16.start, place.utf16.end
    return (start.line - 1, start.column), (end.line - 1, end.column)


def repository_path(path: str) -> str:
    """A path with forward slashes as services know it: from the root of the repository; outside of it absolute."""
    return _path_inside(path) or absolute(path).as_posix()


def repository_uri(path: str) -> str:
    """The same as a quoted URI reference."""
    inside = _path_inside(path)
    return quote(os.fsencode(inside)) if inside else absolute(path).as_uri()


def absolute(path: str) -> Path:
    """An absolute path without `..`, which leads up from where a link leads to."""
    if ".." in Path(path).parts:
        return Path(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return Path(os.path.abspath(path))


def _path_inside(path: str) -> str:
    """The path from the first of the roots that hold a file; empty if none does."""
    folder, name = os.path.split(path)
    real = Path(os.path.realpath(folder), name)
    for root in _roots(real.parent):
        for inside, outside in ((real, Path(os.path.realpath(root))), (absolute(path), root)):
            if inside.is_relative_to(outside):
                return inside.relative_to(outside).as_posix()
    return ""


def _roots(folder: Path) -> Iterator[Path]:
    """Candidates for the repository's root of a file in `folder`, the most likely first."""
    yield from (Path(named) for name in _VARIABLES if (named := os.environ.get(name)))
    here = Path.cwd()
    yield from filter(None, (_top_of_git(here), _top_of_git(folder)))
    yield here


@cache
def _top_of_git(folder: Path) -> Path | None:
    return next((above for above in (folder, *folder.parents) if os.path.exists(above / ".git")), None)

"""Outputs: what a run found -> text in one of several formats, a file for each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath
from typing import Protocol
from urllib.parse import quote

from torchlint.finding import Finding, Meta, Position, Span
from torchlint.source import SourceError, SourceFile

FORMATS: Mapping[str, str] = {
    "text": "for people: the source with the place underlined",
    "concise": "one line a finding",
    "json": "Language Server Protocol: an array of PublishDiagnosticsParams",
    "sarif": "SARIF 2.1.0, for code scanning",
    "github": "workflow commands, shown beside the changed lines",
}
"""The names of the formats, each with what it is; the format `x` is the module `outputs.x`."""


@dataclass(frozen=True)
class LintedFile:
    """One file, as it was when it was linted, and what was found in it."""

    source: SourceFile
    findings: tuple[Finding, ...]
    before: LintedFile | None = None
    """The file on disk and what was found in it, if `source` is what fixes made of that."""
    applied: tuple[Finding, ...] = ()
    """What the fixes were for."""


@dataclass(frozen=True)
class Outcome:
    """What a run found: the files with findings in path order, and of how many files in all."""

    files: tuple[LintedFile, ...]
    total: int
    rules: tuple[Meta, ...] = ()
    """What could have been found, by code."""

    @property
    def findings(self) -> list[Finding]:
        return [finding for file in self.files for finding in file.findings]


@dataclass(frozen=True)
class Style:
    """How the formats for people look; the others do not care."""

    colour: bool = False
    summary: bool = True


class _Format(Protocol):
    def render(self, outcome: Outcome, style: Style) -> str: ...


def render(name: str, outcome: Outcome, style: Style) -> str:
    """What `outcome` says in the format `name`."""
    module: _Format = import_module(f"{__name__}.{name}")
    return module.render(outcome, style)


def counted(number: int, noun: str) -> str:
    """`1 file`, `2,000 files`."""
    plural = "" if number == 1 or noun == "information" else "s"
    return f"{number:,} {noun}{plural}"


def printable(text: str) -> str:
    """Text that stays on its line and sends a terminal no commands."""
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    """Bytes of a file name that are no text stay as they are for whoever writes them out."""
    return char if "\udc80" <= char <= "\udcff" else repr(char)[1:-1]


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

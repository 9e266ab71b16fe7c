"""Writes `# torchlint: ignore[...]` on a line on which it is obeyed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchlint.finding import Edit, Finding, Position, Span
from torchlint.source import SourceFile
from torchlint.text import comments

_LIST = re.compile(r"#\s*torchlint\s*:\s*ignore\s*\[[^\]#]*(?=\])")


def ignoring(source: SourceFile, finding: Finding) -> Edit | None:
    """The edit that makes a comment suppress a rule's finding; None where no line of it can hold a comment."""
    return next(_edits(source, finding), None)


def _edits(source: SourceFile, finding: Finding) -> Iterator[Edit]:
    existing = {source.position(found.start("comment")): found["comment"] for found in comments(source.text)}
    by_line = {position.line: (position.column, comment) for position, comment in existing.items()}
    for number in _lines(finding.span):
        line = source.line(number)
        if number in by_line:
            yield _beside(number, line, *by_line[number], finding.name)
        elif _takes_comment(source, number):
            yield _at_end(number, line, finding.name)


def _lines(span: Span) -> range:
    """The lines on which a span has text."""
    last = span.end.line if span.end.column else span.end.line - 1
    return range(span.start.line, max(span.start.line, last) + 1)


def _beside(number: int, line: str, column: int, comment: str, name: str) -> Edit:
    """One more name in the list that a comment has, or another comment behind it."""
    known = _LIST.search(comment)
    if known is None:
        return _at_end(number, line, name)
    place = Position(number, column + known.end())
    return Edit(Span(place, place), f", {name}")


def _at_end(number: int, line: str, name: str) -> Edit:
    span = Span(Position(number, len(line.rstrip())), Position(number, len(line)))
    return Edit(span, f"  # torchlint: ignore[{name}]")


def _takes_comment(source: SourceFile, number: int) -> bool:
    """Whether a line ends outside of strings, and not with a backslash."""
    line = source.line(number)
    end = source.offset(Position(number, len(line)))
    tried = f"{source.text[:end]} #{source.text[end:]}"
    return not line.endswith("\\") and any(found.start("comment") == end + 1 for found in comments(tried))

"""Lines of source as HTML: numbered, around the places of a finding, which are marked."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from torchlint.files.source import Place, SourceError, SourceFile
from torchlint.finding import Elsewhere, Finding, Position, Related, Span
from torchlint.outputs.places import shown_elsewhere
from torchlint.outputs.prose import prose

_CONTEXT = 2
"""Lines of code before and after a finding."""
_WIDTH = 500
"""Characters of a line that are shown before a place, in it and behind it."""


def listing(source: SourceFile, finding: Finding) -> str:
    """The finding with the lines around it, and the lines of its other halves; empty for one about the whole file."""
    if finding.span.start == finding.span.end:
        return ""
    try:
        lines = source.lines
    except SourceError:
        return ""
    if not lines[-1]:  # what comes after the newline at the end
        lines = lines[:-1]
    others = "".join(map(_other_file, finding.elsewhere))
    return f"<pre>{''.join(_lines(source, lines, finding))}{others}</pre>\n"


def _other_file(place: Elsewhere) -> str:
    said = f'<i class="dim">{prose(place.message)}</i>'
    return f'<span class="dim">{escape(shown_elsewhere(place))}</span>  {said}\n'


def _lines(source: SourceFile, lines: list[str], finding: Finding) -> Iterator[str]:
    previous: Place | None = None
    for number in _numbers(source, len(lines), finding):
        place = source.place(Position(number, 0))
        if previous is None or place.cell != previous.cell:
            yield "" if place.cell is None else f'<span class="dim">cell {place.cell}</span>\n'
        elif place.line > previous.line + 1:
            yield '<span class="dim">  ...</span>\n'
        previous = place
        yield f'<span class="dim">{place.line:>5}</span>  {_marked(lines[number - 1], number, finding)}\n'


def _numbers(source: SourceFile, last: int, finding: Finding) -> list[int]:
    """The lines to show: of the context those in the finding's own cell."""
    line = finding.span.start.line
    around = range(line - _CONTEXT, line + _CONTEXT + 1)
    context = {number for number in around if 0 < number <= last and source.cell(number) is source.cell(line)}
    others = {related.span.start.line for related in finding.related}
    return sorted(number for number in context | others if 0 < number <= last)


def _marked(line: str, number: int, finding: Finding) -> str:
    """A line with the places of the finding in it, and what is said of those that are not its own."""
    related = [item for item in finding.related if item.span.start.line == number]
    if finding.span.start.line == number:
        marked = _mark(line, finding.span, "mark")
    elif related:
        marked = _mark(line, related[0].span, "u")
    else:
        marked = _part(line)
    return marked + "".join(_said(item) for item in related)


def _mark(line: str, span: Span, tag: str) -> str:
    start, end = span.start.column, span.end.column if span.end.line == span.start.line else len(line)
    before, marked, after = _part(line[:start], its_end=True), _part(line[start:end]), _part(line[end:])
    return f"{before}<{tag}>{marked}</{tag}>{after}"


def _part(text: str, *, its_end: bool = False) -> str:
    """A part of a line; of a long one its beginning, or its end."""
    if len(text) <= _WIDTH:
        return escape(text)
    return f"…{escape(text[-_WIDTH:])}" if its_end else f"{escape(text[:_WIDTH])}…"


def _said(related: Related) -> str:
    return f'  <i class="dim">{prose(related.message)}</i>'

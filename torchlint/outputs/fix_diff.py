"""A fix as HTML: the lines that it changes, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from torchlint.files.line_diff import unified
from torchlint.files.lines import Text
from torchlint.files.source import SourceError, SourceFile
from torchlint.finding import Edit, Fix, Position, Safety, Span
from torchlint.outputs.prose import prose

_CONTEXT = 1
"""Lines around the change."""
_WIDTH = 500
"""Characters of a line that are shown."""
_LINES = 200
"""Lines of a change that are shown."""
_SHORT = 20
"""A change of no more lines is shown at once."""
_TAGS = {"+": "ins", "-": "del"}


def fix_diff(source: SourceFile, fix: Fix) -> str:
    """The title of a fix and its changes; only the title where the text cannot be decoded."""
    unsafe = (
        "" if fix.safety is Safety.SAFE else ' <span class="dim">(unsafe: it may change results, so review it)</span>'
    )
    title = f"<summary>fix: {prose(fix.message)}{unsafe}</summary>"
    lines = list(_lines(source, fix))
    if not lines:
        return f"<p>{title.removeprefix('<summary>').removesuffix('</summary>')}</p>\n"
    more = ['<span class="dim">...</span>\n'] * (len(lines) > _LINES)
    opened = " open" if len(lines) <= _SHORT else ""
    return f"<details{opened}>{title}<pre>{''.join([*lines[:_LINES], *more])}</pre></details>\n"


def _lines(source: SourceFile, fix: Fix) -> Iterator[str]:
    try:
        program = source.lines
    except SourceError:
        return
    region = fix.region
    first = max(region.start.line - _CONTEXT, 1)
    before = program[first - 1 : region.end.line + _CONTEXT]
    after = Text("\n".join(before)).edited(_moved(edit, first - 1) for edit in fix.edits)
    for line in list(unified(before, Text(after).lines, ""))[2:]:
        yield _shown(line)


def _moved(edit: Edit, lines: int) -> Edit:
    """An edit of the text without so many lines at its beginning."""
    start, end = (Position(place.line - lines, place.column) for place in (edit.span.start, edit.span.end))
    return Edit(Span(start, end), edit.content)


def _shown(line: str) -> str:
    if line.startswith("@@"):
        return '<span class="dim">...</span>\n' if not line.startswith("@@ -1") else ""
    text = escape(line[:_WIDTH]) + "…" * (len(line) > _WIDTH)
    tag = _TAGS.get(line[:1])
    return f"<{tag}>{text}</{tag}>\n" if tag else f"{text}\n"

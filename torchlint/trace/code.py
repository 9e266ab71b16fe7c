"""The source of rows on one line."""

from __future__ import annotations

from torchlint.files.lines import comments
from torchlint.files.source import SourceFile
from torchlint.finding import Span

_LINES = 20
_CHARACTERS = 200
"""The number of characters of a source line to use; a line of output is shorter."""
_OPEN = ("(", "[", "{")
_CLOSING = (")", "]", "}")


def code(source: SourceFile, span: Span) -> str:
    """The source of an expression or a simple statement; of a compound one its first line."""
    first, last = span.start.line, span.end.line
    if first == last:
        return source.line(first)[span.start.column : span.end.column][:_CHARACTERS]
    if not span.end.column:  # the header of a compound statement
        return _without_comment(source.line(first)[span.start.column :])
    numbers = range(first + 1, min(last, first + _LINES))
    lines = [source.line(first)[span.start.column :], *map(source.line, numbers), source.line(last)[: span.end.column]]
    return _joined(lines)


def _joined(lines: list[str]) -> str:
    joined = ""
    for line in lines:
        part = _without_comment(line).removesuffix("\\").strip()
        if not part or len(joined) > _CHARACTERS:
            continue
        tight = not joined or joined.endswith(_OPEN) or part.startswith(_CLOSING)
        joined = f"{joined.removesuffix(',') if part.startswith(_CLOSING) else joined}{'' if tight else ' '}{part}"
    return joined


def _without_comment(line: str) -> str:
    line = line[:_CHARACTERS]
    comment = next(comments(line), None)
    return line[: comment.start("comment")].rstrip() if comment else line.rstrip()

"""Comments that suppress findings, added where they work and change nothing else."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from torchlint.engine import examination
from torchlint.engine.registry import ABOUT_FILES, Selection
from torchlint.engine.suppressions import list_of_names
from torchlint.files.atomic_write import write
from torchlint.files.lines import Text
from torchlint.files.source import SourceError, SourceFile, SyntaxProblem
from torchlint.finding import Edit, Finding, Position, Span
from torchlint.results import LintedFile
from torchlint.syntax.deep_stack import with_deep_stack
from torchlint.syntax.gc_pause import collect_after
from torchlint.syntax.tree import parse

_OTHER_COMMENT = re.compile(r"#(?!\d)")
_LAYOUT = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)

_Names = dict[int, set[str]]
"""The rules to ignore, by line."""


def check_reason(reason: str) -> None:
    """Raise `ValueError`, with what is wrong, for a reason that cannot stand in a comment."""
    if not reason.strip() or not reason.isprintable():
        raise ValueError("a reason is one line of text")
    if _OTHER_COMMENT.search(reason):
        raise ValueError("a reason must not contain `#`, except before a number")


def add(file: LintedFile, selection: Selection, reason: str = "") -> int:
    """Suppress the findings of a file by comments; return the number of added names. Raises `WriteError`."""
    added, edited = excused(file.source, file.findings, selection, reason)
    if added:
        write(Path(file.source.path), file.source.data, edited.data)
    return added


def excused(
    source: SourceFile, findings: Iterable[Finding], selection: Selection, reason: str = ""
) -> tuple[int, SourceFile]:
    """How many names were added for findings of a file, and the file with them; every one is known to be obeyed.

    The `reason` stands behind the names, unless there is one already.
    """
    found = [finding for finding in findings if finding.name not in ABOUT_FILES]
    try:
        return _excused(source, found, lambda edited: _lint(edited, selection), reason.strip())
    except (SourceError, SyntaxProblem, SyntaxError, tokenize.TokenError):
        return 0, source


def _lint(source: SourceFile, selection: Selection) -> list[Finding]:
    found = examination.lint(source, examination.without_fixes(selection))
    collect_after(len(source.data))
    return found


def _excused(
    source: SourceFile, findings: Iterable[Finding], lint: Callable[[SourceFile], list[Finding]], reason: str
) -> tuple[int, SourceFile]:
    layout = _Layout(source)
    places = {finding: list(layout.places(finding)) for finding in findings}
    while names := _chosen(places):
        edited = source.edited(layout.edit(line, new, reason) for line, new in names.items())
        if _strings(edited) != _strings(source):
            break
        left = {_key(finding) for finding in lint(edited)}
        disobeyed = [finding for finding in places if places[finding] and _key(finding) in left]
        if not disobeyed:
            return sum(map(len, names.values())), edited
        for finding in disobeyed:
            del places[finding][0]
    return 0, source


def _chosen(places: dict[Finding, list[int]]) -> _Names:
    """The best place of each finding that has one left."""
    names: _Names = {}
    for finding, lines in places.items():
        if lines:
            names.setdefault(lines[0], set()).add(finding.name)
    return names


def _key(finding: Finding) -> tuple[str, int, str]:
    """The parts of a finding that stay the same when comments are added at the ends of lines."""
    return finding.name, finding.span.start.line, finding.message


def _strings(source: SourceFile) -> list[str]:
    """The text inside of strings, which no comment may get into, however they are nested."""
    tree = with_deep_stack(lambda: parse(source))
    return [node.value for node in tree.of_type(cst.SimpleString, cst.FormattedStringText)]


@dataclass(frozen=True)
class _Line:
    """A line of the text at whose end a comment may stand, and the comment that stands there now."""

    comment: str
    has_code: bool


class _Layout:
    """Where comments may stand: not in a string, not after a backslash, not on a magic of a notebook."""

    def __init__(self, source: SourceFile) -> None:
        """Raises `SyntaxError` or `TokenError` when Python cannot make tokens of the text."""
        self.source = source
        self._program = Text(source.text).lines
        self._lines: dict[int, _Line] = {}
        self._statements: dict[int, range] = {}
        self._read(list(_tokens(source.text)))

    def places(self, finding: Finding) -> Iterator[int]:
        """Lines for a comment about a finding, the best first: from its own to the end of its statement."""
        start = finding.span.start.line
        statement = self._statements.get(start, range(start, start + 1))
        for line in (*range(start, statement.stop), *range(start - 1, statement.start - 1, -1)):
            known = self._lines.get(line)
            if known and (known.has_code or line == start) and self._program[line - 1] == self.source.line(line):
                yield line

    def edit(self, number: int, names: set[str], reason: str) -> Edit:
        """The edit that adds names, and a reason, to the comment of a line, after its present text."""
        line, comment = self.source.line(number), self._lines[number].comment
        if present := list_of_names(comment):
            before = len(line) - len(comment)
            start, end = (before + offset for offset in present.span("names"))
            listed = ", ".join(sorted(names | set(re.findall(r"[^\s,]+", present["names"]))))
            has_reason = comment[present.end() :].partition("#")[0].strip()
            if has_reason or not reason:
                return _replacement(number, start, end, listed)
            return _replacement(number, start, before + present.end(), f"{listed}] {reason}")
        end = len(line.rstrip(" \t\f"))
        written = f"  # torchlint: ignore[{', '.join(sorted(names))}] {reason}".rstrip()
        return _replacement(number, end, len(line), written)

    def _read(self, tokens: list[tokenize.TokenInfo]) -> None:
        code: set[int] = set()
        comment, strings, first = "", 0, 0
        for token in tokens:
            kind, row = tokenize.tok_name[token.type], token.start[0]
            strings += kind.endswith("STRING_START") - kind.endswith("STRING_END")
            if token.type not in (*_LAYOUT, tokenize.NEWLINE):
                first = first or row
                code.update(range(row, token.end[0] + 1))
            if token.type == tokenize.COMMENT:
                comment = token.string
            elif token.type in (tokenize.NL, tokenize.NEWLINE) and not strings:
                self._end_line(row, comment, row in code)
                comment = ""
            if token.type == tokenize.NEWLINE and first:
                self._statements.update(dict.fromkeys(range(first, row + 1), range(first, row + 1)))
                first = 0

    def _end_line(self, row: int, comment: str, has_code: bool) -> None:
        if self.source.line(row).endswith(comment):
            self._lines[row] = _Line(comment, has_code)


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(re.sub(r"\r\n?", "\n", text)).readline)


def _replacement(line: int, start: int, end: int, content: str) -> Edit:
    return Edit(Span(Position(line, start), Position(line, end)), content)

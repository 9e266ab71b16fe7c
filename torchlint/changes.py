"""Only what a branch did: files that changed since a Git revision, and findings that have to do with it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from torchlint import engine
from torchlint.discovery import Target
from torchlint.finding import Finding, Position, Span
from torchlint.git import Change, Repository, top_of
from torchlint.outputs import LintedFile, Outcome
from torchlint.registry import INTERNAL_ERROR, SYNTAX_ERROR, UNREADABLE_FILE
from torchlint.source import SourceError, SourceFile

_ABOUT_THE_FILE = {check.name for check in (SYNTAX_ERROR, UNREADABLE_FILE, INTERNAL_ERROR)}


class Changes:
    """The working tree, untracked files included, compared with where its branch and `revision` parted."""

    def __init__(self, revision: str) -> None:
        self._revision = revision
        self._tops: dict[Path, Path] = {}
        self._repositories: dict[Path, Repository] = {}

    def only(self, targets: Iterable[Target]) -> list[Target]:
        """The targets that changed; raises `GitError`. A folder that cannot be read may have."""
        return [target for target in targets if target.problem or self._change(target.path)]

    def narrowed(self, outcome: Outcome, targets: Iterable[Target]) -> Outcome:
        """The findings that touch a changed line, or were not there before the change."""
        by_path = {str(target.path): target for target in targets}
        files = []
        for file in outcome.files:
            findings = self._touched(file, by_path[file.source.path])
            if findings:
                files.append(replace(file, findings=findings))
        return replace(outcome, files=tuple(files))

    def _touched(self, file: LintedFile, target: Target) -> tuple[Finding, ...]:
        if target.problem:
            return file.findings
        change = self._change(target.path)
        assert change is not None, "only changed files are linted"
        before = _Before(self._repository(target.path), change, target)
        return tuple(
            finding
            for finding in file.findings
            if finding.name in _ABOUT_THE_FILE
            or _touches(file.source, finding, change)
            or finding.fingerprint not in before.fingerprints
        )

    def _change(self, path: Path) -> Change | None:
        return self._repository(path).change(Path(os.path.realpath(path)))

    def _repository(self, path: Path) -> Repository:
        folder = Path(os.path.realpath(path)).parent
        if folder not in self._tops:
            self._tops[folder] = top_of(folder)
        top = self._tops[folder]
        if top not in self._repositories:
            self._repositories[top] = Repository(top, self._revision)
        return self._repositories[top]


class _Before:
    """A file as it was, linted only if it is asked about."""

    def __init__(self, repository: Repository, change: Change, target: Target) -> None:
        self._repository = repository
        self._change = change
        self._target = target

    @cached_property
    def fingerprints(self) -> set[str]:
        data = self._repository.before(self._change)
        if data is None:
            return set()
        path = self._target.path
        findings = engine.lint(SourceFile(str(path), data), self._target.settings.selection(path))
        return {finding.fingerprint for finding in findings}


def _touches(source: SourceFile, finding: Finding, change: Change) -> bool:
    spans = (finding.span, *(related.span for related in finding.related))
    return any(_is_inside(_lines_of_file(source, span), changed) for span in spans for changed in change.lines)


def _is_inside(lines: range, changed: range) -> bool:
    return lines.start < changed.stop and changed.start < lines.stop


def _lines_of_file(source: SourceFile, span: Span) -> range:
    """The lines of a span as Git counts them: of a notebook those of its JSON, and a lone CR ends none."""
    last = span.end.line - (span.end.column == 0 and span.end.line > span.start.line)
    first, last = (_line_of_file(source, line) for line in (span.start.line, last))
    return range(first, last + 1)


def _line_of_file(source: SourceFile, line: int) -> int:
    try:
        if source.is_notebook:
            return source.file_line(line)
        return source.text.count("\n", 0, source.offset(Position(line, 0))) + 1
    except SourceError:
        return line

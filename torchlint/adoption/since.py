"""Only what a branch did: files that changed since a Git revision, and findings that have to do with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.adoption.repository import EVERYTHING, Change, Repository, top_of
from torchlint.engine import examination
from torchlint.engine.registry import ABOUT_FILES
from torchlint.files.line_diff import opcodes
from torchlint.files.source import SourceError, SourceFile
from torchlint.files.sources import Texts
from torchlint.finding import Finding, Position, Span
from torchlint.project.discovery import Target
from torchlint.results import Outcome

if TYPE_CHECKING:
    from torchlint.engine.following import Following


class Changes:
    """The working tree, untracked files included, compared with where its branch and `revision` parted."""

    def __init__(self, revision: str) -> None:
        self._revision = revision
        self._tops: dict[Path, Path] = {}
        self._repositories: dict[Path, Repository] = {}
        self._changes: dict[Path, Change] = {}
        self._befores: dict[Path, _Before] = {}

    def only(self, targets: Sequence[Target]) -> list[Target]:
        """The targets that changed; raises `GitError`. A folder that cannot be read may have."""
        followings = {_real(target.path): target.settings.following for target in targets if not target.problem}
        importers = _importers(followings)
        by_repository: dict[Repository, list[Path]] = {}
        for path in dict.fromkeys([*followings, *importers]):
            by_repository.setdefault(self._repository(path), []).append(path)
        for repository, paths in by_repository.items():
            self._changes.update(repository.changes(paths))
        affected = self._affected(importers)
        return [target for target in targets if target.problem or _real(target.path) in affected]

    def _affected(self, importers: Mapping[Path, set[Path]]) -> set[Path]:
        """The files that changed, and those that import one of them, at once or through others."""
        affected, changed = set(self._changes), list(self._changes)
        while changed:
            new = importers.get(changed.pop(), set()) - affected
            affected |= new
            changed += new
        return affected

    def narrowed(self, outcome: Outcome, targets: Iterable[Target]) -> Outcome:
        """The findings that touch a changed line, or were not there before the change."""
        by_path = {str(target.path): target for target in targets}
        files = []
        for file in outcome.files:
            findings = self.touched(file.source, file.findings, by_path[file.source.path])
            if findings:
                files.append(replace(file, findings=findings))
        return replace(outcome, files=tuple(files))

    def touched(
        self, source: SourceFile, findings: Sequence[Finding], target: Target, *, edited: bool = False
    ) -> tuple[Finding, ...]:
        """Findings that touch a changed line, or are new; `source` may have been `edited` since."""
        if target.problem:
            return tuple(findings)
        before = self._befores.setdefault(target.path, _Before(self, target, source))
        change = self._changes.get(_real(target.path), Change(()))
        changed = _ChangedLines(source, change, before, edited)
        return tuple(
            finding
            for finding in findings
            if finding.name in ABOUT_FILES or changed.touch(finding) or finding.fingerprint not in before.fingerprints
        )

    def before(self, path: Path, now: bytes) -> bytes | None:
        """The content of a file at the time: what it is now, if it did not change; None if it was not there."""
        change = self._changes.get(_real(path))
        return now if change is None else self._repository(path).before(change)

    @cached_property
    def old(self) -> Texts:
        """All that changed as it was, by real path; None of what was not there."""
        return {str(path): self.before(path, b"") for path in self._changes}

    def _repository(self, path: Path) -> Repository:
        folder = _real(path).parent
        if folder not in self._tops:
            self._tops[folder] = top_of(folder)
        top = self._tops[folder]
        if top not in self._repositories:
            self._repositories[top] = Repository(top, self._revision)
        return self._repositories[top]


def _importers(followings: Mapping[Path, Following | None]) -> dict[Path, set[Path]]:
    """Which files import a module, by the path of that: of these files, and of all that they lead to."""
    found: dict[Path, set[Path]] = {}
    waiting, seen = list(followings.items()), set(followings)
    while waiting:
        path, following = waiting.pop()
        for imported in map(_real, map(Path, _imported(path, following))):
            found.setdefault(imported, set()).add(path)
            if imported not in seen:
                seen.add(imported)
                waiting.append((imported, following))
    return found


def _imported(path: Path, following: Following | None) -> set[str]:
    """The modules that a file imports; none of one that cannot be read."""
    if following is None:
        return set()
    try:
        return following.search(str(path)).direct(SourceFile.read(path).code)
    except (OSError, SourceError):
        return set()


class _Before:
    """An old version of a file, loaded on demand."""

    def __init__(self, changes: Changes, target: Target, now: SourceFile) -> None:
        self._changes = changes
        self._target = target
        self._now = now

    @cached_property
    def source(self) -> SourceFile | None:
        """None if it was not there."""
        data = self._changes.before(self._target.path, self._now.data)
        return None if data is None else SourceFile(str(self._target.path), data)

    @cached_property
    def fingerprints(self) -> set[str]:
        if self.source is None:
            return set()
        selection = self._target.settings.selection(self._target.path)
        if selection.following is not None:
            following = replace(selection.following, sources=selection.following.sources.again(self._changes.old))
            selection = replace(selection, following=following)
        return {finding.fingerprint for finding in examination.lint(self.source, selection)}


class _ChangedLines:
    """The lines of a file that changed, as Git counts them.

    A notebook is compared cell text with cell text: in its JSON a line changes when it is no longer the last
    of its cell, and outputs come and go. So is a file that was edited since Git has seen it.
    """

    def __init__(self, source: SourceFile, change: Change, before: _Before, edited: bool) -> None:
        self._source = source
        self._by_text = source.is_notebook or edited
        self._ranges = _ranges_of_text(source, before.source) if self._by_text else change.lines

    def touch(self, finding: Finding) -> bool:
        spans = (finding.span, *(related.span for related in finding.related))
        return any(_overlap(self._lines(span), changed) for span in spans for changed in self._ranges)

    def _lines(self, span: Span) -> range:
        last = span.end.line - (span.end.column == 0 and span.end.line > span.start.line)
        return range(self._as_git_counts(span.start.line), self._as_git_counts(last) + 1)

    def _as_git_counts(self, line: int) -> int:
        """To Git a lone CR ends no line."""
        if self._by_text:
            return line
        return self._source.text.count("\n", 0, self._source.offset(Position(line, 0))) + 1


def _ranges_of_text(source: SourceFile, before: SourceFile | None) -> Sequence[range]:
    """The lines of a program that are not in the one before; all of them if there was none."""
    try:
        old, new = before.lines if before else [], source.lines
    except SourceError:
        return (EVERYTHING,)
    return [range(first + 1, last + 1) for tag, _, _, first, last in opcodes(old, new) if tag != "equal"]


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _overlap(lines: range, changed: range) -> bool:
    return max(lines.start, changed.start) < min(lines.stop, changed.stop)

"""Findings about another file stand in that file, if the run lints it, too."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

from torchlint.files.source import SourceError, SourceFile
from torchlint.finding import HAPPENS_HERE, Elsewhere, Finding, Related
from torchlint.project.discovery import Target
from torchlint.results import LintedFile, Outcome

LEADS_HERE = "this leads to it"
"""The message at the call in the file that the finding was made for."""


def at_causes(outcome: Outcome, targets: Iterable[Target]) -> Outcome:
    """The outcome with each finding at the place that its message is about.

    A finding stays at the call that leads there if it has a fix, which changes the file of the call, or if the run does
    not lint the other file, or not for that rule.
    """
    moving = _Moving(outcome, targets)
    for file in outcome.files:
        for finding in file.findings:
            moving.add(file, finding)
    return replace(outcome, files=tuple(moving.files()))


class _Moving:
    """The files of an outcome, while findings move from one to another."""

    def __init__(self, outcome: Outcome, targets: Iterable[Target]) -> None:
        self._targets = {os.path.normpath(target.path): target for target in targets}
        self._files = {os.path.normpath(file.source.path): file for file in outcome.files}
        self._found: dict[str, dict[object, Finding]] = {}
        self._rules_of = cache(_rules)

    def add(self, file: LintedFile, finding: Finding) -> None:
        there = next((place for place in finding.elsewhere if place.message == HAPPENS_HERE), None)
        stays = finding.fix is not None or file.source.is_notebook
        if there is None or stays or not self._takes(there.path, finding.name):
            self._put(os.path.normpath(file.source.path), finding, finding)
        else:
            path = os.path.normpath(there.path)
            moved = _moved(finding, there, file.source, self._files[path].source)
            same = finding.name, there.span, *((place.path, place.span) for place in finding.elsewhere)
            self._put(path, moved, same)

    def files(self) -> Iterator[LintedFile]:
        """The files with their findings, in the order of the targets.

        A finding that moved here is left out if the file has the same finding on its own.
        """
        for path in self._targets:
            file = self._files.get(path)
            known = self._found.get(path, {})
            own = {(item.name, item.span, item.message) for key, item in known.items() if key is item}
            once = [
                item for key, item in known.items() if key is item or (item.name, item.span, item.message) not in own
            ]
            found = sorted(once, key=lambda finding: finding.sort_key)
            if file is not None and (found or file.before is not None):
                yield replace(file, findings=tuple(found))

    def _put(self, path: str, finding: Finding, key: object) -> None:
        self._found.setdefault(path, {}).setdefault(key, finding)

    def _takes(self, path: str, rule: str) -> bool:
        """Whether a file can have findings of a rule in this run."""
        path = os.path.normpath(path)
        target = self._targets.get(path)
        if target is None or target.problem is not None or rule not in self._rules_of(target):
            return False
        if path not in self._files:
            source = _read(target)
            if source is None:
                return False
            self._files[path] = LintedFile(source, ())
        return True


def _rules(target: Target) -> frozenset[str]:
    """The rules that run on a file."""
    return frozenset(rule.rule_name() for rule in target.settings.selection(target.path).rules)


def _read(target: Target) -> SourceFile | None:
    """A file in which nothing was found; None if it can no longer be read."""
    try:
        source = SourceFile.read(target.path, str(target.path))
        source.lines  # noqa: B018 - it may not be text
    except (OSError, SourceError):
        return None
    return source


def _moved(finding: Finding, there: Elsewhere, source: SourceFile, other: SourceFile) -> Finding:
    """A finding at a place of another file, with the places of its own file as those elsewhere."""
    own = [(finding.span, LEADS_HERE), *((related.span, related.message) for related in finding.related)]
    here = [place for place in finding.elsewhere if place is not there]
    is_related = [os.path.normpath(place.path) == os.path.normpath(there.path) for place in here]
    related = [Related(place.span, place.message) for place, same in zip(here, is_related, strict=True) if same]
    elsewhere = [place for place, same in zip(here, is_related, strict=True) if not same]
    elsewhere += [Elsewhere(source.path, span, source.utf16_span(span), text) for span, text in own]
    way = os.path.relpath(there.path, os.path.dirname(source.path) or ".").replace(os.sep, "/")
    return replace(
        finding,
        path=other.path,
        span=there.span,
        message=finding.message.removeprefix(f"in `{way}`, "),
        related=tuple(related),
        elsewhere=tuple(elsewhere),
    )

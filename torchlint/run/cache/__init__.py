"""Results by content, in a folder of the user: unchanged files are not linted again."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from torchlint.engine.registry import INTERNAL_ERROR, UNREADABLE_FILE
from torchlint.files.fingerprint import Stamp, Status, digest_of, status_of
from torchlint.files.source import SourceError, SourceFile
from torchlint.files.sources import Module
from torchlint.finding import Finding
from torchlint.project.discovery import Target
from torchlint.results import LintedFile, Tally
from torchlint.run.cache import folder as folders
from torchlint.run.cache.environment import key_of
from torchlint.run.cache.folder import CacheError, Place
from torchlint.run.cache.index import Entry, Index
from torchlint.run.cache.serialize import finding_of, plain

__all__ = ["Cache", "CacheError"]

_TRANSIENT = {INTERNAL_ERROR.name, UNREADABLE_FILE.name}
"""These may be due to the machine rather than to the file."""
_DAY = 24 * 60 * 60
_GRANULARITY = 2 * 10**9
"""A file that was written so many nanoseconds ago may be written again without getting another time."""
_UNSURE: Status = ()
_NO_SOURCE = SourceFile("", b"")


class Cache:
    """The results of earlier runs, by file."""

    def __init__(self, place: Place, root: Path) -> None:
        """`place` holds the results of all projects; `root` is the folder of this one."""
        self._place = place
        self._root = str(root.absolute())
        self._prefix = os.path.join(os.path.relpath(Path.cwd(), root), "").removeprefix(os.path.join(".", ""))
        self._started = time.time_ns()
        self._day = self._started // 10**9 // _DAY
        self._indices: dict[str, Index] = {}

    def find(self, target: Target) -> LintedFile | None:
        """The cached result of a file; None if it must be linted. A result without findings reads no text."""
        if target.problem:
            return None
        entry = self._index(target).get(self._name(target.path))
        try:
            if entry is None or not all(map(target.settings.sources.is_unchanged, entry.imports)):
                return None
            if entry.status == status_of(target.path):
                return self._findings(target, entry) if entry.findings or entry.notices else _without(entry)
            return self._found_by_content(target, entry)
        except (OSError, SourceError, LookupError, TypeError, ValueError):  # gone, or an entry of another form
            return None

    def put(
        self,
        target: Target,
        stamp: Stamp,
        findings: tuple[Finding, ...],
        tally: Tally,
        imports: tuple[Module, ...] = (),
        notices: tuple[Finding, ...] = (),
    ) -> None:
        """Remember what was found, unless another run could find something else.

        `imports` are the modules that were looked for; `notices` stand beside the findings.
        """
        if any(finding.name in _TRANSIENT for finding in findings):
            return
        status, kept = self._sure(stamp.status), [plain(finding) for finding in findings]
        modules, said = tuple(map(self._sure_module, imports)), [plain(notice) for notice in notices]
        entry = Entry(status, stamp.digest, kept, self._day, modules, tally, said)
        self._index(target).put(self._name(target.path), entry)

    def save(self) -> None:
        """Write down what is new; raises `CacheError`."""
        try:
            for index in self._indices.values():
                index.save(lambda: folders.tidy(self._place, self._started / 10**9))
        except OSError as error:
            raise CacheError(f"cannot write the cache {self._place.folder}: {error.strerror or error}") from None

    def _index(self, target: Target) -> Index:
        choice = target.settings.choice(target.path)
        if choice not in self._indices:
            self._indices[choice] = Index(
                self._place.folder / f"{key_of(choice, self._root)}.json", self._day, self._place.key
            )
        return self._indices[choice]

    def _name(self, path: Path) -> str:
        """The path from the root, or else all of it."""
        text = str(path)
        if not os.path.isabs(text):
            return self._prefix + text
        return text.removeprefix(os.path.join(self._root, ""))

    def _findings(self, target: Target, entry: Entry) -> LintedFile | None:
        source = SourceFile.read(target.path, str(target.path))
        if digest_of(source.data) != entry.digest:
            return None
        if not entry.findings and not entry.notices:
            return _without(entry)
        findings, notices = (
            tuple(finding_of(values, source.path) for values in kept) for kept in (entry.findings, entry.notices)
        )
        return LintedFile(source, findings, tally=entry.tally, notices=notices)

    def _found_by_content(self, target: Target, entry: Entry) -> LintedFile | None:
        """As after a checkout, or when a file was too new to be sure."""
        status = status_of(target.path)
        found = self._findings(target, entry)
        if found is not None and status_of(target.path) == status:
            self.put(target, Stamp(status, entry.digest), found.findings, entry.tally, entry.imports, found.notices)
        return found

    def _sure_module(self, module: Module) -> Module:
        return replace(module, status=self._sure(module.status)) if module.status else module

    def _sure(self, status: Status) -> Status:
        """A status that stands for the content, if nothing can have happened since within one tick of the clock.

        Windows does not say when a file was changed: an unpacked archive sets back all that it does say.
        """
        if sys.platform == "win32":
            return _UNSURE
        _, modified, changed, _ = status
        return status if max(modified, changed) < self._started - _GRANULARITY else _UNSURE


def _without(entry: Entry) -> LintedFile:
    """The cached result of a file without its findings."""
    return LintedFile(_NO_SOURCE, (), tally=entry.tally)

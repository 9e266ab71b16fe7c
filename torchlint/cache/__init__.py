"""What was found in which content, kept in a folder: what has not changed is not linted again."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from torchlint.cache.index import MAX_DAYS, Entry, Index
from torchlint.cache.key import key_of
from torchlint.cache.plain import finding_of, plain
from torchlint.cache.stamp import Stamp, Status, digest_of, status_of
from torchlint.discovery import Target
from torchlint.finding import Finding
from torchlint.outputs import LintedFile
from torchlint.registry import INTERNAL_ERROR, UNREADABLE_FILE
from torchlint.source import SourceError, SourceFile

FOLDER = ".torchlint_cache"
MAX_CHOICES = 20
"""Choices of rules of which the results are kept."""

_TAG = "CACHEDIR.TAG"
_SIGNATURE = "Signature: 8a477f597d28d172789f06886806bc55"
_CONTENTS = {_TAG: f"{_SIGNATURE}\n# Made by torchlint, which works without it.\n", ".gitignore": "*\n"}
_TRANSIENT = {INTERNAL_ERROR.name, UNREADABLE_FILE.name}
"""These may be due to the machine rather than to the file."""
_DAY = 24 * 60 * 60
_GRANULARITY = 2 * 10**9
"""A file that was written so many nanoseconds ago may be written again without getting another time."""
_UNSURE: Status = ()
_CLEAN, _PASSED_OVER = (LintedFile(SourceFile("", b""), (), looked_into=looked_into) for looked_into in (True, False))


class CacheError(Exception):
    """The cache cannot be written or deleted: the message is for the user."""


class Cache:
    """The results of earlier runs, by file."""

    def __init__(self, root: Path) -> None:
        """`root` is the folder of the project; files outside it are known by their full path."""
        self.folder = root / FOLDER
        self._root = str(root.absolute())
        self._prefix = os.path.join(os.path.relpath(Path.cwd(), root), "").removeprefix(os.path.join(".", ""))
        self._started = time.time_ns()
        self._day = self._started // 10**9 // _DAY
        self._indices: dict[str, Index] = {}

    def find(self, target: Target) -> LintedFile | None:
        """What is known of a file; None if it has to be linted. Without findings its text is not read."""
        if target.problem:
            return None
        entry = self._index(target).get(self._name(target.path))
        try:
            if entry is None:
                return None
            if entry.status == status_of(target.path):
                return self._findings(target, entry) if entry.findings else _without(entry)
            return self._found_by_content(target, entry)
        except (OSError, SourceError):
            return None

    def put(self, target: Target, stamp: Stamp, findings: tuple[Finding, ...] | None) -> None:
        """Remember what was found, unless another run could find something else; None: it was not looked into."""
        if any(finding.name in _TRANSIENT for finding in findings or ()):
            return
        kept = None if findings is None else [plain(finding) for finding in findings]
        entry = Entry(self._sure(stamp.status), stamp.digest, kept, self._day)
        self._index(target).put(self._name(target.path), entry)

    def save(self) -> None:
        """Write down what is new; raises `CacheError`."""
        try:
            for index in self._indices.values():
                index.save(self._prepare)
        except OSError as error:
            raise CacheError(f"cannot write the cache {self.folder}: {error.strerror or error}") from None

    def clear(self) -> bool:
        """Delete the folder, if it is there; raises `CacheError`."""
        if not os.path.lexists(self.folder):
            return False
        if not _is_ours(self.folder):
            raise CacheError(f"{self.folder} was not made by torchlint: it has no {_TAG}")
        try:
            shutil.rmtree(self.folder)
        except OSError as error:
            raise CacheError(f"cannot delete {error.filename or self.folder}: {error.strerror or error}") from None
        return True

    def _index(self, target: Target) -> Index:
        choice = target.settings.choice(target.path)
        if choice not in self._indices:
            self._indices[choice] = Index(self.folder / f"{key_of(choice)}.json", self._day)
        return self._indices[choice]

    def _name(self, path: Path) -> str:
        """The path from the root, so that the project may move; of other files all of it."""
        text = str(path)
        if not os.path.isabs(text):
            return self._prefix + text
        return text.removeprefix(os.path.join(self._root, ""))

    def _findings(self, target: Target, entry: Entry) -> LintedFile | None:
        source = SourceFile.read(target.path, str(target.path))
        if digest_of(source.data) != entry.digest:
            return None
        if not entry.findings:
            return _without(entry)
        return LintedFile(source, tuple(finding_of(values, source.path) for values in entry.findings))

    def _found_by_content(self, target: Target, entry: Entry) -> LintedFile | None:
        """As after a checkout, or when a file was too new to be sure."""
        status = status_of(target.path)
        found = self._findings(target, entry)
        if found is not None and status_of(target.path) == status:
            self.put(target, Stamp(status, entry.digest), found.findings if found.looked_into else None)
        return found

    def _sure(self, status: Status) -> Status:
        """A status that stands for the content, if nothing can have happened since within one tick of the clock."""
        _, modified, changed, _ = status
        return status if max(modified, changed) < self._started - _GRANULARITY else _UNSURE

    def _prepare(self) -> None:
        """Make the folder, and make room in it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in _CONTENTS.items():
            if not (self.folder / name).exists():
                (self.folder / name).write_text(text, "utf-8")
        files = [(entry.stat().st_mtime, entry) for entry in os.scandir(self.folder) if _is_data(entry)]
        old = self._started / 10**9 - MAX_DAYS * _DAY
        kept = 0
        for modified, entry in sorted(files, key=lambda item: -item[0]):
            is_index = entry.name.endswith(".json")
            kept += is_index
            abandoned = not is_index and modified < self._started / 10**9 - _DAY
            if abandoned or modified < old or kept > MAX_CHOICES:
                with suppress(OSError):
                    os.unlink(entry)


def _without(entry: Entry) -> LintedFile:
    """What is known of a file without findings."""
    return _PASSED_OVER if entry.findings is None else _CLEAN


def _is_data(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith((".json", ".tmp")) and entry.is_file(follow_symlinks=False)


def _is_ours(folder: Path) -> bool:
    try:
        return (folder / _TAG).read_text("utf-8").startswith(_SIGNATURE)
    except (OSError, ValueError):
        return False

"""Findings of old code, written down so that only new ones are reported."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from torchlint.engine.registry import ABOUT_FILES, INTERNAL_ERROR
from torchlint.files import regular
from torchlint.files.atomic_write import write
from torchlint.files.checkout import is_within, real_path, top_around
from torchlint.finding import Finding
from torchlint.project.discovery import Target
from torchlint.results import Outcome

VERSION = 1

Key = tuple[str, str, str]


class BaselineError(Exception):
    """A baseline that cannot be used: which file and line, and why."""


@dataclass(frozen=True, order=True)
class Entry:
    """One finding: its file relative to the baseline, with forward slashes; the message is for readers."""

    path: str
    rule: str
    fingerprint: str
    message: str = field(compare=False)

    @property
    def key(self) -> Key:
        return self.path, self.rule, self.fingerprint


@dataclass(frozen=True)
class Baseline:
    """The findings of a file. Equal findings differ in their fingerprints, which number them."""

    file: Path
    entries: tuple[Entry, ...] = ()
    data: bytes | None = None
    """The content of the file when it was read; None if it does not exist."""

    @classmethod
    def read(cls, file: Path) -> Baseline:
        """Raises `FileNotFoundError` if there is none, and `BaselineError` if it cannot be used."""
        try:
            data = regular.read(real_path(file))
            return cls(file, tuple(_Reader(file, data.decode("utf-8-sig")).entries()), data)
        except FileNotFoundError:
            raise
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise BaselineError(f"{file}:{line}: is not a baseline: not UTF-8") from None
        except OSError as error:
            raise BaselineError(f"{file}: cannot be read: {error.strerror}") from None

    def without_known(self, outcome: Outcome) -> Outcome:
        """The new findings of `outcome`."""
        files = []
        for file in outcome.files:
            new = tuple(finding for finding in file.findings if not self.knows(finding))
            if new:
                files.append(replace(file, findings=new))
        return replace(outcome, files=tuple(files))

    def knows(self, finding: Finding) -> bool:
        """Whether a finding is one of those that were written down."""
        return self._entry(finding).key in self._keys

    def obsolete(self, targets: Iterable[Target], outcome: Outcome) -> list[Entry]:
        """The entries that a run over `targets` would have found again, and did not; those of deleted files too.

        A file that cannot be read, and a rule that was not selected, say nothing about their entries.
        """
        found = {self._entry(finding).key for finding in outcome.findings}
        broken = {self._shown(finding.path) for finding in outcome.findings if finding.name in ABOUT_FILES}
        looked_for = {path: names for path, names in self._looked_for(targets) if path not in broken}
        return [entry for entry in self.entries if entry.key not in found and self._is_gone(entry, looked_for)]

    def updated(self, targets: Iterable[Target], outcome: Outcome) -> Baseline:
        """With all that was found, without what is obsolete; never with a crash, which is no property of a file."""
        gone = {entry.key for entry in self.obsolete(targets, outcome)}
        entries = {entry.key: entry for entry in self.entries if entry.key not in gone}
        for finding in outcome.findings:
            if finding.name != INTERNAL_ERROR.name:
                entry = self._entry(finding)
                entries[entry.key] = entry
        return replace(self, entries=tuple(sorted(entries.values())))

    def write(self) -> None:
        """Raises `WriteError`."""
        write(self.file, self.data, self.text.encode())

    @property
    def text(self) -> str:
        """JSON with a line for each finding, so that changes can be read and merged."""
        lines = ",\n".join(f"    {_line(entry)}" for entry in self.entries)
        findings = f"[\n{lines}\n  ]" if lines else "[]"
        return f'{{\n  "version": {VERSION},\n  "findings": {findings}\n}}\n'

    @cached_property
    def _keys(self) -> set[Key]:
        return {entry.key for entry in self.entries}

    def _entry(self, finding: Finding) -> Entry:
        return Entry(self._shown(finding.path), finding.name, finding.fingerprint, finding.message)

    def _shown(self, path: str) -> str:
        return _relative(path, str(self.file.parent))

    def _looked_for(self, targets: Iterable[Target]) -> Iterator[tuple[str, set[str]]]:
        for target in targets:
            selection = target.settings.selection(target.path)
            names = {*selection.checks, *(rule.rule_name() for rule in selection.rules)}
            yield self._shown(str(target.path)), names

    def _is_gone(self, entry: Entry, looked_for: Mapping[str, set[str]]) -> bool:
        return entry.rule in looked_for.get(entry.path, ()) or self._is_deleted(entry.path)

    def _is_deleted(self, path: str) -> bool:
        """Elsewhere nothing is asked for: a mere question goes to another machine if a path says so."""
        whole = os.path.normpath(os.path.join(_real(os.path.abspath(self.file.parent)), path))
        return any(is_within(whole, top) for top in self._checkouts) and not os.path.lexists(whole)

    @cached_property
    def _checkouts(self) -> list[str]:
        """The checkouts of the baseline and of the working folder."""
        return [top for top in map(top_around, (self.file.parent, Path.cwd())) if top is not None]


@cache
def _real(absolute: str) -> str:
    return os.path.realpath(absolute)


def _relative(path: str, folder: str) -> str:
    """A path seen from a folder; absolute if there is no way, as between the drives of Windows."""
    head, name = os.path.split(path)
    absolute = os.path.join(_real(os.path.abspath(head)), name)
    try:
        return os.path.relpath(absolute, _real(os.path.abspath(folder))).replace(os.sep, "/")
    except ValueError:
        return absolute.replace(os.sep, "/")


def _line(entry: Entry) -> str:
    values = {
        "path": entry.path,
        "rule": entry.rule,
        "fingerprint": entry.fingerprint,
        "message": entry.message,
    }
    text = json.dumps(values, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(values)


class _Reader:
    """Checks the content of a file, and says on which line it is wrong."""

    def __init__(self, file: Path, text: str) -> None:
        self.file = file
        self.text = text

    def entries(self) -> Iterator[Entry]:
        try:
            value = json.loads(self.text)
        except json.JSONDecodeError as error:
            raise self._error(error.lineno, f"invalid JSON: {error.msg}") from None
        except RecursionError:
            raise self._error(1, "JSON that is nested too deeply") from None
        except ValueError:
            raise self._error(1, "JSON with a number of thousands of digits") from None
        if not isinstance(value, dict) or "version" not in value:
            raise self._error(1, "there is no `version`")
        if value["version"] != VERSION:
            raise self._error(self._line_of('"version"'), f"version {value['version']!r} is unknown")
        findings = value.get("findings")
        if not isinstance(findings, list):
            raise self._error(self._line_of('"findings"'), "`findings` is not a list")
        for item in findings:
            yield self._entry(item)

    def _entry(self, item: object) -> Entry:
        names = ("path", "rule", "fingerprint")
        if not isinstance(item, dict) or not all(isinstance(item.get(name), str) for name in names):
            raise self._error(self._line_that_holds(item), "a finding needs `path`, `rule` and `fingerprint`")
        return Entry(item["path"], item["rule"], item["fingerprint"], str(item.get("message", "")))

    def _error(self, line: int, reason: str) -> BaselineError:
        return BaselineError(f"{self.file}:{line}: is not a baseline: {reason}")

    def _line_of(self, words: str) -> int:
        return self.text[: max(self.text.find(words), 0)].count("\n") + 1

    def _line_that_holds(self, item: object) -> int:
        """The line of an item, which is on one of its own unless somebody has laid out the file anew."""
        for number, line in enumerate(self.text.split("\n"), 1):
            try:
                if json.loads(line.strip().rstrip(",")) == item:
                    return number
            except ValueError:
                continue
        return self._line_of('"findings"')

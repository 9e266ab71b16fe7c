"""One file of the cache: what was found in each file under one choice of rules."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchlint.files import regular
from torchlint.files.fingerprint import Status, digest_of
from torchlint.files.sources import Module
from torchlint.results import NO_TALLY, Tally

MAX_FILES = 100_000
MAX_BYTES = 50_000_000
"""A project of which there is more to remember has no cache, rather than a home full of it."""
MAX_DAYS = 30
"""An entry that no run has asked for in that time, or for which there is no room, is dropped."""


@dataclass
class Entry:
    """A file when it was last linted. `findings` are plain values."""

    status: Status
    digest: str
    findings: list[Any]
    day: int
    """When it was last asked for."""
    imports: tuple[Module, ...] = ()
    """The modules that were looked for, there or not; their paths are whole."""
    tally: Tally = NO_TALLY
    notices: list[Any] = field(default_factory=list)
    """Plain values, as the findings are."""


class Index:
    """Entries by the name of their files. Whatever cannot be read, or is not what was written, holds none."""

    def __init__(self, path: Path, day: int, key: bytes = b"") -> None:
        """With a `key` only what was written with it holds any."""
        self._path = path
        self._key = key
        self._day = day
        self._ours: dict[str, Entry] = {}
        """Entries that this run adds."""
        self._version = _version(path)
        self._entries = _read(path, key)

    def get(self, name: str) -> Entry | None:
        entry = self._entries.get(name)
        if entry is not None and entry.day != self._day:
            entry.day = self._day
            self._ours[name] = entry
        return entry

    def put(self, name: str, entry: Entry) -> None:
        self._entries[name] = self._ours[name] = entry

    def save(self, prepare: Callable[[], None]) -> None:
        """Write what is new, beside what other runs have written meanwhile; raises `OSError`.

        Before that `prepare` is called.
        """
        if not self._ours:
            return
        prepare()
        if _version(self._path) != self._version:
            self._entries = {**_read(self._path, self._key), **self._ours}
        kept = {name: entry for name, entry in self._entries.items() if entry.day > self._day - MAX_DAYS}
        if len(kept) > MAX_FILES:
            kept = dict(sorted(kept.items(), key=lambda item: item[1].day)[-MAX_FILES:])
        _write(self._path, kept, self._key)
        self._ours = {}


def _version(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ino, found.st_size


def _read(path: Path, key: bytes) -> dict[str, Entry]:
    """The entries of a file of ours. The first line is a digest of the rest; what has another form holds none."""
    try:
        head, _, body = regular.read(path, links=False, own=True).partition(b"\n")
        if not _are_same(head, _head(body, key), key):
            return {}
        modules, entries = json.loads(body)
        known = [Module(base, top, kind, tuple(status), digest) for base, top, kind, status, digest in modules]
        return {name: _entry(known, *values) for name, values in entries.items()}
    except Exception:
        return {}


def _are_same(head: bytes, expected: bytes, key: bytes) -> bool:
    """Whether two digests are the same; where they depend on a secret key, in a time that tells nothing of it."""
    if not key:
        return head == expected
    from hmac import compare_digest

    return compare_digest(head, expected)


def _entry(
    modules: list[Module],
    status: list[int],
    digest: str,
    findings: list[Any],
    day: int,
    imports: list[int],
    tally: list[int],
    notices: list[Any],
) -> Entry:
    uses_torch, unstable = tally
    is_list = isinstance(findings, list) and isinstance(notices, list)
    if not (is_list and isinstance(day, int) and isinstance(unstable, int)):
        raise TypeError
    known = tuple(modules[number] for number in imports)
    return Entry(tuple(status), digest, findings, day, known, Tally(bool(uses_torch), unstable), notices)


def _write(path: Path, entries: dict[str, Entry], key: bytes) -> None:
    """Whole or not at all: a run that is killed leaves the old file, and a temporary one that is cleared later."""
    numbers: dict[Module, int] = {}
    values = {
        name: [
            entry.status,
            entry.digest,
            entry.findings,
            entry.day,
            [numbers.setdefault(module, len(numbers)) for module in entry.imports],
            entry.tally,
            entry.notices,
        ]
        for name, entry in entries.items()
    }
    modules = [[item.base, item.top, item.kind, item.status, item.digest] for item in numbers]
    body = json.dumps([modules, values], separators=(",", ":")).encode()
    if len(body) > MAX_BYTES:
        return
    temporary = path.with_suffix(f".{os.urandom(8).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(_head(body, key) + b"\n" + body)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _head(body: bytes, key: bytes = b"") -> bytes:
    return json.dumps(digest_of(body, key)).encode()

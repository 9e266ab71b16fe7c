"""The folder of the cache: one of the user, never of a checkout, which might have brought entries along."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from torchlint import regular
from torchlint.cache.index import MAX_DAYS
from torchlint.checkout import real_path

VARIABLE = "TORCHLINT_CACHE_DIR"
MAX_INDICES = 100
MAX_BYTES = 1_000_000_000
"""Of so many projects and choices of rules the results are kept, as long as there is room."""

_TAG = "CACHEDIR.TAG"
_TAG_TEXT = b"Signature: 8a477f597d28d172789f06886806bc55\n# Made by torchlint, which works without it.\n"
_NAME = re.compile(r"[0-9a-f]{32}\.(?:json|[0-9a-f]{16}\.tmp)")
_DAY = 24 * 60 * 60


class CacheError(Exception):
    """The cache cannot be used, written or deleted: the message is for the user."""


def find() -> Path | None:
    """The user's folder, which is made if it is not there; None if there can be none.

    Raises `CacheError` if the variable names one that cannot be used.
    """
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else _default()
    try:
        return _made(folder) if folder is not None else None
    except OSError as error:
        if named:
            raise CacheError(f"{VARIABLE}={named} cannot be used: {error.strerror or error}") from None
        return None


def _default() -> Path | None:
    """Where the caches of a user are on this system; None for one without a home."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local", "torchlint", "Cache")
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "torchlint"
    shared = os.environ.get("XDG_CACHE_HOME", "")
    return Path(shared if os.path.isabs(shared) else home / ".cache", "torchlint")


def _made(folder: Path) -> Path:
    """The real folder; raises `OSError` unless it is one, and the user's own."""
    if not folder.is_absolute():
        raise OSError(errno.EINVAL, "is no absolute path")
    real = Path(real_path(folder))
    real.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not regular.is_own(os.stat(real)):
        raise OSError(errno.EPERM, "belongs to another user")
    return real


def tidy(folder: Path, now: float) -> None:
    """Mark the folder, and make room in it; raises `OSError`."""
    with suppress(FileExistsError), open(folder / _TAG, "xb") as file:
        file.write(_TAG_TEXT)
    indices = size = 0
    for status, entry in sorted(_files(folder), key=lambda item: -item[0].st_mtime):
        is_index = entry.name.endswith(".json")
        indices, size = indices + is_index, size + status.st_size
        is_old = status.st_mtime < now - (MAX_DAYS if is_index else 1) * _DAY
        if is_old or indices > MAX_INDICES or size > MAX_BYTES:
            with suppress(OSError):
                os.unlink(entry)


def clear(folder: Path) -> int:
    """Delete what torchlint has made, and the folder if nothing else is in it; how many files. Raises `CacheError`."""
    deleted = 0
    try:
        for _, entry in _files(folder):
            os.unlink(entry)
            deleted += 1
    except OSError as error:
        raise CacheError(f"cannot delete {error.filename or folder}: {error.strerror or error}") from None
    with suppress(OSError):
        if regular.read(folder / _TAG, links=False) == _TAG_TEXT:
            os.unlink(folder / _TAG)
        os.rmdir(folder)
    return deleted


def _files(folder: Path) -> Iterator[tuple[os.stat_result, os.DirEntry[str]]]:
    """The files with names that torchlint gives; links are none."""
    for entry in os.scandir(folder):
        if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            yield entry.stat(follow_symlinks=False), entry

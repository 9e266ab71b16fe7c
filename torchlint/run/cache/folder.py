"""The folder of the cache: one of the user, never of a checkout, which might have brought entries along."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torchlint.files import regular
from torchlint.files.checkout import real_path
from torchlint.run.cache.index import MAX_DAYS

VARIABLE = "TORCHLINT_CACHE_DIR"
MAX_INDICES = 100
MAX_BYTES = 1_000_000_000
"""The cache keeps results of this many projects and rule selections, as long as there is room."""

_KEY = "key"
_KEY_BYTES = 32
_IGNORE = ".gitignore"
_IGNORE_TEXT = b"# Made by torchlint.\n*\n"
_TAG = "CACHEDIR.TAG"
_TAG_TEXT = b"Signature: 8a477f597d28d172789f06886806bc55\n# Made by torchlint, which works without it.\n"
_NAME = re.compile(r"[0-9a-f]{32}\.(?:json|[0-9a-f]{16}\.tmp)")
_DAY = 24 * 60 * 60


class CacheError(Exception):
    """The cache cannot be used, written or deleted: the message is for the user."""


@dataclass(frozen=True)
class Place:
    """The folder of a cache. With a `key`, which is the user's own, what others have written there counts for nothing.

    That is so in a folder that a repository has chosen, which may have brought entries along.
    """

    folder: Path
    key: bytes = b""


def find(named: Path | None = None, of_project: Path | None = None) -> Place | None:
    """The folder that is named on the command line, or by the variable, or by the project, or the user's.

    It is made if it is not there. None if there can be none; raises `CacheError` if one that is named cannot be used.
    """
    variable = os.environ.get(VARIABLE)
    by_user, said = named and Path.cwd() / named, f"--cache-dir {named}"
    if named is None and variable:
        by_user, said = Path(variable), f"{VARIABLE}={variable}"
    try:
        if by_user is not None:
            return Place(_made(by_user))
        if of_project is None:
            return _of_user()
        said = f"cache-dir {of_project}"
        user = _of_user()
        return Place(_made(of_project), _key(user.folder)) if user is not None else None
    except OSError as error:
        raise CacheError(f"{said} cannot be used: {error.strerror or error}") from None


def _of_user() -> Place | None:
    """The user's own folder, if one can be made."""
    folder = _default()
    try:
        return Place(_made(folder)) if folder is not None else None
    except OSError:
        return None


def _key(folder: Path) -> bytes:
    """The key of the user, kept in the user's own folder; raises `OSError`.

    Of two processes that make one the last one wins: what the other signs is linted once more.
    """
    path = folder / _KEY
    if not os.path.lexists(path):
        new = folder / f"{os.urandom(16).hex()}.{os.urandom(8).hex()}.tmp"
        with open(new, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(os.urandom(_KEY_BYTES))
        os.replace(new, path)
    key = regular.read(path, _KEY_BYTES, links=False, own=True)
    if len(key) != _KEY_BYTES:
        raise OSError(errno.EINVAL, "the key of the cache is broken", str(path))
    return key


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
        raise OSError(errno.EINVAL, "is not an absolute path")
    real = Path(real_path(folder))
    real.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not regular.is_own(os.stat(real)):
        raise OSError(errno.EPERM, "belongs to another user")
    return real


def tidy(place: Place, now: float) -> None:
    """Mark the folder, for Git too if it is a project's, and make room in it; raises `OSError`."""
    folder = place.folder
    for name, text in {_TAG: _TAG_TEXT, **({_IGNORE: _IGNORE_TEXT} if place.key else {})}.items():
        with suppress(FileExistsError), open(folder / name, "xb") as file:
            file.write(text)
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
    for name, text in ((_TAG, _TAG_TEXT), (_IGNORE, _IGNORE_TEXT)):
        with suppress(OSError):
            if regular.read(folder / name, links=False) == text:
                os.unlink(folder / name)
    with suppress(OSError):
        os.rmdir(folder)
    return deleted


def _files(folder: Path) -> Iterator[tuple[os.stat_result, os.DirEntry[str]]]:
    """The files with names that torchlint gives; links are none."""
    for entry in os.scandir(folder):
        if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            yield entry.stat(follow_symlinks=False), entry

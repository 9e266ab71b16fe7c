"""Files are replaced whole, or not at all: never half-written, never over what somebody else has just saved."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from torchlint.files import regular
from torchlint.files.checkout import real_path

_PERMISSIONS = 0o777
"""Permissions that a new file inherits: never those to run as its owner."""


_STREAMS = (Path("/dev"), Path("/dev/fd"))


class WriteError(Exception):
    """A file that was not written, and why: the message is for the user."""


def write(path: Path, before: bytes | None, after: bytes) -> None:
    """Replace the content of a file, which must still be `before`; None is for a file that does not exist yet.

    Keeps permissions, the owner where that is allowed, and links that stay in their checkout. Raises `WriteError`.
    """
    try:
        target = Path(real_path(path))
        if _content(target) != before:
            raise WriteError(f"{path} has changed in the meantime, so torchlint did not write it")
        if before is not None and not os.access(target, os.W_OK):
            raise WriteError(f"cannot write {path}: it is read-only")
        _replace(target, after, new=before is None)
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from None


def overwrite(path: Path, content: bytes) -> None:
    """Write a file that the user has named, whatever it holds. Raises `WriteError`."""
    try:
        if _is_stream(path):
            path.write_bytes(content)
        else:
            _overwrite(real_path(path), content)
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from None


def _is_stream(path: Path) -> bool:
    """Whether it is no file of a checkout, such as /dev/stdout."""
    return str(path) == os.devnull or path.parent in _STREAMS


def _overwrite(path: str, content: bytes) -> None:
    with suppress(FileNotFoundError):
        regular.check(os.stat(path), path)
    with open(path, "wb", opener=_opened_as_it_is) as file:
        regular.check(os.fstat(file.fileno()), path)
        if os.fstat(file.fileno()).st_nlink > 1:
            raise OSError(errno.EMLINK, "the file has another name, a hard link, which would change too", path)
        file.truncate()
        file.write(content)


def _opened_as_it_is(path: str, flags: int) -> int:
    """Open a file without looking through a link, waiting for a pipe, or truncating what may be the wrong file."""
    return os.open(path, (flags & ~os.O_TRUNC) | regular.NO_LINK | regular.NO_WAIT, 0o666)


def _content(path: Path) -> bytes | None:
    try:
        return regular.read(path, links=False)
    except FileNotFoundError:
        return None


def _replace(path: Path, content: bytes, *, new: bool) -> None:
    temporary = path.with_name(f".torchlint-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb", opener=_opened_for_all if new else _opened_for_me) as file:
            file.write(content)
            if not new:
                _copy_permissions(os.stat(path, follow_symlinks=False), file.fileno(), temporary)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _opened_for_all(path: str, flags: int) -> int:
    return os.open(path, flags, 0o666)


def _opened_for_me(path: str, flags: int) -> int:
    """The copy of a secret is unreadable for others until it has the permissions of the original."""
    return os.open(path, flags, 0o600)


def _copy_permissions(source: os.stat_result, target: int, name: Path) -> None:
    """Give them to the open file `target`: somebody else may have put another in the place of its `name`."""
    if hasattr(os, "fchown"):
        with suppress(PermissionError):
            os.fchown(target, source.st_uid, source.st_gid)
        os.fchmod(target, stat.S_IMODE(source.st_mode) & _PERMISSIONS)
    else:
        os.chmod(name, stat.S_IMODE(source.st_mode) & _PERMISSIONS)

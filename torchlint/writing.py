"""Files are replaced whole, or not at all: never half-written, never over what somebody else has just saved."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


class WriteError(Exception):
    """A file that was not written, and why: the message is for the user."""


def write(path: Path, before: bytes | None, after: bytes) -> None:
    """Replace the content of a file, which must still be `before`; None is for a file that does not exist yet.

    Follows links, keeps permissions, and the owner where that is allowed. Raises `WriteError`.
    """
    try:
        target = Path(os.path.realpath(path))
        if _content(target) != before:
            raise WriteError(f"{path} has changed since it was read, so it was left alone")
        if before is not None and not os.access(target, os.W_OK):
            raise WriteError(f"cannot write {path}: it is read-only")
        _replace(target, after, new=before is None)
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from None


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _replace(path: Path, content: bytes, *, new: bool) -> None:
    temporary = path.with_name(f".torchlint-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb", opener=_opened_for_all if new else _opened_for_me) as file:
            file.write(content)
        if not new:
            _copy_permissions(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _opened_for_all(path: str, flags: int) -> int:
    return os.open(path, flags, 0o666)


def _opened_for_me(path: str, flags: int) -> int:
    """Nobody may read the copy of a secret before it has the permissions of the original."""
    return os.open(path, flags, 0o600)


def _copy_permissions(source: Path, target: Path) -> None:
    status = source.stat()
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(target, status.st_uid, status.st_gid)
    os.chmod(target, stat.S_IMODE(status.st_mode))

"""Writing a file anew: at once or not at all, and only if it is still what was read."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


class WriteError(Exception):
    """Why a file was left as it is; the message is for the user and names the file."""


def write(path: Path, before: bytes, after: bytes) -> None:
    """Replace what is in a file, or in the file a link leads to, keeping its permissions; raises `WriteError`.

    `before` is what was read: a file that has changed since is left alone.
    """
    real = Path(os.path.realpath(path))
    try:
        if real.read_bytes() != before:
            raise WriteError(f"{path} has changed while it was read; it was left as it is")
        _replace(real, after)
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {error.strerror or error}") from None


def _replace(path: Path, data: bytes) -> None:
    if not os.access(path, os.W_OK):
        raise PermissionError(None, "it is read-only")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        _copy_rights(path, name)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _copy_rights(path: Path, name: str) -> None:
    shutil.copymode(path, name)
    if hasattr(os, "chown"):
        status = path.stat()
        with suppress(OSError):  # only the administrator may give files away
            os.chown(name, status.st_uid, status.st_gid)

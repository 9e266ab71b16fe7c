"""Reading regular files, whole and within a limit: no device, pipe or folder can stand in the place of one."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MAX_BYTES = 200_000_000
"""No file that anybody writes by hand, or torchlint writes, is larger."""

NO_LINK = getattr(os, "O_NOFOLLOW", 0)
NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""For anything that replaced a file between the check and the open."""


def read(path: str | Path, limit: int = MAX_BYTES, *, links: bool = True, own: bool = False) -> bytes:
    """The content of a file of at most `limit` bytes.

    Without `links` no link may stand in its place; with `own` it must belong to the user of this process.

    Raises `OSError`, whose `strerror` says what is wrong.
    """
    if not links and os.path.islink(path):
        raise OSError(errno.ELOOP, "is a link", str(path))
    check(os.stat(path), path, limit)  # before it is opened: that alone sets some devices going
    extra = NO_WAIT if links else NO_WAIT | NO_LINK
    with open(path, "rb", opener=lambda path, flags: os.open(path, flags | extra)) as file:
        status = os.fstat(file.fileno())
        check(status, path, limit)
        if own and not is_own(status):
            raise OSError(errno.EPERM, "belongs to another user", str(path))
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_large(path, "more", limit)
    return data


def check(status: os.stat_result, path: str | Path, limit: int | None = None) -> None:
    """Raise `OSError` for what is no regular file, or larger than `limit` bytes."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if limit is not None and status.st_size > limit:
        raise _too_large(path, f"{status.st_size:,}", limit)


def is_own(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to the user of this process, which Windows does not say."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _too_large(path: str | Path, size: str, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"file of {size} bytes is larger than the limit of {limit:,}", str(path))

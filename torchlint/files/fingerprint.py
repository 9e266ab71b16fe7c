"""How a file is known again: by what the system says of it, or by its content."""

from __future__ import annotations

import os
from dataclasses import dataclass

Status = tuple[int, ...]


@dataclass(frozen=True)
class Stamp:
    """Which content a file had, and what the system said of the file while it had it."""

    status: Status
    digest: str


def status_of(path: str | os.PathLike[str]) -> Status:
    """Status fields that change when a file is written, even if its size and modification time are set back."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def digest_of(data: bytes, key: bytes = b"") -> str:
    """The digest of data; with a `key`, only its owner can compute it."""
    try:
        from _blake2 import blake2b  # `hashlib` loads OpenSSL, which takes longer than linting a small file
    except ImportError:
        from hashlib import blake2b

    return blake2b(data, digest_size=16, key=key).hexdigest()

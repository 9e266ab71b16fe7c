"""Paths that a repository chooses (`extend`, `baseline`, `cache-dir`, `src`): they stay inside of it."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath

from torchlint.files.checkout import is_within, real_path, top_around


class LeadsOutside(Exception):
    """A path that is refused, and why."""


def path_inside(folder: Path, text: str) -> Path:
    """The path that a configuration file in an absolute `folder` means by `text`; raises `LeadsOutside`.

    It may lead anywhere in the Git repository around the folder, or else in the working folder, or else below the
    folder itself. That is decided by its text first, and only then by what is on disk.
    """
    if not text or not text.isprintable():
        raise LeadsOutside("must be a path" if not text else "must be a path without control characters")
    if PurePosixPath(text).is_absolute() or PureWindowsPath(text).anchor:
        raise LeadsOutside(f"must be relative to the folder of this file, not `{text}`")
    top = top_around(folder) or os.path.realpath(folder)
    if not is_within(os.path.normpath(os.path.join(os.path.realpath(folder), text)), top):
        raise LeadsOutside(f"`{text}` leads out of {top}")
    try:
        real = real_path(folder / text)
    except (OSError, ValueError) as error:
        raise LeadsOutside(f"`{text}`: {getattr(error, 'strerror', None) or error}") from None
    if not is_within(real, top):
        raise LeadsOutside(f"`{text}` leads out of {top}")
    return Path(os.path.normpath(folder / text)) if os.pardir not in Path(text).parts else Path(real)

"""Where a path leads. A checkout decides nothing outside of itself: no link leads out of it.

All paths that a repository can choose go through `real_path`: the files that are linted and fixed, configuration,
baselines, and what a link may have been put in the place of, such as the file of a report.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


def real_path(path: str | Path, named: str | Path | None = None) -> str:
    """The path without links; raises `OSError` if one of them leads out of the checkout in which it stands.

    That is the innermost Git repository around the link, or else the working folder or the folder `named`, which the
    user has named, if it is in there. Elsewhere links are the user's own.
    """
    working = os.path.realpath(os.getcwd())
    tops = {working} if named is None else {working, os.path.realpath(named)}
    whole = Path(working, path)
    at = whole.anchor
    for part in whole.parts[1:]:
        at = os.path.dirname(at) if part == os.pardir else os.path.join(at, part)
        if _is_link(at):
            folder, at = os.path.dirname(at), os.path.realpath(at)
            top = _top_around(folder, tops)
            if top is not None and not is_within(at, top):
                raise OSError(errno.ELOOP, f"a link leads out of {top}", str(path))
    return at


def _top_around(folder: str, tops: set[str]) -> str | None:
    """The top of the checkout around a folder, if it is in one."""
    around = [folder, *map(str, Path(folder).parents)]
    repository = next((above for above in around if os.path.lexists(os.path.join(above, ".git"))), None)
    return repository or next((above for above in around if above in tops), None)


def top_around(folder: str | Path) -> str | None:
    """The real top of the checkout around a folder; None if it is in none."""
    return _top_around(os.path.realpath(folder), {os.path.realpath(os.getcwd())})


def is_within(path: str, folder: str) -> bool:
    """Whether a path is in a folder, or is that, by its parts alone."""
    return os.path.normcase(path).startswith(os.path.join(os.path.normcase(folder), "")) or path == folder


def _is_link(path: str) -> bool:
    is_junction = getattr(os.path, "isjunction", None)  # since Python 3.12
    return os.path.islink(path) or bool(is_junction and is_junction(path))

"""What Git says has changed in a working tree, whatever the user has configured for looking at it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

EVERYTHING = range(1, 1 << 62)
"""All lines of a file, however many they are."""

_HUNK = re.compile(rb"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\(?:([0-7]{3})|(.))", re.DOTALL)
_CONTROLS = dict(zip(b"abtnvfr", b"\a\b\t\n\v\f\r", strict=True))
_DIFF = (
    *("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"),
    *("--find-renames", "--ignore-submodules=all", "-O/dev/null"),
)
_PATCH = ("--unified=0", "--inter-hunk-context=0")
_UNWANTED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_DIFF_OPTS")
"""A hook sets these for its own repository; the files need not be in it."""


class GitError(Exception):
    """Git cannot say what has changed: the message is for the user."""


@dataclass(frozen=True)
class Change:
    """What has changed in a file: lines as they are now, and its name at the time (none if it was not there)."""

    lines: tuple[range, ...]
    old_name: bytes | None = None


def top_of(folder: Path) -> Path:
    """The folder of the Git repository that holds `folder`; raises `GitError`."""
    for above in (folder, *folder.parents):
        if (above / ".git").exists():
            found = _git(above, "rev-parse", "--show-toplevel").removesuffix(b"\n")
            return Path(os.path.realpath(os.fsdecode(found)))
    raise GitError(f"{folder} is not in a Git repository")


class Repository:
    """The working tree of a repository, compared with where its branch and `revision` parted."""

    def __init__(self, top: Path, revision: str) -> None:
        """Raises `GitError`."""
        self.top = top
        self._base = self._merge_base(revision)

    def change(self, path: Path) -> Change | None:
        """What has changed in the file at a real path below `top`; None if nothing has."""
        name = os.fsencode(os.path.relpath(path, self.top).replace(os.sep, "/"))
        if name not in self._tracked:
            return Change((EVERYTHING,))
        return self._changes.get(name)

    def before(self, change: Change) -> bytes | None:
        """The content of a file at the time; None if it was not there."""
        if change.old_name is None:
            return None
        try:
            return self._git("cat-file", "blob", os.fsdecode(self._base.encode() + b":" + change.old_name))
        except GitError:
            return None

    def _git(self, *arguments: str) -> bytes:
        return _git(self.top, *arguments)

    def _merge_base(self, revision: str) -> str:
        unknown = f"unknown revision `{revision}` in the Git repository {self.top}"
        if revision.startswith("-"):
            raise GitError(unknown)
        try:
            commit = self._git("rev-parse", "--verify", "--quiet", revision).decode().strip()
        except GitError:
            raise GitError(unknown) from None
        try:
            return self._git("merge-base", commit, "HEAD").decode().strip()
        except GitError as error:
            reason = str(error) or "they have no commit in common; is the history cut off (`git fetch --unshallow`)?"
            raise GitError(f"cannot compare with `{revision}` in {self.top}: {reason}") from None

    @cached_property
    def _tracked(self) -> set[bytes]:
        return set(self._git("ls-files", "-z").split(b"\0"))

    @cached_property
    def _changes(self) -> dict[bytes, Change]:
        names = dict(_changed_names(self._git(*_DIFF, "--numstat", "-z", self._base, "--")))
        if not names:
            return {}
        lines: dict[bytes, list[range]] = {}
        for name, changed in _changed_lines(self._git(*_DIFF, *_PATCH, self._base, "--")):
            lines.setdefault(name, []).append(changed)
        return {
            name: Change((EVERYTHING,) if is_binary else tuple(lines.get(name, ())), old)
            for name, (old, is_binary) in names.items()
        }


def _git(folder: Path, *arguments: str) -> bytes:
    """The output of a Git command; raises `GitError` with what it complained about."""
    environment = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    except FileNotFoundError:
        raise GitError("git is not installed, or not in the PATH") from None
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise GitError(lines[0].removeprefix("fatal: ") if lines else "")
    return done.stdout


def _changed_names(numstat: bytes) -> Iterator[tuple[bytes, tuple[bytes, bool]]]:
    """Name, old name, and whether it is no text, of each file that differs."""
    fields = iter(numstat.split(b"\0"))
    for field in fields:
        if field:
            added, _, name = field.split(b"\t", 2)
            old, new = (name, name) if name else (next(fields), next(fields))
            yield new, (old, added == b"-")


def _changed_lines(patch: bytes) -> Iterator[tuple[bytes, range]]:
    """Name and lines of each hunk. Lines of content begin with `+`, `-` or a backslash."""
    name, in_header = b"", False
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            in_header = True
        elif in_header and line.startswith(b"+++ "):
            name = _unquoted(line[4:].rstrip(b"\t")).removeprefix(b"b/")
        elif found := _HUNK.match(line):
            in_header = False
            first, count = int(found[1]), int(found[2] or 1)
            yield name, range(first, first + count)


def _unquoted(name: bytes) -> bytes:
    """A file name that Git has put in quotes because of unusual characters."""
    if not name.startswith(b'"'):
        return name
    return _ESCAPE.sub(_unescaped, name[1:-1])


def _unescaped(escape: re.Match[bytes]) -> bytes:
    if escape[1]:
        return bytes([int(escape[1], 8)])
    return bytes([_CONTROLS.get(escape[2][0], escape[2][0])])

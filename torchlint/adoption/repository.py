"""Changes in a working tree, found by comparing bytes: a repository's own settings do not count."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torchlint.adoption.git import GitError, Store, View, ask
from torchlint.files import regular

EVERYTHING = range(1, 1 << 62)
"""All lines of a file, however many they are."""

_REVISION = re.compile(r"((?:[^~^:@]|@(?:\{[^}]*\})?)*)(.*)", re.DOTALL)
"""A name, and the way from there: `~3`, `^2`, `^{commit}`, `:path`."""
_HUNK = re.compile(rb"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
_DIFF = ("diff-tree", "--find-renames", "--ignore-cr-at-eol")
_PATCH = ("--patch", "--unified=0", "--inter-hunk-context=0")


@dataclass(frozen=True)
class Change:
    """The changes of a file: its changed lines as they are now, and its old text (None if it is new)."""

    lines: tuple[range, ...]
    old: str | None = None


def top_of(folder: Path) -> Path:
    """The folder of the Git repository that holds `folder`; raises `GitError`."""
    for above in (folder, *folder.parents):
        if os.path.lexists(above / ".git"):
            return Path(os.path.realpath(above))
    raise GitError(f"{folder} is not in a Git repository")


def commit_of(folder: Path) -> str:
    """The commit that is checked out in the repository around a folder; empty if that cannot be said."""
    try:
        top = top_of(folder)
        is_repository = (top / ".git").is_file() or (top / ".git" / "HEAD").is_file()
        found = ask(top, "rev-parse", "--verify", "--quiet", "HEAD") if is_repository else ""
    except GitError:
        return ""
    return found[:12] if re.fullmatch("[0-9a-f]{40,64}", found) else ""


class Repository:
    """The working tree of a repository, compared with where its branch and `revision` parted."""

    def __init__(self, top: Path, revision: str) -> None:
        """Raises `GitError`."""
        self._top = top
        self._revision = revision
        self._store = Store.of(top)
        with self._store.view() as objects:
            self._base = self._merge_base(objects)

    def changes(self, paths: Iterable[Path]) -> dict[Path, Change]:
        """The changes of files at real paths below the top, for changed files only.

        Raises `GitError`.
        """
        try:
            with self._store.view() as objects:
                return _Comparison(self._top, objects, self._base).changes(paths)
        except GitError as error:
            raise self._incomparable(str(error)) from None

    def before(self, change: Change) -> bytes | None:
        """The content of a file at the time; None if it was not there. Raises `GitError`."""
        if change.old is None:
            return None
        with self._store.view() as objects:
            return objects.run("cat-file", "blob", change.old)

    def _merge_base(self, objects: View) -> str:
        commit = self._commit(objects)
        try:
            return objects.run("merge-base", commit, ask(self._top, "rev-parse", "--verify", "HEAD")).decode().strip()
        except GitError as error:
            reason = str(error) or "they have no commit in common; is the history cut off (`git fetch --unshallow`)?"
            raise self._incomparable(reason) from None

    def _commit(self, objects: View) -> str:
        """The commit of a revision: Git resolves the name, we walk from there."""
        parts = _REVISION.fullmatch(self._revision)
        try:
            if parts is None or not parts[1] or parts[1].startswith("-"):
                raise GitError
            start, way = ask(self._top, "rev-parse", "--verify", "--quiet", parts[1]), parts[2]
            return objects.run("rev-parse", "--verify", "--quiet", start + way).decode().strip()
        except GitError as error:
            reason = f": {error}" if str(error) else ""
            raise GitError(f"unknown revision `{self._revision}` in the Git repository {self._top}{reason}") from None

    def _incomparable(self, reason: str) -> GitError:
        if reason.startswith("unable to read"):
            reason += ", which is missing, and torchlint does not fetch it: is this a partial clone?"
        return GitError(f"cannot compare with `{self._revision}` in {self._top}: {reason}")


class _Comparison:
    """A commit beside files as they are now, which Git is shown as two trees of files that are called f0, f1, ..."""

    def __init__(self, top: Path, objects: View, commit: str) -> None:
        self._top = top
        self._objects = objects
        self._old = dict(_files(objects.run("ls-tree", "-r", "-z", "--full-tree", commit)))

    def changes(self, paths: Iterable[Path]) -> dict[Path, Change]:
        unreadable, changed = {}, {}
        for path in paths:
            content = _content(path)
            if content is None:
                unreadable[path] = Change((EVERYTHING,))
            elif not self._is_the_same(content, self._old.get(self._name(path))):
                changed[path] = content
        return {**unreadable, **(self._compare(changed) if changed else {})}

    def _name(self, path: Path) -> bytes:
        return os.fsencode(os.path.relpath(path, self._top).replace(os.sep, "/"))

    def _is_the_same(self, content: bytes, old: str | None) -> bool:
        """Whether that is the old content, or was checked out of it with other newlines."""
        return old in (self._objects.name(content), self._objects.name(content.replace(b"\r\n", b"\n")))

    def _compare(self, contents: Mapping[Path, bytes]) -> dict[Path, Change]:
        names = [self._name(path) for path in contents]
        gone = self._gone({os.path.splitext(name)[1] for name in names if name not in self._old})
        olds = [self._old.get(name) for name in [*names, *gone]]
        trees = self._tree(olds), self._tree([self._objects.add(content) for content in contents.values()])
        lines: dict[int, list[range]] = {}
        for number, changed in _changed_lines(self._objects.run(*_DIFF, *_PATCH, *trees)):
            lines.setdefault(number, []).append(changed)
        changes = {path: Change((), old) for path, old in zip(contents, olds, strict=False)}
        paths = list(contents)
        for number, old, is_binary in _pairs(self._objects.run(*_DIFF, "--numstat", "-z", *trees)):
            if number < len(paths):
                changes[paths[number]] = Change((EVERYTHING,) if is_binary else tuple(lines.get(number, ())), olds[old])
        return changes

    def _gone(self, suffixes: set[bytes]) -> list[bytes]:
        """The old files that new ones of these suffixes may have been."""
        alike = [name for name in self._old if os.path.splitext(name)[1] in suffixes]
        return [name for name in alike if not os.path.lexists(os.path.join(os.fsencode(self._top), name))]

    def _tree(self, objects: Iterable[str | None]) -> str:
        entries = [f"100644 blob {name}\tf{number}\0" for number, name in enumerate(objects) if name is not None]
        return self._objects.run("mktree", "--missing", "-z", given="".join(entries).encode()).decode().strip()


def _content(path: Path) -> bytes | None:
    """None for what cannot be read, which whoever lints it will say."""
    try:
        return regular.read(path)
    except OSError:
        return None


def _files(tree: bytes) -> Iterator[tuple[bytes, str]]:
    """Name and object of each file, without links and submodules."""
    for line in filter(None, tree.split(b"\0")):
        values, _, name = line.partition(b"\t")
        mode, _, found = values.split()
        if mode.startswith(b"100"):
            yield name, found.decode()


def _pairs(numstat: bytes) -> Iterator[tuple[int, int, bool]]:
    """Number, old number, and whether it is no text, of each file that differs."""
    fields = iter(numstat.split(b"\0"))
    for field in filter(None, fields):
        added, _, name = field.split(b"\t")
        old, new = (name, name) if name else (next(fields), next(fields))
        yield int(new[1:]), int(old[1:]), added == b"-"


def _changed_lines(patch: bytes) -> Iterator[tuple[int, range]]:
    """Number of the file and lines of each hunk. Lines of content begin with `+`, `-` or a backslash."""
    number = -1
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            number = int(line.rpartition(b"f")[2])
        elif found := _HUNK.match(line):
            first, count = int(found[1]), int(found[2] or 1)
            yield number, range(first, first + count)

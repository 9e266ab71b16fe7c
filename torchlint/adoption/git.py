"""Git, used so that nothing of a repository runs: not what its configuration, attributes or hooks name."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torchlint.files import regular

PATIENCE = 120.0
"""Seconds that a command may take: a pipe in the place of a file would stop it for ever."""

_SETTINGS = ("GIT_CONFIG", "GIT_EXEC_PATH")
"""How variables begin by which users set up Git. All others speak of the repository of a hook that runs us."""
_NOTHING_ELSE = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
_CONFIGURATION = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = {}\n"


class GitError(Exception):
    """Git cannot say what has changed: the message is for the user."""


def ask(top: Path, *arguments: str) -> str:
    """Git's answer about the repository at `top`, without objects: it reads only refs and configuration.

    Raises `GitError`.
    """
    above = {"GIT_CEILING_DIRECTORIES": str(top.parent)}
    return os.fsdecode(_run({**_environment(_SETTINGS), **above}, "-C", str(top), *arguments).removesuffix(b"\n"))


@dataclass(frozen=True)
class Store:
    """Where the objects of a repository are, and what has to be known to read them."""

    objects: Path
    hash_name: str
    shallow: bytes | None
    """The commits at which a history is cut off."""

    @classmethod
    def of(cls, top: Path) -> Store:
        """That of the repository at `top`; raises `GitError`."""
        objects, shallow = (top / ask(top, "rev-parse", "--git-path", name) for name in ("objects", "shallow"))
        hash_name = ask(top, "rev-parse", "--show-object-format")
        try:
            return cls(objects, hash_name, regular.read(shallow) if shallow.exists() else None)
        except OSError as error:
            raise GitError(f"cannot read {shallow}: {error.strerror or error}") from None

    @contextmanager
    def view(self) -> Iterator[View]:
        """A view of the objects; raises `GitError`."""
        try:
            folder = tempfile.TemporaryDirectory(prefix="torchlint-")
        except OSError as error:
            raise GitError(f"there is no folder for temporary files: {error.strerror}") from None
        with folder as name:
            yield View(Path(name), self)


class View:
    """The objects of a repository, seen from one of our own that has no configuration, attributes, hooks or refs."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder = folder
        self._hash_name = store.hash_name
        self._variables = {
            **_environment(("GIT_EXEC_PATH",)),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(str(store.objects)),
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_DIR": str(folder),
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
        }
        for name in ("objects", "refs"):
            (folder / name).mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        (folder / "config").write_text(_CONFIGURATION.format(store.hash_name))
        if store.shallow is not None:
            (folder / "shallow").write_bytes(store.shallow)

    def run(self, *arguments: str, given: bytes = b"") -> bytes:
        """The output of a command; raises `GitError` with what it complained about."""
        return _run(self._variables, *arguments, given=given)

    def name(self, content: bytes) -> str:
        """Git's name for a file with this content."""
        return hashlib.new(self._hash_name, _blob(content), usedforsecurity=False).hexdigest()

    def add(self, content: bytes) -> str:
        """Make it an object of ours, which goes with the view; what it is called."""
        name = self.name(content)
        path = self._folder / "objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(_blob(content), 1))
        return name


def _blob(content: bytes) -> bytes:
    return b"blob %d\0%b" % (len(content), content)


def _quoted(path: str) -> str:
    """A path for a variable that lists several."""
    return '"{}"'.format(path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))


def _environment(kept: tuple[str, ...]) -> dict[str, str]:
    """The variables of this process, of those for Git only some; and what keeps Git from asking anybody else."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(kept)}
    return {**others, **_NOTHING_ELSE}


def _run(variables: dict[str, str], *arguments: str, given: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            [_program(), *arguments], env=variables, input=given, capture_output=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git {arguments[-1]} took longer than {PATIENCE:g} seconds") from None
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise GitError(lines[0].removeprefix("fatal: ") if lines else "")
    return done.stdout


def _program() -> str:
    """The path of Git, which is never one in the working folder, where Windows and a `.` in the PATH look first."""
    name = "git.exe" if sys.platform == "win32" else "git"
    for folder in filter(os.path.isabs, os.get_exec_path()):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise GitError("git is not installed, or not in the PATH")

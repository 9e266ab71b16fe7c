"""Paths -> files, as Git would see them: each once, in a stable order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torchlint.files.checkout import real_path
from torchlint.files.source import Unread
from torchlint.project import gitignore
from torchlint.project.config import Configurations, shown_path
from torchlint.project.gitignore import Folder
from torchlint.project.patterns import Patterns
from torchlint.project.settings import Settings

SUFFIXES = (".py", ".ipynb")
DEFAULT_EXCLUDES = (
    *(".bzr/", ".git/", ".hg/", ".svn/", ".direnv/", ".venv/", "venv/", ".vscode/"),
    *(".hypothesis/", ".mypy_cache/", ".pytest_cache/", ".pytype/", ".ruff_cache/", "__pycache__/"),
    *(".eggs/", ".nox/", ".pants.d/", ".tox/", "*.egg-info/", "build/", "buck-out/", "dist/"),
    *(".ipynb_checkpoints/", "__pypackages__/", "node_modules/", "site-packages/"),
)
"""Folders that are left out wherever they are; `exclude = ["!build/"]` brings one back."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file to lint, its path as it is shown, and the settings that apply to it."""

    path: Path
    settings: Settings
    problem: Unread | None = None
    """Why it cannot be read, if that is known already."""


class Discovery:
    """Finds the files below the given paths. What is named itself is always taken, unless `force_exclude`."""

    def __init__(
        self, configurations: Configurations, exclude: Sequence[str] = (), tell: Callable[[str], None] | None = None
    ) -> None:
        """`exclude` are patterns relative to the working folder, in addition to those of the configuration.

        `tell` receives messages: which configuration applies, and what is skipped and why.
        """
        self._configurations = configurations
        self._exclude = Patterns(Path.cwd(), exclude, lambda number: f"--exclude {exclude[number]}")
        self._tell = tell
        self._told: set[str] = set()
        self._warnings: dict[str, None] = {}

    @property
    def warnings(self) -> list[str]:
        """The ignore files that could not be used so far, and why."""
        return list(self._warnings)

    def _warn(self, text: str) -> None:
        self._warnings[text] = None

    def files(self, paths: Iterable[Path]) -> list[Target]:
        """All files to lint, by path; raises `ConfigError`, and `FileNotFoundError` when one is not there."""
        found: dict[str, Target] = {}
        for path in paths:
            if not os.path.lexists(path):
                raise FileNotFoundError(f"path does not exist: {path}")
            for target, real in self._found(path):
                if real not in found or (found[real].path.is_symlink() and not target.path.is_symlink()):
                    found[real] = target
        if self._tell is not None:
            self._tell_configurations(found.values())
        return sorted(found.values(), key=_part_by_part)

    def configuration_of(self, path: Path) -> Settings:
        """The settings that apply to a file or folder, whether it is linted or not; raises `ConfigError`."""
        if not os.path.lexists(path):
            raise FileNotFoundError(f"path does not exist: {path}")
        return self._configurations.of_folder(path if path.is_dir() else path.parent)

    def _tell_configurations(self, targets: Iterable[Target]) -> None:
        for files in dict.fromkeys(target.settings.files for target in targets):
            shown = ", which extends ".join(map(shown_path, files))
            self._say(f"configuration: {shown}" if files else "configuration: no file, the defaults")

    def _say(self, text: str) -> None:
        """Tell something, once."""
        if self._tell is not None and text not in self._told:
            self._told.add(text)
            self._tell(text)

    def _skip(self, path: Path, reason: str, is_folder: bool = False) -> None:
        self._say(f"skipped {path}{os.sep * is_folder}: {reason}")

    def _found(self, path: Path) -> Iterator[tuple[Target, str]]:
        """The targets of a path that the caller names, each with its real path."""
        real, problem = _resolved(path)
        if path.is_dir() and not problem:
            yield from self._below(path)
        elif (settings := self.settings_of(path)) is not None:
            yield Target(path, settings, problem), real

    def settings_of(self, path: Path) -> Settings | None:
        """The settings for a file that the caller names; None if it is not to be linted at all."""
        settings = self._configurations.of_folder(path.parent)
        return None if self._is_left_out(path, False, settings) else settings

    def _below(self, argument: Path) -> Iterator[tuple[Target, str]]:
        top = argument.absolute()
        if self._is_left_out(argument, True, self._configurations.of_folder(top)):
            return
        ours: dict[Settings, tuple[Patterns, ...]] = {}
        stack = [(argument, os.path.realpath(argument), gitignore.above(top, self._warn))]
        while stack:
            folder, real, git = stack.pop()
            settings = self._configurations.of_folder(folder)
            try:
                entries = list(os.scandir(folder))
            except OSError as error:
                yield Target(folder, settings, Unread.because_of(error, "folder cannot be read: ")), real
                continue
            if folder != argument and any(entry.name == "pyvenv.cfg" for entry in entries):
                self._skip(folder, "a virtual environment", is_folder=True)
                continue
            absolute = folder.absolute()
            git = gitignore.entering(absolute, git, self._warn)
            ours[settings] = ours.get(settings) or self._ours(settings, top)
            if self._tell is not None:
                self._tell_skipped(folder, entries, gitignore.Folder(absolute, git, ours[settings]))
            for entry in _wanted(entries, gitignore.Folder(absolute, git, ours[settings])):
                path = folder / entry.name
                if entry.is_dir(follow_symlinks=False):
                    stack.append((path, os.path.join(real, entry.name), git))
                elif entry.is_symlink():
                    target, problem = _resolved(path, argument)
                    yield Target(path, settings, problem), target
                else:
                    yield Target(path, settings), os.path.join(real, entry.name)

    def _is_left_out(self, path: Path, is_folder: bool, settings: Settings) -> bool:
        """Whether a path that the caller names is not to be linted, or anything below it."""
        if not settings.force_exclude:
            return False
        whole = path.absolute()
        sources = (gitignore.above(whole, self._warn), self._ours(settings, settings.root))
        reason = next(filter(None, (gitignore.reason_within(whole, is_folder, layers) for layers in sources)), "")
        if reason:
            self._skip(path, reason, is_folder)
        return bool(reason)

    def _tell_skipped(self, folder: Path, entries: Iterable[os.DirEntry[str]], ignoring: Folder) -> None:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if (is_folder or entry.name.endswith(SUFFIXES)) and ignoring.ignores(entry.name, is_folder):
                self._skip(folder / entry.name, ignoring.reason(entry.name, is_folder), is_folder)
            elif entry.is_symlink() and os.path.isdir(entry):
                self._skip(folder / entry.name, "a link to a folder, which is linted where it is")
            elif not is_folder and entry.name.endswith(SUFFIXES) and not _is_source(entry):
                self._skip(folder / entry.name, "no regular file")

    def _ours(self, settings: Settings, root: Path) -> tuple[Patterns, ...]:
        """The patterns of torchlint's own; those of no particular place count below `root`."""
        return (
            Patterns(root, DEFAULT_EXCLUDES, _default_origin),
            Patterns(settings.root_of("exclude"), settings.exclude, partial(_exclude_origin, settings)),
            self._exclude,
        )


def _default_origin(number: int) -> str:
    return f'excluded by default; `exclude = ["!{DEFAULT_EXCLUDES[number]}"]` includes it'


def _exclude_origin(settings: Settings, number: int) -> str:
    return f"exclude `{settings.exclude[number]}` of {settings.origins.get('exclude', 'the configuration')}"


def _resolved(path: Path, named: Path | None = None) -> tuple[str, Unread | None]:
    """Where a path leads, and why it must not be followed, if it must not."""
    try:
        return real_path(path, named), None
    except OSError as error:
        return os.path.abspath(path), Unread.because_of(error)


def _part_by_part(target: Target) -> str:
    """A key by which a folder's files stand together; one short text, since there may be many files."""
    return os.fspath(target.path).replace(os.sep, "\0")


def _wanted(entries: Iterable[os.DirEntry[str]], folder: Folder) -> Iterator[os.DirEntry[str]]:
    """The folders and files of a folder that neither Git nor our own patterns ignore."""
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if (is_folder or _is_source(entry)) and not folder.ignores(entry.name, is_folder):
            yield entry


def _is_source(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is Python source, or a link that should lead to some; other kinds of entry are not."""
    if not entry.name.endswith(SUFFIXES) or entry.name in SUFFIXES:
        return False
    return entry.is_file(follow_symlinks=False) or (entry.is_symlink() and not os.path.isdir(entry))

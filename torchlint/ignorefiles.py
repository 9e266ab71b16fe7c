"""What Git would ignore: .gitignore files of every level, .git/info/exclude, and patterns of our own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec, RegexPattern

from torchlint.settings import relative

_FOLDER_MARK = "ps_d"
"""The group in which pathspec catches the slash behind a folder that a pattern names."""


class _Rule(NamedTuple):
    """One pattern."""

    regex: re.Pattern[str]
    ignored: bool
    folders_only: bool


@dataclass(frozen=True)
class Patterns:
    """The patterns of one ignore file, which speak of paths below `root`."""

    root: Path
    rules: tuple[_Rule, ...]
    """The strongest first."""

    @cached_property
    def rules_of_files(self) -> tuple[_Rule, ...]:
        """Those that can match something else than a folder."""
        return tuple(rule for rule in self.rules if not rule.folders_only)

    def verdict(self, inside: str, is_folder: bool) -> bool | None:
        """Whether an entry, by its path from `root`, is ignored (True), re-included (False) or not spoken of (None).

        That a folder around it is ignored does not count: whoever walks did not enter that folder.
        """
        entry = f"{inside}/" if is_folder else inside
        for regex, ignored, _ in self.rules if is_folder else self.rules_of_files:
            for match in regex.finditer(entry):
                if match.groupdict().get(_FOLDER_MARK) is None or match.end(_FOLDER_MARK) == len(entry):
                    return ignored
        return None


class Folder:
    """A folder whose entries are asked about: all that is the same for each of them is found out once."""

    def __init__(self, path: Path, *sources: Sequence[Patterns]) -> None:
        """Of the layers of a source, the last goes before the others; what one source ignores is ignored."""
        self._sources = [list(_seen_from(path, layers)) for layers in sources]

    def ignores(self, name: str, is_folder: bool) -> bool:
        return any(_first_verdict(layers, name, is_folder) for layers in self._sources)


def _seen_from(folder: Path, layers: Sequence[Patterns]) -> Iterator[tuple[Patterns, str]]:
    """The layers that speak of entries of `folder`, the strongest first, and the path to it from their roots."""
    for layer in reversed(layers):
        inside = relative(folder, layer.root)
        if inside is not None and layer.rules:
            yield layer, "" if inside == "." else f"{inside}/"


def _first_verdict(layers: Iterable[tuple[Patterns, str]], name: str, is_folder: bool) -> bool:
    for layer, before in layers:
        verdict = layer.verdict(before + name, is_folder)
        if verdict is not None:
            return verdict
    return False


def patterns(root: Path, lines: Iterable[str]) -> Patterns:
    """Patterns of the .gitignore form; a line that is none is left out, as Git does."""
    rules = [
        _Rule(item.regex, item.include, line.rstrip().endswith("/"))
        for line in lines
        for item in _compiled(line)
        if item.regex is not None and item.include is not None
    ]
    return Patterns(root, tuple(reversed(rules)))


def _compiled(line: str) -> Iterable[RegexPattern]:
    try:
        return GitIgnoreSpec.from_lines([line]).patterns
    except ValueError:
        return ()


def is_within_ignored(path: Path, is_folder: bool, layers: Sequence[Patterns]) -> bool:
    """Whether an entry, or any folder around it, is ignored by `layers`, the last of which goes before the others."""
    around = any(_is_ignored(folder, True, layers) for folder in path.parents)
    return around or _is_ignored(path, is_folder, layers)


def _is_ignored(path: Path, is_folder: bool, layers: Sequence[Patterns]) -> bool:
    return Folder(path.parent, layers).ignores(path.name, is_folder) if path.name else False


def above(path: Path) -> tuple[Patterns, ...]:
    """The ignore files of Git that speak of the entry `path`, from the root of its repository down."""
    folders = list(path.parents)
    for index, folder in enumerate(folders):
        if _is_repository(folder):
            layers: tuple[Patterns, ...] = ()
            for inner in reversed(folders[: index + 1]):
                layers = entering(inner, layers)
            return layers
    return ()


def entering(folder: Path, layers: tuple[Patterns, ...]) -> tuple[Patterns, ...]:
    """`layers` and the ignore file of `folder`; a repository of its own knows nothing of those around it."""
    if _is_repository(folder):
        layers = _read(folder, ".git", "info", "exclude")
    return (*layers, *_read(folder, ".gitignore"))


def _is_repository(folder: Path) -> bool:
    return os.path.exists(os.path.join(folder, ".git"))


def _read(root: Path, *file: str) -> tuple[Patterns, ...]:
    try:
        with open(os.path.join(root, *file), "rb") as stream:
            text = stream.read().decode("utf-8-sig", "surrogateescape")
    except OSError:
        return ()
    return (patterns(root, text.splitlines()),)

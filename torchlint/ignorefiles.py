"""What Git would ignore: .gitignore files of every level, .git/info/exclude, and patterns of our own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec, RegexPattern

from torchlint.settings import relative

_FOLDER_MARK = "ps_d"
"""The group in which pathspec catches the slash behind a folder that a pattern names."""


@dataclass(frozen=True)
class Patterns:
    """The patterns of one ignore file, which speak of paths below `root`."""

    root: Path
    rules: tuple[tuple[re.Pattern[str], bool], ...]
    """What matches and whether that is ignored, the strongest first."""

    def verdict(self, path: Path, is_folder: bool) -> bool | None:
        """Whether the entry `path` is ignored (True), re-included (False) or not spoken of (None).

        That a folder around it is ignored does not count: whoever walks did not enter that folder.
        """
        inside = relative(path, self.root)
        if inside in (None, "."):
            return None
        entry = f"{inside}/" if is_folder else f"{inside}"
        for regex, ignored in self.rules:
            for match in regex.finditer(entry):
                if match.groupdict().get(_FOLDER_MARK) is None or match.end(_FOLDER_MARK) == len(entry):
                    return ignored
        return None


def patterns(root: Path, lines: Iterable[str]) -> Patterns:
    """Patterns of the .gitignore form; a line that is none is left out, as Git does."""
    found = [(item.regex, item.include) for line in lines for item in _compiled(line)]
    rules = [(regex, include) for regex, include in found if regex is not None and include is not None]
    return Patterns(root, tuple(reversed(rules)))


def _compiled(line: str) -> Iterable[RegexPattern]:
    try:
        return GitIgnoreSpec.from_lines([line]).patterns
    except ValueError:
        return ()


def is_ignored(path: Path, is_folder: bool, layers: Sequence[Patterns]) -> bool:
    """Whether an entry is ignored by `layers`, the last of which goes before the others."""
    for layer in reversed(layers):
        verdict = layer.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False


def is_within_ignored(path: Path, is_folder: bool, layers: Sequence[Patterns]) -> bool:
    """Whether an entry, or any folder around it, is ignored by `layers`."""
    around = any(is_ignored(folder, True, layers) for folder in path.parents)
    return around or is_ignored(path, is_folder, layers)


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
        layers = _read(folder, folder / ".git" / "info" / "exclude")
    return (*layers, *_read(folder, folder / ".gitignore"))


def _is_repository(folder: Path) -> bool:
    return (folder / ".git").exists()


def _read(root: Path, file: Path) -> tuple[Patterns, ...]:
    try:
        text = file.read_bytes().decode("utf-8-sig", "surrogateescape")
    except OSError:
        return ()
    return (patterns(root, text.splitlines()),)

"""Files that Git would ignore: .gitignore of every level, .git/info/exclude, and torchlint's own patterns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from torchlint.files import regular
from torchlint.project.patterns import Patterns
from torchlint.project.settings import relative

MAX_BYTES = 10_000_000
"""A larger file is no ignore file."""

Warn = Callable[[str], None]
"""A callback for each ignore file that cannot be used and is skipped."""


class Folder:
    """A folder whose entries are asked about: all that is the same for each of them is found out once."""

    def __init__(self, path: Path, *sources: Sequence[Patterns]) -> None:
        """The last layer of a source overrides earlier ones; a path that one source ignores is ignored."""
        self._sources = [list(_seen_from(path, layers)) for layers in sources]

    def ignores(self, name: str, is_folder: bool) -> bool:
        return any(_first_verdict(layers, name, is_folder) for layers in self._sources)

    def reason(self, name: str, is_folder: bool) -> str:
        """Where the pattern stands by which an entry is ignored."""
        deciding = next(layers for layers in self._sources if _first_verdict(layers, name, is_folder))
        reasons = (layer.reason(before + name, is_folder) for layer, before in deciding)
        return next(filter(None, reasons))


def _seen_from(folder: Path, layers: Sequence[Patterns]) -> Iterator[tuple[Patterns, str]]:
    """The layers that speak of entries of `folder`, the strongest first, and the path to it from their roots."""
    for layer in reversed(layers):
        inside = relative(folder, layer.root)
        if inside is not None and layer:
            yield layer, "" if inside == "." else f"{inside}/"


def _first_verdict(layers: Iterable[tuple[Patterns, str]], name: str, is_folder: bool) -> bool:
    for layer, before in layers:
        verdict = layer.verdict(before + name, is_folder)
        if verdict is not None:
            return verdict
    return False


def reason_within(path: Path, is_folder: bool, layers: Sequence[Patterns]) -> str:
    """Where the pattern stands by which an entry, or a folder around it, is ignored; empty if none is.

    The last of the layers goes before the others.
    """
    entries = [*((folder, True) for folder in path.parents), (path, is_folder)]
    return next(filter(None, (_reason(entry, folder, layers) for entry, folder in entries)), "")


def _reason(path: Path, is_folder: bool, layers: Sequence[Patterns]) -> str:
    folder = Folder(path.parent, layers)
    is_ignored = path.name and folder.ignores(path.name, is_folder)
    return folder.reason(path.name, is_folder) if is_ignored else ""


def above(path: Path, warn: Warn) -> tuple[Patterns, ...]:
    """The ignore files of Git that speak of the entry `path`, from the root of its repository down."""
    folders = list(path.parents)
    for index, folder in enumerate(folders):
        if _is_repository(folder):
            layers: tuple[Patterns, ...] = ()
            for inner in reversed(folders[: index + 1]):
                layers = entering(inner, layers, warn)
            return layers
    return ()


def entering(folder: Path, layers: tuple[Patterns, ...], warn: Warn) -> tuple[Patterns, ...]:
    """`layers` and the ignore file of `folder`; a repository of its own knows nothing of those around it."""
    if _is_repository(folder):
        layers = _read(folder, os.path.join(".git", "info", "exclude"), warn, links=True)
    return (*layers, *_read(folder, ".gitignore", warn, links=False))


def _is_repository(folder: Path) -> bool:
    return os.path.exists(os.path.join(folder, ".git"))


def _read(root: Path, name: str, warn: Warn, *, links: bool) -> tuple[Patterns, ...]:
    """The patterns of a file, if there is one. Git follows no link in the place of a .gitignore either."""
    path = os.path.join(root, name)
    try:
        text = regular.read(path, MAX_BYTES, links=links).decode("utf-8-sig", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        if not os.path.isdir(path):
            warn(f"{path} is left out: {error.strerror or error}")
        return ()
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return (Patterns(root, lines, lambda number: f"{path}:{number + 1}"),)

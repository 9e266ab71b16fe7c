"""What Git would ignore: .gitignore files of every level, .git/info/exclude, and patterns of our own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from torchlint.settings import relative


@dataclass(frozen=True)
class Patterns:
    """The patterns of one ignore file, which speak of paths below `root`."""

    root: Path
    spec: GitIgnoreSpec

    def verdict(self, path: Path, is_folder: bool) -> bool | None:
        """Whether the entry `path` is ignored (True), re-included (False) or not spoken of (None)."""
        inside = relative(path, self.root)
        if inside in (None, "."):
            return None
        return self.spec.check_file(f"{inside}/" if is_folder else f"{inside}").include

    def without_those_on(self, folder: Path) -> Patterns:
        """The patterns left when those that match `folder` itself are dropped: someone asked for it."""
        inside = relative(folder, self.root)
        if inside in (None, "."):
            return self
        kept = [pattern for pattern in self.spec.patterns if pattern.match_file(f"{inside}/") is None]
        return Patterns(self.root, GitIgnoreSpec(kept))


def patterns(root: Path, lines: Sequence[str]) -> Patterns:
    """Patterns of the .gitignore form; a line that is none is left out, as Git does."""
    try:
        return Patterns(root, GitIgnoreSpec.from_lines(lines))
    except ValueError:
        return Patterns(root, GitIgnoreSpec.from_lines([line for line in lines if _is_pattern(line)]))


def _is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def is_ignored(path: Path, is_folder: bool, layers: Sequence[Patterns]) -> bool:
    """Whether an entry is ignored by `layers`, the last of which goes before the others."""
    for layer in reversed(layers):
        verdict = layer.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False


def below_named(folder: Path, layers: Sequence[Patterns]) -> tuple[Patterns, ...]:
    """`layers` as they count below a folder that someone asked for: not what ignores itself."""
    if not is_ignored(folder, True, layers):
        return tuple(layers)
    return tuple(layer.without_those_on(folder) for layer in layers)


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

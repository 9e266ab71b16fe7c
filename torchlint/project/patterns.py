"""Lists of patterns in the form of .gitignore: of those that match, the last one counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from torchlint.project.globs import Glob

Origin = Callable[[int], str]
"""Names a pattern of a list, by its number from 0."""


class _Rule(NamedTuple):
    """One pattern; of those that match, the last one counts."""

    number: int
    glob: Glob
    ignored: bool
    folders_only: bool


class Patterns:
    """The patterns of one ignore file, which speak of paths below `root`."""

    def __init__(self, root: Path, lines: Iterable[str], origin: Origin | None = None) -> None:
        """Lines that are no pattern are left out, as Git does. `origin` says where a line stands, by its number."""
        self.root = root
        self.origin: Origin = origin or str
        self._literals: dict[str, _Rule] = {}
        """By the one name that they match, or by the one path with a slash before it; those of folders end with one."""
        self._others: list[_Rule] = []
        for number, line in enumerate(lines):
            self._add(number, line)
        self._others.reverse()

    def __bool__(self) -> bool:
        return bool(self._literals or self._others)

    def _add(self, number: int, line: str) -> None:
        text = _without_spaces(line)
        if not text.strip("/!") or text.startswith("#"):
            return
        ignored, folders_only = not text.startswith("!"), text.endswith("/")
        rule = _Rule(number, Glob(text.removeprefix("!").removesuffix("/")), ignored, folders_only)
        if rule.glob.literal is None:
            self._others.append(rule)
        else:
            self._literals["/" * rule.glob.is_path + rule.glob.literal + "/" * folders_only] = rule

    def verdict(self, inside: str, is_folder: bool) -> bool | None:
        """Whether an entry, by its path from `root`, is ignored (True), re-included (False) or not spoken of (None).

        That a folder around it is ignored does not count: whoever walks did not enter that folder.
        """
        rule = self._decisive(inside, is_folder)
        return rule.ignored if rule is not None else None

    def reason(self, inside: str, is_folder: bool) -> str:
        """Where the pattern stands that decides about an entry."""
        rule = self._decisive(inside, is_folder)
        return self.origin(rule.number) if rule is not None else ""

    def _decisive(self, inside: str, is_folder: bool) -> _Rule | None:
        """The last pattern that matches an entry."""
        name = inside.rpartition("/")[2]
        last = self._literal(name, inside, is_folder)
        for rule in self._others:
            if last is not None and rule.number < last.number:
                break
            if (is_folder or not rule.folders_only) and rule.glob.matches(inside if rule.glob.is_path else name):
                return rule
        return last

    def cover(self, inside: str) -> bool:
        """Whether a file, by its path from `root`, is ignored, or any folder around it."""
        ends = [end for end, char in enumerate(inside) if char == "/"]
        return any(self.verdict(inside[:end], True) for end in ends) or bool(self.verdict(inside, False))

    def _literal(self, name: str, inside: str, is_folder: bool) -> _Rule | None:
        keys = [name, f"/{inside}", f"{name}/", f"/{inside}/"][: 4 if is_folder else 2]
        rules = [self._literals[key] for key in keys if key in self._literals]
        return max(rules, default=None, key=lambda rule: rule.number)


def _without_spaces(line: str) -> str:
    """A line without the spaces at its end, but for one that a backslash stands before."""
    kept = line.rstrip(" ")
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return kept + " " * (backslashes % 2 and kept != line)

"""What is to be looked for in which files: of a configuration file, and of the command line before it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.engine import registry
from torchlint.engine.registry import Selection
from torchlint.files.sources import Sources
from torchlint.project.patterns import Patterns
from torchlint.pytorch.releases import Releases
from torchlint.rule import OptionValue

if TYPE_CHECKING:
    from torchlint.engine.following import Following


@dataclass(frozen=True, eq=False)
class Settings:
    """What is to be looked for, and in which files. Patterns are those of .gitignore, relative to `root`."""

    root: Path
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    preview: bool = False
    force_exclude: bool = False
    follow: bool = True
    src: tuple[str, ...] = ()
    """Folders that imports start from, beside those that are guessed; `*` stands for any name."""
    sources: Sources = field(default_factory=Sources)
    """Where modules are looked for."""
    rules: Mapping[str, Mapping[str, OptionValue]] = field(default_factory=dict)
    torch: Releases | None = None
    """The releases of PyTorch that the project asks for: see `project.requirements`."""

    def selection(self, path: Path) -> Selection:
        """What to look for in the file `path`; raises `registry.UnknownRule`."""
        return self._selection(self._ignored(path))

    def choice(self, path: Path) -> str:
        """All that `selection` of a file is made of, as text: equal texts mean equal selections."""
        ignored = self._ignored(path)
        if ignored not in self._choices:
            parts = (
                self.select,
                self.ignore,
                self.extend_select,
                self.preview,
                self.rules,
                ignored,
                self.follow,
                self._folders,
                self.torch and astuple(self.torch),
            )
            self._choices[ignored] = json.dumps(parts, sort_keys=True)
        return self._choices[ignored]

    def _ignored(self, path: Path) -> tuple[str, ...]:
        """What is not to be looked for in this file only."""
        if not self.per_file_ignores:
            return ()
        inside = relative(path, self.root)
        ignored = [selectors for patterns, selectors in self._ignored_files if inside and patterns.cover(inside)]
        return tuple(dict.fromkeys(name for names in ignored for name in names))

    @cached_property
    def following(self) -> Following | None:
        """How imports are followed; None: not at all."""
        from torchlint.engine.following import Following  # what a run in which nothing has changed does not need

        return Following(self.sources, self._folders) if self.follow else None

    @cached_property
    def _folders(self) -> tuple[str, ...]:
        """The folders that `src` names."""
        return tuple(str(path) for pattern in self.src for path in sorted(self.root.glob(pattern)))

    @cached_property
    def _ignored_files(self) -> list[tuple[Patterns, tuple[str, ...]]]:
        return [(Patterns(self.root, [pattern]), names) for pattern, names in self.per_file_ignores]

    @cached_property
    def _choices(self) -> dict[tuple[str, ...], str]:
        return {}

    @cached_property
    def _selections(self) -> dict[tuple[str, ...], Selection]:
        return {}

    def _selection(self, ignored: tuple[str, ...]) -> Selection:
        if ignored not in self._selections:
            self._selections[ignored] = registry.select(
                self.select,
                (*self.ignore, *ignored),
                self.extend_select,
                preview=self.preview,
                options=self.rules,
                following=self.following,
                torch=self.torch,
            )
        return self._selections[ignored]


def relative(path: Path, root: Path) -> str | None:
    """`path` relative to `root` with forward slashes, or None when it is outside."""
    whole, top = str(path.absolute()), os.path.join(root, "")
    if os.path.normcase(os.path.join(whole, "")) == os.path.normcase(top):
        return "."
    if not os.path.normcase(whole).startswith(os.path.normcase(top)):
        return None
    return whole[len(top) :].replace(os.sep, "/")


@dataclass(frozen=True)
class Overrides:
    """What the command line says; it goes before every configuration file."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    preview: bool = False
    force_exclude: bool = False
    follow: bool = True

    def applied(self, settings: Settings) -> Settings:
        """`settings` with the command line's: its `select` replaces the file's whole choice of rules."""
        if self.select:
            settings = replace(settings, select=self.select, ignore=(), extend_select=())
        return replace(
            settings,
            ignore=(*settings.ignore, *self.ignore),
            extend_select=(*settings.extend_select, *self.extend_select),
            preview=settings.preview or self.preview,
            force_exclude=settings.force_exclude or self.force_exclude,
            follow=settings.follow and self.follow,
        )

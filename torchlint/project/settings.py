"""Settings for the files of a run: from a configuration file, overridden by the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchlint.engine import registry
from torchlint.engine.registry import Selection
from torchlint.files.sources import Sources
from torchlint.project.patterns import Patterns
from torchlint.pytorch.releases import Releases
from torchlint.rule import OptionValue

if TYPE_CHECKING:
    from torchlint.engine.following import Following


_CHOICES = {"select": ("ignore", "extend_select"), "fixable": ("unfixable",)}
"""Fields that are a whole choice, each with those that change it."""
_ADDED = frozenset({"ignore", "extend_select", "unfixable"})
ROOTED = frozenset({"per_file_ignores", "exclude", "src"})
"""Fields whose patterns are seen from the folder of their file."""


@dataclass(frozen=True)
class Layer:
    """The settings of one source: a file, or the command line."""

    values: Mapping[str, Any]
    """By the names of the fields of `Settings`."""
    root: Path
    """The folder that its patterns are seen from."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each was said: `pyproject.toml:12`."""


@dataclass(frozen=True, eq=False)
class Settings:
    """Which rules apply to which files. Patterns are those of .gitignore, relative to `root`."""

    root: Path
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    fixable: tuple[str, ...] | None = None
    unfixable: tuple[str, ...] = ()
    severity: tuple[tuple[str, str], ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    preview: bool = False
    force_exclude: bool = False
    ignore_noqa: bool = False
    """Whether findings are reported that a comment suppresses."""
    follow: bool = True
    src: tuple[str, ...] = ()
    """Folders that imports start from, beside those that are guessed; `*` stands for any name."""
    output_format: str | None = None
    baseline: Path | None = None
    cache_dir: Path | None = None
    sources: Sources = field(default_factory=Sources)
    """Where modules are looked for."""
    rules: Mapping[str, Mapping[str, OptionValue]] = field(default_factory=dict)
    torch: Releases | None = None
    """The releases of PyTorch that the project asks for: see `project.requirements`."""
    files: tuple[Path, ...] = ()
    """The configuration files that they come from, the nearest first; the others are those that it extends."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each field was set that is not as by default."""
    roots: Mapping[str, Path] = field(default_factory=dict)
    """The folder that a field with patterns is seen from, where that is not `root`."""

    def over(self, layer: Layer) -> Settings:
        """These settings with a layer on top.

        What chooses rules or fixes replaces the whole choice below, what adds to a choice is added, tables of rules
        are merged, and all else is replaced.
        """
        values = dict(layer.values)
        dropped = {name for chosen, names in _CHOICES.items() if chosen in values for name in names}
        for name in (dropped | _ADDED) & {*dropped, *values}:
            before = () if name in dropped else getattr(self, name)
            values[name] = tuple(dict.fromkeys((*before, *values.get(name, ()))))
        if "severity" in values:
            values["severity"] = (*self.severity, *values["severity"])
        if "rules" in values:
            values["rules"] = _merged(self.rules, values["rules"])
        kept = {name: origin for name, origin in self.origins.items() if name not in dropped}
        roots = {**self.roots, **dict.fromkeys(ROOTED & layer.values.keys(), layer.root)}
        return replace(self, **values, origins={**kept, **layer.origins}, roots=roots)

    def root_of(self, name: str) -> Path:
        """The folder that the patterns of a field are seen from."""
        return self.roots.get(name, self.root)

    def selection(self, path: Path) -> Selection:
        """The rules for the file `path`; raises `registry.UnknownRule`."""
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
                self.fixable,
                self.unfixable,
                self.severity,
                self.rules,
                ignored,
                self.ignore_noqa,
                self.follow,
                self._folders,
                self.torch and astuple(self.torch),
            )
            self._choices[ignored] = json.dumps(parts, sort_keys=True)
        return self._choices[ignored]

    def _ignored(self, path: Path) -> tuple[str, ...]:
        """The rules that only this file ignores."""
        if not self.per_file_ignores:
            return ()
        inside = relative(path, self.root_of("per_file_ignores"))
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
        root = self.root_of("src")
        return tuple(str(path) for pattern in self.src for path in sorted(root.glob(pattern)))

    @cached_property
    def _ignored_files(self) -> list[tuple[Patterns, tuple[str, ...]]]:
        root = self.root_of("per_file_ignores")
        return [(Patterns(root, [pattern]), names) for pattern, names in self.per_file_ignores]

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
                fixable=self.fixable,
                unfixable=self.unfixable,
                severity=self.severity,
                options=self.rules,
                following=self.following,
                torch=self.torch,
                ignore_noqa=self.ignore_noqa,
            )
        return self._selections[ignored]


def _merged(
    below: Mapping[str, Mapping[str, OptionValue]], above: Mapping[str, Mapping[str, OptionValue]]
) -> dict[str, dict[str, OptionValue]]:
    """The options of each rule, those of `above` before those of `below`."""
    return {name: {**below.get(name, {}), **above.get(name, {})} for name in {**below, **above}}


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
    """The settings of the command line; they override every configuration file."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    preview: bool = False
    force_exclude: bool = False
    follow: bool = True
    fixable: tuple[str, ...] = ()
    unfixable: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    """The settings of each `--config KEY=VALUE`; the options override them."""
    said: Mapping[str, str] = field(default_factory=dict)
    """The option or variable by which a field was set, for whoever asks where it comes from."""
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ignore_noqa: bool = False

    def applied(self, settings: Settings) -> Settings:
        """`settings` with the command line's: its `select` replaces the file's whole choice of rules."""
        for layer in self.layers:
            settings = settings.over(layer)
        default = Overrides()
        names = [name for name in _OPTIONS if getattr(self, name) != getattr(default, name)]
        if not names:
            return settings
        origins = {name: self.said.get(name, "the command line") for name in names}
        return settings.over(Layer({name: getattr(self, name) for name in names}, Path.cwd(), origins))


_OPTIONS = (
    "select",
    "ignore",
    "extend_select",
    "preview",
    "force_exclude",
    "ignore_noqa",
    "follow",
    "fixable",
    "unfixable",
    "per_file_ignores",
)

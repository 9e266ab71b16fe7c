"""Plugins: who declares rules, by the entry points of what is installed."""

from __future__ import annotations

import importlib
import os
import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

from torchlint.files import regular
from torchlint.rule import Rule

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

GROUP = "torchlint.rules"


class RegistryError(Exception):
    """A rule, or the plugin that holds it, is not usable; the message names it."""


class NeedsMetadata(Exception):
    """Only `importlib.metadata` can tell."""


@dataclass(frozen=True)
class Plugin:
    """An entry point: a name, where its rules are, and the release that declares it."""

    name: str
    value: str
    """A module, or `module:attribute`."""
    release: str = ""
    address: str = ""
    """Where its package is documented, as far as that says so."""

    def load(self) -> object:
        """The module or attribute; whatever importing it raises is raised."""
        module, _, attribute = self.value.partition(":")
        found: object = importlib.import_module(module.strip())
        for name in attribute.split(".") if attribute else ():
            found = getattr(found, name.strip())
        return found


CORE = Plugin("core", "torchlint.rules")


def rules_in(target: object) -> list[type[Rule]]:
    """The rules of an entry point: a Rule class, a module, or a package with a module for each rule."""
    if isinstance(target, type) and issubclass(target, Rule):
        return [target]
    if not isinstance(target, ModuleType):
        raise RegistryError(f"it is neither a rule nor a module: {target!r}")
    import pkgutil  # the table of rules spares most runs all this

    modules = [target]
    for info in pkgutil.iter_modules(getattr(target, "__path__", [])):
        if not info.name.startswith("_"):
            modules.append(importlib.import_module(f"{target.__name__}.{info.name}"))
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__
    ]


@cache
def plugins() -> tuple[Plugin, ...]:
    """The rules of torchlint first, then those of plugins by name."""
    try:
        others = (folder for folder in _metadata_folders() if _release("torchlint", folder) is None)
        has_others = any(map(_declares_rules, others))
    except NeedsMetadata:
        has_others = True
    return (CORE, *(_declared() if has_others else ()))


def _declared() -> list[Plugin]:
    """The entry points of others. It takes longer to import what finds them than to lint most files."""
    from importlib.metadata import entry_points

    found = [_plugin(point) for point in entry_points(group=GROUP) if point.value != CORE.value]
    return sorted(found, key=lambda plugin: plugin.name)


def _plugin(point: EntryPoint) -> Plugin:
    if point.dist is None:
        return Plugin(point.name, point.value)
    return Plugin(point.name, point.value, f"{point.dist.name} {point.dist.version}", _address(point.dist))


def _address(package: Distribution) -> str:
    """The address that a package gives for its documentation, or else for itself; empty if it gives none."""
    urls = dict(url.partition(",")[::2] for url in package.metadata.get_all("Project-URL") or ())
    known = {label.strip().lower(): url.strip() for label, url in urls.items()}
    known.setdefault("homepage", next(iter(package.metadata.get_all("Home-page") or ()), ""))
    wanted = ("documentation", "homepage", "repository", "source", "source code")
    return next((known[label] for label in wanted if is_web(known.get(label, ""))), "")


def is_web(address: str) -> bool:
    """Whether a browser may be led there: not to `javascript:` or `file:`."""
    return address.startswith(("https://", "http://"))


def version_of(package: str) -> str:
    """The version of a package that is installed."""
    try:
        folders = _metadata_folders()
    except NeedsMetadata:
        folders = ()
    for folder in folders:
        if found := _release(package, folder):
            return found
    from importlib.metadata import version

    return version(package)


@cache
def _metadata_folders() -> tuple[str, ...]:
    """Where installed packages say what they are; raises `NeedsMetadata` for archives, and with other importers."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        raise NeedsMetadata
    found: list[str] = []
    for place in sys.path:
        try:
            names = os.listdir(place or os.curdir)
        except NotADirectoryError:
            raise NeedsMetadata from None
        except OSError:
            continue
        if place.endswith(".egg"):
            raise NeedsMetadata
        found += [os.path.join(place, name) for name in names if name.endswith((".dist-info", ".egg-info"))]
    return tuple(found)


def _declares_rules(folder: str) -> bool:
    try:
        return GROUP.encode() in regular.read(os.path.join(folder, "entry_points.txt"))
    except OSError:
        return False


def _release(package: str, folder: str) -> str | None:
    """The version that a folder of metadata names, none where it is another package's; "" where it names no version."""
    pattern = rf"{re.escape(package)}(?:-(\d[^-]*))?\.(?:dist|egg)-info"
    found = re.fullmatch(pattern, os.path.basename(folder))
    return found and (found[1] or "")

"""The inputs of a result besides content: sources of torchlint and all plugins, and versions."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec

from torchlint.engine.plugins import plugins, version_of
from torchlint.files.fingerprint import digest_of


@cache
def environment() -> dict[str, str]:
    """Everything this process lints with, by name. It imports no new module."""
    found = {
        "Python": f"{sys.implementation.name} {sys.version.partition(' ')[0]}",
        "libcst": version_of("libcst"),
        "torchlint": f"{version_of('torchlint')}, sources {_sources('torchlint')}",
    }
    for plugin in plugins():
        module = plugin.value.partition(":")[0]
        places = sorted({module, module.partition(".")[0]} - {"torchlint"})
        origin = [plugin.release] if plugin.release else []
        found[f"plugin {plugin.name}"] = ", ".join([*origin, *(f"{place} {_sources(place)}" for place in places)])
    return found


def key_of(choice: str, root: str) -> str:
    """The name of all results that came of one choice of rules in one project and this environment."""
    return digest_of(json.dumps([choice, root, environment()], sort_keys=True).encode())


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """The differences between two environments, as text for the user; empty if there are none."""
    for name in sorted({*here, *there}):
        if here.get(name) != there.get(name):
            return f"{name}: {there.get(name, 'none')} instead of {here.get(name, 'none')}"
    return ""


def _sources(module: str) -> str:
    """A digest of the source of a module or package."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return "missing"
    files = sorted(_python_files(spec.submodule_search_locations or [spec.origin or ""]))
    return digest_of(b"\0".join(_content(file) for file in files))


def _python_files(places: list[str]) -> Iterator[str]:
    for place in places:
        if not os.path.isdir(place):
            yield place
        for folder, folders, names in os.walk(place):
            folders[:] = [name for name in folders if name != "__pycache__"]
            yield from (os.path.join(folder, name) for name in names if name.endswith(".py"))


def _content(path: str) -> bytes:
    """The name counts as well; what cannot be read is as good as empty."""
    name = os.path.basename(path).encode("utf-8", "surrogateescape")
    try:
        with open(path, "rb") as file:
            return name + b"\0" + file.read()
    except OSError:
        return name

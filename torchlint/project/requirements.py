"""Which releases of PyTorch a project asks for: in its pyproject.toml, or else its requirements.txt.

The nearest folder upward in which one of them names `torch` decides, within the repository. What cannot be read, or
says nothing, decides nothing: that is no error, since these files are not torchlint's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from torchlint.files import regular
from torchlint.files.checkout import real_path
from torchlint.files.sources import Sources, upward
from torchlint.project.toml_lines import line_of_long_key
from torchlint.pytorch.releases import Releases, required, specified, together

_toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

FILES = ("pyproject.toml", "requirements.txt")
"""Where requirements are looked for in a folder, in this order."""
_MAX_BYTES = 1_000_000
"""No list of requirements that anybody writes is larger."""
_MAX_LINES = 10_000


class Requirements:
    """What the folders of a run ask for, each file read once."""

    def __init__(self, sources: Sources) -> None:
        """`sources` know where repositories end."""
        self._sources = sources
        self._known: dict[Path, Releases | None] = {}

    def torch(self, folder: Path) -> Releases | None:
        """The releases that the files in an absolute `folder` are written for; None where nothing says."""
        found, passed = None, []
        top = self._sources.top_of(os.path.normpath(folder))
        for above in map(Path, upward(os.path.normpath(folder))):
            passed.append(above)
            found = self._known[above] if above in self._known else self._asked_in(above)
            if found is not None or str(above) == top or above in self._known:
                break
        self._known.update(dict.fromkeys(passed, found))
        return found

    def _asked_in(self, folder: Path) -> Releases | None:
        """What the files right in a folder ask for."""
        there = self._sources.names(str(folder))
        for name in (name for name in FILES if name in there):
            text = _text(folder / name)
            found = None
            if text is not None:
                found = _of_project(text) if name == "pyproject.toml" else required(text.splitlines()[:_MAX_LINES])
            if found is not None:
                return found
        return None


def _text(path: Path) -> str | None:
    """The text of a file that names torch."""
    with suppress(OSError, UnicodeDecodeError):
        data = regular.read(real_path(path), _MAX_BYTES)
        return data.decode("utf-8-sig") if b"torch" in data else None
    return None


def _of_project(text: str) -> Releases | None:
    """What a pyproject.toml asks for, by `[project]`, `[dependency-groups]` or Poetry's tables."""
    with suppress(ValueError, RecursionError):
        if not line_of_long_key(text):
            table = _toml.loads(text)
            return together(found for found in (_of_standard(table), _of_poetry(table)) if found is not None)
    return None


def _of_standard(table: object) -> Releases | None:
    """What is needed in any case, or else in some."""
    project = _get(table, "project")
    extras = (*_values(_get(project, "optional-dependencies")), *_values(_get(table, "dependency-groups")))
    return required(_strings(_get(project, "dependencies"))) or required(
        item for extra in extras for item in _strings(extra)
    )


def _of_poetry(table: object) -> Releases | None:
    poetry = _get(_get(table, "tool"), "poetry")
    groups = [_get(poetry, "dependencies")]
    groups += [_get(group, "dependencies") for group in _values(_get(poetry, "group"))]
    return together(specified(text) for group in groups for text in _versions(_get(group, "torch")))


def _versions(value: object) -> Iterator[str]:
    """`"^1.9"`, `{version = "^1.9"}`, or a list of such."""
    for item in value if isinstance(value, list) else [value]:
        version = _get(item, "version") if isinstance(item, dict) else item
        if isinstance(version, str):
            yield version


def _get(table: object, key: str) -> object:
    return table.get(key) if isinstance(table, dict) else None


def _values(table: object) -> Iterable[object]:
    return table.values() if isinstance(table, dict) else ()


def _strings(items: object) -> list[str]:
    return [item for item in items if isinstance(item, str)] if isinstance(items, list) else []

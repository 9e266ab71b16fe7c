"""The settings of each file: its configuration on disk, or else the last one that could be read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from torchlint.engine.registry import RegistryError, Selection, UnknownRule
from torchlint.project import requirements
from torchlint.project.config import FILES, ConfigError, Configurations
from torchlint.project.discovery import Discovery
from torchlint.server.editor import Complain, EditorSettings

_READ = (*dict.fromkeys((*FILES, *requirements.FILES)), ".gitignore", ".git/info/exclude")
"""Files whose content decides about a file, in its folder or any above it."""

_Stamp = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Known:
    stamp: _Stamp | None
    """None: something is broken, and looked at again each time."""
    selection: Selection | None
    files: tuple[Path, ...] = ()
    """Files that the configuration extends, whatever their names."""


class Configuration:
    """Says what to look for in a file, and complains once of each configuration that cannot be used."""

    def __init__(self, complain: Complain) -> None:
        self._complain = complain
        self._settings = EditorSettings()
        self._known: dict[Path, _Known] = {}
        self._good: dict[Path, Discovery] = {}
        self._complaints: dict[Path, str] = {}

    def use(self, settings: EditorSettings) -> None:
        """Take other settings of the editor."""
        self._settings = settings
        self._known.clear()

    def selection(self, path: Path) -> Selection | None:
        """The selected rules for a file; None if it is excluded. Files that changed on disk are read again."""
        known = self._known.get(path)
        if known is None or known.stamp is None or known.stamp != _stamp(path, known.files):
            known = self._known[path] = self._read(path)
        return known.selection

    def _read(self, path: Path) -> _Known:
        before = _stamp(path)
        discovery = Discovery(Configurations(self._settings.overrides))
        try:
            settings = discovery.settings_of(path)
            selection = settings.selection(path) if settings is not None else None
        except (ConfigError, RegistryError, UnknownRule) as error:
            self._complain_once(path.parent, str(error))
            return _Known(None, self._fallback(path))
        self._good[path.parent] = discovery
        self._complaints.pop(path.parent, None)
        files = settings.files if settings is not None else ()
        return _Known((*before, *_states(files)), selection, files)

    def _fallback(self, path: Path) -> Selection | None:
        """The settings before the configuration broke, or the defaults."""
        default = Discovery(Configurations(self._settings.overrides, isolated=True))
        last = next((self._good[folder] for folder in path.parents if folder in self._good), default)
        try:
            return _selection(last, path)
        except (ConfigError, RegistryError, UnknownRule):
            return None

    def _complain_once(self, folder: Path, message: str) -> None:
        is_new = message not in self._complaints.values()
        self._complaints[folder] = message
        if is_new:
            self._complain(message)


def _selection(discovery: Discovery, path: Path) -> Selection | None:
    settings = discovery.settings_of(path)
    return settings.selection(path) if settings is not None else None


def _stamp(path: Path, files: Iterable[Path] = ()) -> _Stamp:
    """A stamp that changes when a file that decides about `path` changes."""
    return (*_states(os.path.join(folder, name) for folder in path.parents for name in _READ), *_states(files))


def _states(paths: Iterable[str | Path]) -> _Stamp:
    return tuple(map(_state, paths))


def _state(path: str | Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return 0, 0
    return found.st_mtime_ns, found.st_size

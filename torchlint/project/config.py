"""`[tool.torchlint]` in pyproject.toml, or torchlint.toml -> `Settings`; errors name file, line and key."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from torchlint.files import regular
from torchlint.files.checkout import real_path
from torchlint.files.sources import Sources
from torchlint.lazy_import import late
from torchlint.lazy_pattern import LazyPattern
from torchlint.project import keys, kinds
from torchlint.project.requirements import Requirements
from torchlint.project.settings import ROOTED, Layer, Overrides, Settings
from torchlint.project.toml_lines import MAX_PARTS, line_of, line_of_error, line_of_long_key
from torchlint.pytorch.releases import Releases
from torchlint.suggest import nearest

_toml = late("tomllib" if sys.version_info >= (3, 11) else "tomli")

FILES = ("torchlint.toml", "pyproject.toml")
"""Where configuration is looked for, in this order; in pyproject.toml it is `[tool.torchlint]`."""

MAX_BYTES = 10_000_000
"""A larger file is no configuration."""
_TABLE = LazyPattern(rb"^\s*\[\s*tool\s*\.\s*torchlint\b", re.MULTILINE)
_HEADER = LazyPattern(r"^[ \t]*\[[ \t]*(?:(tools?)[ \t]*\.[ \t]*)?[\"']?([\w-]+)", re.MULTILINE)
_ALIKE = 0.85
"""How similar the name of a table is to ours if it was meant."""
MAX_EXTENDED = 20
"""No chain of files that anybody writes is longer."""

ONLY_OPTIONS = frozenset(
    "add-ignores color config diff executor exit-zero fix fix-only ignore-noqa isolated jobs "
    "no-baseline no-cache no-follow output-file quiet reason show-files show-fixes show-settings since statistics "
    "stdin-filename unsafe-fixes update-baseline verbose watch".split()
)
"""Options of the command line that are no keys, but may be taken for some."""


_WORD = LazyPattern(r"\s*[A-Za-z_./][\w./*-]*\s*")
"""A value on the command line that needs no quotes."""


class ConfigError(Exception):
    """A configuration file that cannot be used: which file, line and key, and what was probably meant."""

    def __init__(self, place: str, message: str) -> None:
        """`place` is `path:line`, or what stands on the command line."""
        super().__init__(f"{place}: {message}")


class Configurations:
    """The configuration that applies in each folder: the nearest file upward, each file read once."""

    def __init__(self, overrides: Overrides | None = None, *, file: Path | None = None, isolated: bool = False) -> None:
        """With `file` that one applies everywhere (patterns relative to the working folder).

        With `isolated` no file applies. Raises `ConfigError`.
        """
        self._overrides = overrides or Overrides()
        self._sources = Sources()
        self._default = self._overrides.applied(Settings(Path.cwd(), sources=self._sources))
        self._requirements = None if isolated else Requirements(self._sources)
        self._known: dict[Path, Settings] = {}
        self._for_torch: dict[tuple[Settings, Releases], Settings] = {}
        self._everywhere: Settings | None = self._default if isolated else None
        if file is not None:
            found = read(file)
            if found is None:
                raise ConfigError(f"{file}:1", "there is no [tool.torchlint] table")
            everywhere = replace(found, root=Path.cwd(), roots=_seen_from_here(found), sources=self._sources)
            self._everywhere = self._overrides.applied(everywhere)

    def of_folder(self, folder: Path) -> Settings:
        """The settings for files in `folder`; raises `ConfigError`."""
        settings = self._everywhere or self._nearest(folder.absolute())
        torch = self._requirements.torch(folder.absolute()) if self._requirements is not None else None
        return settings if torch is None else self._with_torch(settings, torch)

    def _with_torch(self, settings: Settings, torch: Releases) -> Settings:
        """The same settings for the same folders, since what is made of them is kept."""
        key = settings, torch
        if key not in self._for_torch:
            self._for_torch[key] = replace(settings, torch=torch)
        return self._for_torch[key]

    def _nearest(self, folder: Path) -> Settings:
        if folder not in self._known:
            settings, passed = self._default, []
            for above in chain([folder], folder.parents):
                passed.append(above)
                if found := self._known.get(above) or self._in(above):
                    settings = found
                    break
            self._known.update(dict.fromkeys(passed, settings))
        return self._known[folder]

    def _in(self, folder: Path) -> Settings | None:
        for name in FILES:
            path = folder / name
            if os.path.exists(path) and not os.path.isdir(path) and (found := read(path)) is not None:
                return self._overrides.applied(replace(found, sources=self._sources))
        return None


def next_above(file: Path) -> Path | None:
    """The configuration file in a folder above that of `file`, which would apply without it; nothing is checked."""
    for folder in file.absolute().parent.parents:
        for name in FILES:
            path = folder / name
            if os.path.isfile(path) and (name != "pyproject.toml" or _speaks_of_torchlint(path)):
                return path
    return None


def _speaks_of_torchlint(path: Path) -> bool:
    with suppress(OSError):
        return _TABLE.search(regular.read(real_path(path), MAX_BYTES)) is not None
    return False


def read(path: Path, extending: tuple[Path, ...] = ()) -> Settings | None:
    """The settings of a file; None if a pyproject.toml does not speak of torchlint. Raises `ConfigError`.

    `extending` are the files that extend it, one the other.
    """
    prefix = ("tool", "torchlint") if path.name == "pyproject.toml" else ()
    try:
        data = regular.read(real_path(path), MAX_BYTES)
        if prefix and not _TABLE.search(data):
            _refuse_misspelled(path, data.decode(errors="replace"))
        if prefix and b"torchlint" not in data:
            return None
        text = data.decode("utf-8-sig")
        if line := line_of_long_key(text):
            raise ConfigError(f"{path}:{line}", f"a key has more than {MAX_PARTS} parts")
        table: Any = _toml.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}:1", f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}", "is not UTF-8") from None
    except _toml.TOMLDecodeError as error:
        raise ConfigError(f"{path}:{line_of_error(error, text)}", f"invalid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}:1", "is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(f"{path}:1", f"cannot be read: {error}") from None
    for key in prefix:
        table = table.get(key) if isinstance(table, dict) else None
    if prefix and table is None:
        return None
    return _Reader(path, text, prefix).settings(table, extending)


def _refuse_misspelled(path: Path, text: str) -> None:
    """Raise `ConfigError` where a pyproject.toml has a table that was meant for us under another name."""
    for header in _HEADER.finditer(text):
        above, name = header.groups()
        is_ours = nearest(name, ("torchlint",), _ALIKE) if above == "tool" else name == "torchlint"
        if is_ours and (above != "tool" or not name.startswith("torchlint")):
            line = text.count("\n", 0, header.start(2)) + 1
            table = f"{above}.{name}" if above else name
            raise ConfigError(f"{path}:{line}", f"unknown table `[{table}]`; did you mean `[tool.torchlint]`?")


class _Reader:
    """Checks one table, and names file and line of what is wrong in it."""

    def __init__(self, path: Path, text: str, prefix: tuple[str, ...]) -> None:
        self.path = path
        self._text = text
        self._prefix = prefix
        self._folder = path.parent.absolute()

    def settings(self, table: object, extending: tuple[Path, ...]) -> Settings:
        """The settings of the file, over those that it extends. `extending` are the files that lead here."""
        if not self._prefix and isinstance(table, dict) and "tool" in table:
            message = "leave this prefix out: it is for pyproject.toml only"
            raise self.error(("tool", "torchlint"), message)
        try:
            layer, extended = self._layer(table)
        except kinds.WrongValue as wrong:
            raise self.error(wrong.where, wrong.message) from None
        below = Settings(self._folder) if extended is None else self._extended(extended, (*extending, self.path))
        settings = replace(below, root=self._folder, roots=_roots(below)).over(layer)
        return replace(settings, files=(self.path, *below.files))

    def _layer(self, table: object) -> tuple[Layer, Path | None]:
        """The settings of the file, and the file that it extends."""
        values = read_values(table, kinds.Place((), self._folder))
        values.pop("required-version", None)
        extended = values.pop("extend", None)
        origins = {_field(key): f"{shown_path(self.path)}:{self.line_of((key,))}" for key in values}
        return Layer({_field(key): value for key, value in values.items()}, self._folder, origins), extended

    def _extended(self, path: Path, extending: tuple[Path, ...]) -> Settings:
        if any(os.path.realpath(path) == os.path.realpath(other) for other in extending):
            raise self.error(("extend",), f"{shown_path(path)} leads back here")
        if len(extending) > MAX_EXTENDED:
            raise self.error(("extend",), f"more than {MAX_EXTENDED} files extend one another")
        if not os.path.exists(path):
            raise self.error(("extend",), f"there is no file {shown_path(path)}")
        settings = read(path, extending)
        if settings is None:
            raise self.error(("extend",), f"there is no [tool.torchlint] table in {shown_path(path)}")
        return settings

    def line_of(self, key: kinds.Where) -> int:
        return line_of(self._text, (*self._prefix, *key))

    def error(self, key: kinds.Where, message: str) -> ConfigError:
        name = ".".join((*self._prefix, *key)) or "file"
        return ConfigError(f"{self.path}:{self.line_of(key)}", f"{name}: {message}")


def read_values(table: object, place: kinds.Place) -> dict[str, Any]:
    """The values of a table by key, checked; raises `WrongValue`. That it is for another torchlint is said first."""
    version = table.get("required-version") if isinstance(table, dict) else None
    if version is not None:
        keys.KEYS["required-version"].kind.read(version, place.at("required-version"))
    return {
        name: key.kind.read(value, place.at(name))
        for name, value, key in kinds.known_keys(table, place, keys.KEYS, _hint_of_setting)
    }


def inline(text: str) -> Layer:
    """The setting of `--config KEY=VALUE`; a word needs no quotes. Raises `ConfigError`."""
    place = kinds.Place((), Path.cwd(), by_user=True)
    try:
        values = read_values(_parsed_inline(text), place)
    except kinds.WrongValue as wrong:
        raise ConfigError(f"--config {text}", f"{'.'.join(wrong.where)}: {wrong.message}") from None
    if "extend" in values:
        raise ConfigError(f"--config {text}", "extend: only a file extends another: name that by --config FILE")
    values.pop("required-version", None)
    origins = dict.fromkeys(map(_field, values), "--config")
    return Layer({_field(key): value for key, value in values.items()}, place.folder, origins)


def _parsed_inline(text: str) -> object:
    key, _, value = text.partition("=")
    if line_of_long_key(text):
        raise ConfigError(f"--config {text[:100]}", f"a key has more than {MAX_PARTS} parts")
    is_word = _WORD.fullmatch(value) and value.strip() not in ("true", "false")
    try:
        return _toml.loads(f"{key}='{value.strip()}'" if is_word else text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--config {text}", f"invalid TOML: {error}") from None


def _seen_from_here(settings: Settings) -> dict[str, Path]:
    """Patterns of a file that the user has named count from the working folder; those that it extends from theirs."""
    return {name: Path.cwd() if root == settings.root else root for name, root in settings.roots.items()}


def _roots(settings: Settings) -> dict[str, Path]:
    """The folders that inherited patterns are seen from, once another folder is that of the settings."""
    return {**dict.fromkeys(ROOTED, settings.root), **settings.roots}


def _field(key: str) -> str:
    return key.replace("-", "_")


def shown_path(path: Path) -> str:
    """A path from the working folder, if it lies in there."""
    try:
        return path.absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def _hint_of_setting(key: str, known: Collection[str]) -> str:
    if key.replace("_", "-") in ONLY_OPTIONS:
        return f"; there is only the option --{key.replace('_', '-')} of the command line"
    return kinds.hint_of_key(key, known)

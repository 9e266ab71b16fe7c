"""`[tool.torchlint]` in pyproject.toml, or torchlint.toml -> `Settings`; errors name file, line and key."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from torchlint.engine import registry
from torchlint.files import regular
from torchlint.files.checkout import real_path
from torchlint.files.sources import Sources
from torchlint.project.requirements import Requirements
from torchlint.project.settings import Overrides, Settings
from torchlint.project.toml_lines import MAX_PARTS, line_of, line_of_error, line_of_long_key
from torchlint.pytorch.releases import Releases
from torchlint.rule import OptionValue, Rule
from torchlint.suggest import hint, hint_of_rule

_toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

FILES = ("torchlint.toml", "pyproject.toml")
"""Where configuration is looked for, in this order; in pyproject.toml it is `[tool.torchlint]`."""

MAX_BYTES = 10_000_000
"""A larger file is no configuration."""


ONLY_OPTIONS = frozenset(
    "add-ignores baseline color config diff executor exit-zero fix fix-only isolated jobs no-cache no-follow "
    "output-file output-format quiet since statistics stdin-filename unsafe-fixes update-baseline".split()
)
"""Options of the command line that are no keys, but may be taken for some."""


_Hint = Callable[[str, Collection[str]], str]
"""Of a key that is not known and those that are, what to add to the message."""


class ConfigError(Exception):
    """A configuration file that cannot be used: which file, line and key, and what was probably meant."""

    def __init__(self, path: Path, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")


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
                raise ConfigError(file, 1, "there is no [tool.torchlint] table")
            self._everywhere = self._overrides.applied(replace(found, root=Path.cwd(), sources=self._sources))

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


def read(path: Path) -> Settings | None:
    """The settings of a file; None if a pyproject.toml does not speak of torchlint. Raises `ConfigError`."""
    prefix = ("tool", "torchlint") if path.name == "pyproject.toml" else ()
    try:
        data = regular.read(real_path(path), MAX_BYTES)
        if prefix and b"torchlint" not in data:
            return None
        text = data.decode("utf-8-sig")
        if line := line_of_long_key(text):
            raise ConfigError(path, line, f"a key has more than {MAX_PARTS} parts")
        table: Any = _toml.loads(text)
    except OSError as error:
        raise ConfigError(path, 1, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(path, data.count(b"\n", 0, error.start) + 1, "is not UTF-8") from None
    except _toml.TOMLDecodeError as error:
        raise ConfigError(path, line_of_error(error, text), f"invalid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(path, 1, "is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(path, 1, f"cannot be read: {error}") from None
    for key in prefix:
        table = table.get(key) if isinstance(table, dict) else None
    if prefix and table is None:
        return None
    return _Reader(path, text, prefix).settings(table)


class _Reader:
    """Checks one table, key by key."""

    def __init__(self, path: Path, text: str, prefix: tuple[str, ...]) -> None:
        self.path = path
        self.text = text
        self.prefix = prefix

    def settings(self, table: object) -> Settings:
        values = {
            key.replace("-", "_"): read_value((key,), value)
            for key, value, read_value in self._known_keys((), table, self._keys, _hint_of_setting)
        }
        return Settings(self.path.parent.absolute(), **values)

    @property
    def _keys(self) -> dict[str, Callable[[tuple[str, ...], object], Any]]:
        return {
            "select": self._selectors,
            "ignore": self._selectors,
            "extend-select": self._selectors,
            "per-file-ignores": self._per_file_ignores,
            "exclude": self._strings,
            "preview": self._flag,
            "force-exclude": self._flag,
            "follow": self._flag,
            "src": self._folders,
            "rules": self._rules,
        }

    def _known_keys(
        self, where: tuple[str, ...], table: object, known: Mapping[str, Any], hint_of: _Hint
    ) -> Iterable[tuple[str, object, Any]]:
        for key, value in self._table(where, table).items():
            if key not in known:
                raise self._error((*where, key), f"unknown key{hint_of(key, known)}")
            yield key, value, known[key]

    def _error(self, key: tuple[str, ...], message: str) -> ConfigError:
        full = (*self.prefix, *key)
        return ConfigError(self.path, line_of(self.text, full), f"{'.'.join(full) or 'file'}: {message}")

    def _table(self, key: tuple[str, ...], value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise self._error(key, f"must be a table, not {_kind(value)}")
        return value

    def _flag(self, key: tuple[str, ...], value: object) -> bool:
        if not isinstance(value, bool):
            raise self._error(key, f"must be true or false, not {_kind(value)}")
        return value

    def _strings(self, key: tuple[str, ...], value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._error(key, f"must be a list of strings, not {_kind(value)}")
        return tuple(value)

    def _folders(self, key: tuple[str, ...], value: object) -> tuple[str, ...]:
        folders = self._strings(key, value)
        for folder in folders:
            if not folder or os.path.isabs(folder) or ".." in Path(folder).parts:
                raise self._error(key, f"must name folders below that of this file, not `{folder}`")
        return folders

    def _selectors(self, key: tuple[str, ...], value: object) -> tuple[str, ...]:
        selectors = tuple(dict.fromkeys(self._strings(key, value)))
        for selector in selectors:
            try:
                registry.find(selector)
            except registry.UnknownRule as error:
                raise self._error(key, str(error)) from None
        return selectors

    def _per_file_ignores(self, key: tuple[str, ...], value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
        table = self._table(key, value)
        return tuple((pattern, self._selectors((*key, pattern), names)) for pattern, names in table.items())

    def _rules(self, key: tuple[str, ...], value: object) -> dict[str, dict[str, OptionValue]]:
        known = {rule.rule_name(): rule for rule in registry.rules()}
        return {
            name: self._options((*key, name), rule, options)
            for name, options, rule in self._known_keys(key, value, known, _hint_of_rule)
        }

    def _options(self, key: tuple[str, ...], rule: type[Rule], value: object) -> dict[str, OptionValue]:
        return {
            name: self._option((*key, name), default, option)
            for name, option, default in self._known_keys(key, value, rule.options, _hint_of_option)
        }

    def _option(self, key: tuple[str, ...], default: OptionValue, value: object) -> OptionValue:
        """The value of a rule's option, which has the type of its default."""
        if isinstance(default, tuple):
            return self._strings(key, value)
        if isinstance(default, bool):
            return self._flag(key, value)
        if isinstance(default, int) and isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(default, str) and isinstance(value, str):
            return value
        raise self._error(key, f"must be {_kind(default)}, not {_kind(value)}")


def _hint_of_setting(key: str, known: Collection[str]) -> str:
    if key.replace("_", "-") in ONLY_OPTIONS:
        return f"; there is only the option --{key.replace('_', '-')} of the command line"
    return _hint_of_option(key, known)


def _hint_of_option(key: str, known: Collection[str]) -> str:
    return hint(key, known) or f"; known are {', '.join(sorted(known)) or 'none'}"


def _hint_of_rule(key: str, known: Collection[str]) -> str:
    """The options of a rule are set under its name."""
    rules = [rule.meta() for rule in registry.rules()]
    for rule in rules:
        if rule.code == key.upper():
            return f"; did you mean `{rule.name}`?"
    return hint_of_rule(key, rules) or _hint_of_option(key, known)


def _kind(value: object) -> str:
    kinds = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", dict: "a table"}
    if isinstance(value, list):
        return "a list of other things" if any(not isinstance(item, str) for item in value) else "a list"
    return kinds.get(type(value), f"a {type(value).__name__}")

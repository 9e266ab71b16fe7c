"""Kinds of values that keys of the configuration have: each is read, and described as JSON Schema, in one place."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torchlint.engine import registry
from torchlint.engine.rule_table import AnyRule
from torchlint.files.checkout import real_path
from torchlint.finding import Category, Severity
from torchlint.project.inside import LeadsOutside, path_inside
from torchlint.project.versions import NoRequirement, satisfies
from torchlint.rule import OptionValue
from torchlint.suggest import hint, hint_of_rule

Where = tuple[str, ...]
"""A key, with those of the tables around it."""
Schema = dict[str, Any]
Hint = Callable[[str, Collection[str]], str]
"""A function that suggests, for an unknown key among the known ones, text for the message."""


class WrongValue(Exception):
    """A value that cannot be used: under which key, and why."""

    def __init__(self, where: Where, message: str) -> None:
        super().__init__(message)
        self.where = where
        self.message = message


@dataclass(frozen=True)
class Place:
    """Where a value stands: its key, the folder that its paths are seen from, and who wrote it."""

    where: Where
    folder: Path
    by_user: bool = False
    """Whether the user has written it on the command line, and may name any path."""

    def at(self, key: str) -> Place:
        """The place of a key of a table that stands here."""
        return Place((*self.where, key), self.folder, self.by_user)

    def wrong(self, message: str) -> WrongValue:
        return WrongValue(self.where, message)


class Kind(Protocol):
    def read(self, value: object, place: Place) -> Any:
        """The meaning of a value; raises `WrongValue`."""

    def schema(self) -> Schema:
        """The possible values."""


class Flag:
    """true or false."""

    def read(self, value: object, place: Place) -> bool:
        if not isinstance(value, bool):
            raise place.wrong(f"must be true or false, not {kind_of(value)}")
        return value

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Text:
    """A string."""

    def read(self, value: object, place: Place) -> str:
        if not isinstance(value, str):
            raise place.wrong(f"must be a string, not {kind_of(value)}")
        return value

    def schema(self) -> Schema:
        return {"type": "string"}


@dataclass(frozen=True)
class Choice:
    """One of some names."""

    names: Collection[str]

    def read(self, value: object, place: Place) -> str:
        text = Text().read(value, place)
        if text not in self.names:
            raise place.wrong(f"`{text}` is not one of {', '.join(self.names)}{hint(text, self.names)}")
        return text

    def schema(self) -> Schema:
        return {"enum": list(self.names)}


class Strings:
    """A list of strings."""

    def read(self, value: object, place: Place) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise place.wrong(f"must be a list of strings, not {kind_of(value)}")
        return tuple(value)

    def schema(self) -> Schema:
        return {"type": "array", "items": {"type": "string"}}


class Folders:
    """Folders below that of the file; `*` stands for any name."""

    def read(self, value: object, place: Place) -> tuple[str, ...]:
        folders = Strings().read(value, place)
        for folder in folders:
            if not folder or os.path.isabs(folder) or ".." in Path(folder).parts:
                raise place.wrong(f"must name folders below that of this file, not `{folder}`")
            self._check_links(folder, place)
        return folders

    def _check_links(self, folder: str, place: Place) -> None:
        """A pattern skips links that lead outside."""
        if any(char in folder for char in "*?["):
            return
        try:
            real_path(place.folder / folder)
        except (OSError, ValueError) as error:
            raise place.wrong(f"`{folder}`: {getattr(error, 'strerror', None) or error}") from None

    def schema(self) -> Schema:
        return {"type": "array", "items": {"type": "string", "pattern": r"^(?!/)(?!(.*/)?\.\.(/|$)).+$"}}


class InsidePath:
    """A path that stays inside of the repository, from the folder of the file."""

    def read(self, value: object, place: Place) -> Path:
        text = Text().read(value, place)
        if place.by_user and text:
            return place.folder / text
        try:
            return path_inside(place.folder, text)
        except LeadsOutside as error:
            raise place.wrong(str(error)) from None

    def schema(self) -> Schema:
        return {"type": "string", "pattern": r"^(?!/)(?![A-Za-z]:).+$"}


@dataclass(frozen=True)
class Requirement:
    """Releases of torchlint, as `>=0.2,<0.4`."""

    version: Callable[[], str]

    def read(self, value: object, place: Place) -> str:
        text = Text().read(value, place)
        try:
            satisfied = satisfies(self.version(), text)
        except NoRequirement:
            raise place.wrong(f"must be a version or conditions as `>=0.2,<0.4`, not `{text}`") from None
        if not satisfied:
            raise place.wrong(f"needs torchlint {text}, and this is {self.version()}")
        return text

    def schema(self) -> Schema:
        clause = r"\s*(==|~=|>=|<=|!=|>|<)?\s*\d+(\.\d+)*(\.\*)?\s*"
        return {"type": "string", "pattern": f"^{clause}(,{clause})*$"}


class Selectors:
    """Rules by name, code, code prefix or category, or `all`."""

    def read(self, value: object, place: Place) -> tuple[str, ...]:
        selectors = {selector.strip().lower(): selector for selector in Strings().read(value, place)}
        for selector in selectors.values():
            check_selector(selector, place)
        return tuple(selectors.values())

    def schema(self) -> Schema:
        return {"type": "array", "items": selector_schema()}


class PerFileIgnores:
    """Patterns of files, each with the rules that are not looked for there."""

    def read(self, value: object, place: Place) -> tuple[tuple[str, tuple[str, ...]], ...]:
        items = table(value, place).items()
        return tuple((pattern, Selectors().read(names, place.at(pattern))) for pattern, names in items)

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": Selectors().schema()}


class Severities:
    """Rules, each with the severity that it reports with."""

    def read(self, value: object, place: Place) -> tuple[tuple[str, str], ...]:
        known = Choice([severity.value for severity in Severity])
        found = {key.strip().lower(): (key, item) for key, item in table(value, place).items()}
        for selector, severity in found.values():
            check_selector(selector, place.at(selector))
            known.read(severity, place.at(selector))
        return tuple((selector, str(severity)) for selector, severity in found.values())

    def schema(self) -> Schema:
        names = Choice([severity.value for severity in Severity]).schema()
        return {"type": "object", "propertyNames": selector_schema(), "additionalProperties": names}


class RuleOptions:
    """Options of rules, by the names of those."""

    def read(self, value: object, place: Place) -> dict[str, dict[str, OptionValue]]:
        known = {rule.rule_name(): rule for rule in registry.rules()}
        return {
            name: self._options(options, rule, place.at(name))
            for name, options, rule in known_keys(value, place, known, _hint_of_rule)
        }

    def _options(self, value: object, rule: AnyRule, place: Place) -> dict[str, OptionValue]:
        return {
            name: self._option(option, default, place.at(name))
            for name, option, default in known_keys(value, place, rule.options, hint_of_key)
        }

    def _option(self, value: object, default: OptionValue, place: Place) -> OptionValue:
        """The value of a rule's option, which has the type of its default."""
        if isinstance(default, tuple):
            return Strings().read(value, place)
        if isinstance(default, bool):
            return Flag().read(value, place)
        if isinstance(default, int) and isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(default, str) and isinstance(value, str):
            return value
        raise place.wrong(f"must be {kind_of(default)}, not {kind_of(value)}")

    def schema(self) -> Schema:
        return closed({rule.rule_name(): self._of_rule(rule) for rule in registry.rules()})

    def _of_rule(self, rule: AnyRule) -> Schema:
        options = {name: {**_schema_of(default), "default": default} for name, default in rule.options.items()}
        return {"description": rule.meta().summary, **closed(options)}


def _schema_of(default: OptionValue) -> Schema:
    if isinstance(default, tuple):
        return Strings().schema()
    kinds = {bool: "boolean", int: "integer", str: "string"}
    return {"type": kinds[type(default)]}


def closed(properties: Mapping[str, Schema]) -> Schema:
    """A table with these keys and no others."""
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}


def selector_schema() -> Schema:
    """Names as they are to be chosen from; codes may be written in small letters, and be cut short."""
    metas = registry.metas()
    names = [meta.name for meta in metas] + [category.value for category in Category] + ["all"]
    letters = sorted({code.rstrip("0123456789") for meta in metas for code in (meta.code, *meta.aliases)})
    beginnings = "|".join("".join(f"[{char}{char.lower()}]" for char in prefix) for prefix in letters)
    return {"anyOf": [{"enum": names}, {"type": "string", "pattern": rf"^({beginnings})[0-9]{{0,3}}$"}]}


def check_selector(selector: str, place: Place) -> None:
    """Raise `WrongValue` for a selector that means no rule."""
    try:
        registry.find(selector)
    except registry.UnknownRule as error:
        raise place.wrong(str(error)) from None


def table(value: object, place: Place) -> dict[str, object]:
    if not isinstance(value, dict):
        raise place.wrong(f"must be a table, not {kind_of(value)}")
    return value


def known_keys(
    value: object, place: Place, known: Mapping[str, Any], hint_of: Hint
) -> Iterator[tuple[str, object, Any]]:
    """Key and value of a table, each with what is known of it; raises `WrongValue` for another key."""
    for key, item in table(value, place).items():
        if key not in known:
            raise place.at(key).wrong(f"unknown key{hint_of(key, known)}")
        yield key, item, known[key]


def hint_of_key(key: str, known: Collection[str]) -> str:
    return hint(key, known) or (f"; known are {', '.join(sorted(known))}" if known else "; there are none here")


def _hint_of_rule(key: str, known: Collection[str]) -> str:
    """The options of a rule are set under its name."""
    rules = [rule.meta() for rule in registry.rules()]
    for rule in rules:
        if rule.code == key.upper():
            return f"; did you mean `{rule.name}`?"
    return hint_of_rule(key, rules) or hint_of_key(key, known)


def kind_of(value: object) -> str:
    """The type of a value, in TOML's words."""
    kinds = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", dict: "a table"}
    if isinstance(value, list):
        return "a list of other things" if any(not isinstance(item, str) for item in value) else "a list"
    return kinds.get(type(value), f"a {type(value).__name__}")

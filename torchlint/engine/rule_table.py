"""The table of built-in rules: what is needed of a rule before it runs, so that only few are imported.

It is written when the package is built (`setup.py`). A source tree keeps its own, beside the bytecode of the rules.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from torchlint.engine.plugins import CORE, rules_in, version_of
from torchlint.files import regular
from torchlint.finding import Category, Meta
from torchlint.lazy_import import late
from torchlint.rule import OptionValue, Rule

FILE = "rule_table.json"
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of torchlint's modules."""
_STARTED = time.time_ns()
_SETTLED = 2 * 10**9
"""So many nanoseconds before its import a source was last written, if it is surely what was imported."""


@dataclass(frozen=True, eq=False)
class ListedRule:
    """A built-in rule that may not be imported yet; there is one of each in a process."""

    module: str
    class_name: str
    known: Meta
    triggers: tuple[tuple[bytes, ...], ...]
    options: Mapping[str, OptionValue]

    @property
    def code(self) -> str:
        return self.known.code

    @property
    def category(self) -> Category:
        return self.known.category

    @property
    def preview(self) -> bool:
        return self.known.preview

    def rule_name(self) -> str:
        return self.known.name

    def meta(self) -> Meta:
        return self.known

    def load(self) -> type[Rule]:
        """The class. Importing its module may raise anything."""
        late("libcst")
        found: type[Rule] = getattr(import_module(self.module), self.class_name)
        return found

    def __reduce__(self) -> tuple[object, ...]:
        """Another process takes the rule of its own table."""
        return _named, (self.rule_name(),)


AnyRule: TypeAlias = "type[Rule] | ListedRule"


def loaded(rule: AnyRule) -> type[Rule]:
    """The class of a rule."""
    return rule.load() if isinstance(rule, ListedRule) else rule


@cache
def builtin_rules() -> tuple[ListedRule, ...]:
    """The built-in rules: by the table, or by their modules where it is missing, broken or of other sources.

    Importing the modules may raise anything.
    """
    folder = os.path.dirname(os.path.abspath(str(import_module(CORE.value).__file__)))
    if os.path.dirname(folder) == _HOME:
        return read(_content(os.path.join(folder, FILE)) or b"", _version()) or _imported()
    place, stamps = os.path.join(folder, "__pycache__", FILE), _stamps(folder)
    before = _content(place)
    known = read(before or b"", stamps)
    if known is None:
        known = _imported()
        if _is_settled(stamps):
            _keep(place, before, written(known, stamps))
    return known


def _imported() -> tuple[ListedRule, ...]:
    late("libcst")  # rules import it for what they do once a file was parsed
    return tuple(map(listed, rules_in(CORE.load())))


def _named(name: str) -> ListedRule:
    return next(rule for rule in builtin_rules() if rule.rule_name() == name)


def listed(rule: type[Rule]) -> ListedRule:
    """The entry of a rule in the table."""
    triggers = tuple(tuple(group) for group in rule.triggers)
    return ListedRule(rule.__module__, rule.__name__, rule.meta(), triggers, dict(rule.options))


# -- the file -------------------------------------------------------------------------------------------


def read(content: bytes, state: object) -> tuple[ListedRule, ...] | None:
    """The rules of a table; None if this is none, or one of sources in another state."""
    import json

    try:
        table = json.loads(content)
        return tuple(map(_listed, table["rules"])) if table["state"] == state else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _content(path: str) -> bytes | None:
    """The bytes of a file; None if there is none that can be read."""
    try:
        return regular.read(path)
    except OSError:
        return None


def written(rules: Iterable[ListedRule], state: object) -> bytes:
    """The content of a table."""
    import json

    return json.dumps({"state": state, "rules": list(map(_plain, rules))}, separators=(",", ":")).encode()


def write_built(folder: str, version: str) -> None:
    """Write the table of the package that is being built in a folder, which Python imports it from."""
    from torchlint.files.atomic_write import overwrite

    overwrite(Path(folder, *CORE.value.split("."), FILE), written(_imported(), version))


def _plain(rule: ListedRule) -> list[Any]:
    """A rule as JSON values."""
    meta, triggers = rule.known, [[word.decode("latin-1") for word in group] for group in rule.triggers]
    known = [meta.name, meta.code, meta.category.value, meta.documentation, meta.preview, meta.aliases]
    return [rule.module, rule.class_name, [*known, meta.is_maintenance], triggers, rule.options]


def _listed(values: list[Any]) -> ListedRule:
    """The rule of which `_plain` made JSON values."""
    module, class_name, known, groups, options = values
    name, code, category, documentation, preview, aliases, is_maintenance = known
    return ListedRule(
        module,
        class_name,
        Meta(name, code, Category(category), documentation, preview, tuple(aliases), is_maintenance),
        tuple(tuple(word.encode("latin-1") for word in group) for group in groups),
        {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()},
    )


# -- what it was made of --------------------------------------------------------------------------------


def _version() -> str:
    """The version of torchlint, as far as it is known; no table is of the empty one."""
    try:
        return version_of("torchlint")
    except ImportError:
        return ""


def _stamps(folder: str) -> dict[str, list[int]]:
    """Size and time of every source in a tree that something in the table may come from."""
    found = {__file__: os.stat(__file__)}
    for place in (folder, os.path.join(_HOME, "pytorch"), _HOME):
        found.update((item.path, item.stat()) for item in os.scandir(place) if item.name.endswith(".py"))
    return {path: [status.st_size, status.st_mtime_ns] for path, status in sorted(found.items())}


def _is_settled(stamps: Mapping[str, list[int]]) -> bool:
    """Whether no source can have changed since this process imported it."""
    return max(time for _, time in stamps.values()) < _STARTED - _SETTLED


def _keep(path: str, before: bytes | None, after: bytes) -> None:
    """Put the table of a source tree in its place, if Python may write bytecode there.

    Under `-OO` rules have no documentation; what they say then is not kept.
    """
    from torchlint.files.atomic_write import WriteError, write

    if not sys.dont_write_bytecode and sys.pycache_prefix is None and sys.flags.optimize < 2:
        with suppress(WriteError):
            write(Path(path), before, after)

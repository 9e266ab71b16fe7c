"""Entry points -> rules, validated; and the selection of rules by name, code, code prefix or category."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from torchlint.addresses import SITE, rule_page
from torchlint.engine.plugins import CORE, Plugin, is_web, plugins, rules_in
from torchlint.engine.plugins import RegistryError as RegistryError
from torchlint.engine.rule_table import AnyRule, ListedRule, builtin_rules
from torchlint.engine.suppressions import UNKNOWN_SUPPRESSION, UNUSED_SUPPRESSION
from torchlint.finding import Category, Confidence, Meta, Severity
from torchlint.lazy_import import late
from torchlint.lazy_pattern import LazyPattern
from torchlint.pytorch.releases import Releases
from torchlint.rule import OptionValue
from torchlint.suggest import hint_of_selector

if TYPE_CHECKING:
    from torchlint.engine.following import Following

SYNTAX_ERROR = Meta(
    "syntax-error",
    "TL001",
    Category.CORRECTNESS,
    """A file is not valid Python, so no rule could analyze it.

## What it does
Reports the first syntax error of a file, or of each cell of a notebook.
torchlint does not parse a file in which no rule can fire. The language server reports the syntax errors of every file.

A Python 2 file or notebook gets one finding, however many errors it contains.

torchlint parses files with the Python that runs it. torchlint also parses Python 3.12 f-strings under older versions.
For other newer syntax, a notice on standard error names the Python to use. A notice does not change the exit code.""",
)
UNREADABLE_FILE = Meta(
    "unreadable-file",
    "TL002",
    Category.CORRECTNESS,
    "A file cannot be read as Python source, so no rule could analyze it.",
)
INTERNAL_ERROR = Meta(
    "internal-error",
    "TL003",
    Category.CORRECTNESS,
    "A rule crashed on a file: a bug in the rule, not in the file.",
)
ENGINE_CHECKS = (SYNTAX_ERROR, UNREADABLE_FILE, INTERNAL_ERROR, UNUSED_SUPPRESSION, UNKNOWN_SUPPRESSION)
"""The engine's own checks, beside the rules."""

ABOUT_FILES = frozenset(check.name for check in (SYNTAX_ERROR, UNREADABLE_FILE, INTERNAL_ERROR))
"""Checks of a file rather than of its code: always on."""
_CODE = LazyPattern(r"[A-Z]{2,5}\d{3}")
_CODE_OF_TORCHFIX = LazyPattern(r"TOR\d{3}", re.IGNORECASE)


class UnknownRule(Exception):
    """A selector that means no rule; the message says which one was probably meant."""

    def __init__(self, selector: str, known: Collection[Meta]) -> None:
        """`known` are the rules that could have been meant."""
        unknown = f"unknown rule or category `{selector}`{hint_of_selector(selector, known)}"
        if _CODE_OF_TORCHFIX.fullmatch(selector.strip()):
            unknown = f"no rule stands for `{selector}` of TorchFix: see {SITE}/compared/#torchfix"
        super().__init__(unknown if selector.strip() else "the name of a rule is empty")


@dataclass(frozen=True)
class Selection:
    """The selected rules, the engine's own checks by name, and the rules' options."""

    rules: tuple[AnyRule, ...]
    """Classes, or what the table says of those that may not be imported yet."""
    checks: frozenset[str] = ABOUT_FILES
    options: Mapping[str, Mapping[str, OptionValue]] = field(default_factory=dict)
    following: Following | None = None
    """How imports are followed; without it what a file imports is unknown."""
    torch: Releases | None = None
    """The releases of PyTorch that the project asks for; without them the current one."""
    severities: Mapping[str, Severity] = field(default_factory=dict)
    """The severities of rules that the configuration changes."""
    unfixable: frozenset[str] = frozenset()
    """Rules whose fixes are neither made nor offered."""
    stable_only: frozenset[str] = frozenset()
    """Rules of which findings of low confidence, which are previews, are left out."""
    ignore_noqa: bool = False
    """Whether findings are reported that a comment suppresses."""

    def reports(self, name: str, confidence: Confidence) -> bool:
        """Whether what a rule finds with some confidence is reported."""
        return confidence is not Confidence.LOW or name not in self.stable_only


@cache
def rules() -> tuple[AnyRule, ...]:
    """All installed rules by code; raises `RegistryError`."""
    return tuple(sorted(_declared(), key=lambda rule: rule.code))


@cache
def _declared() -> Mapping[AnyRule, Plugin]:
    """All installed rules, each with the plugin that declares it first; raises `RegistryError`."""
    late("libcst")  # rules import it for what they do when a file was parsed
    found: dict[str, AnyRule] = {}
    codes: dict[str, str] = {meta.code: meta.name for meta in ENGINE_CHECKS}
    declared: dict[AnyRule, Plugin] = {}
    for plugin in plugins():
        try:
            for rule in builtin_rules() if plugin == CORE else rules_in(plugin.load()):
                _add(rule, found, codes)
                declared.setdefault(rule, plugin)
        except (Exception, SystemExit) as error:
            reason = str(error) if isinstance(error, RegistryError) else _described(error)
            raise RegistryError(f"plugin `{plugin.name}` ({plugin.value}) cannot be used: {reason}") from error
    return declared


def _described(error: BaseException) -> str:
    from torchlint.engine.moved import hint as hint_of_moved

    return f"{type(error).__name__}: {error}{hint_of_moved(error)}"


def _origin(rule: AnyRule) -> tuple[str, str]:
    """The module and the class that a rule is."""
    return (rule.module, rule.class_name) if isinstance(rule, ListedRule) else (rule.__module__, rule.__name__)


def _add(rule: AnyRule, found: dict[str, AnyRule], codes: dict[str, str]) -> None:
    """Add a rule to those that were found, by name, and to their codes."""
    name, code = rule.rule_name(), _checked_code(rule)
    if name in found and _origin(found[name]) == _origin(rule):
        return
    if name in found or code in codes:
        raise RegistryError(f"rule {name} ({code}) clashes with another rule")
    found[name] = rule
    codes[code] = name


def _checked_code(rule: AnyRule) -> str:
    code = getattr(rule, "code", None)
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise RegistryError(f"rule {rule.rule_name()} has no valid code: {code!r}")
    if not isinstance(getattr(rule, "category", None), Category):
        raise RegistryError(f"rule {rule.rule_name()} has no category")
    return code


@cache
def _addresses() -> Mapping[str, str]:
    own = {check.name: rule_page(check.name) for check in ENGINE_CHECKS}
    return own | {rule.rule_name(): _address(rule, plugin) for rule, plugin in _declared().items()}


def _address(rule: AnyRule, plugin: Plugin) -> str:
    if plugin == CORE or isinstance(rule, ListedRule):
        return rule_page(rule.rule_name())
    return rule.address if is_web(rule.address) else plugin.address


def address(name: str) -> str:
    """Where a rule or a check of the engine is documented; empty for a plugin's rule that does not say."""
    return _addresses().get(name, "")


def metas() -> tuple[Meta, ...]:
    """Everything that can be reported, by code."""
    return _metas_of(rules())


@cache
def _metas_of(rules: tuple[AnyRule, ...]) -> tuple[Meta, ...]:
    return tuple(sorted((*ENGINE_CHECKS, *(rule.meta() for rule in rules)), key=lambda meta: meta.code))


def find(selector: str) -> list[Meta]:
    """The rules of a name, code, code prefix, category or `all`; raises `UnknownRule`."""
    wanted = selector.strip()
    known = metas()
    found = [meta for meta in known if meta.is_meant_by(wanted)]
    if not found:
        raise UnknownRule(wanted, known)
    return found


def select(
    chosen: Iterable[str] | None = None,
    ignored: Iterable[str] = (),
    extended: Iterable[str] = (),
    *,
    preview: bool = False,
    fixable: Iterable[str] | None = None,
    unfixable: Iterable[str] = (),
    severity: Iterable[tuple[str, str]] = (),
    options: Mapping[str, Mapping[str, OptionValue]] | None = None,
    following: Following | None = None,
    torch: Releases | None = None,
    ignore_noqa: bool = False,
) -> Selection:
    """Resolve selectors into a selection; `chosen` of None means the defaults. Raises `UnknownRule`.

    A preview rule takes part only with `preview`, or when it is named by its own name or code, and so do findings of
    low confidence. Imports are followed only with `following`. `torch` are the releases of PyTorch that the project
    asks for. Fixes are those of rules that are `fixable`, or all, without those that are `unfixable`; `severity` are
    selectors with what they report as. With `ignore_noqa` comments suppress nothing.
    """
    explicit: set[str] = set()

    def named(selectors: Iterable[str]) -> set[str]:
        names: set[str] = set()
        for selector in selectors:
            metas_found = find(selector)
            names.update(meta.name for meta in metas_found)
            explicit.update(meta.name for meta in metas_found if selector.strip().lower() in meta.selectors)
        return names

    if chosen is None:
        names = {meta.name for meta in metas() if meta.category.on_by_default}
    else:
        names = named(chosen)
    names |= named(extended)
    names -= named(ignored)
    known = {meta.name: meta for meta in metas()}
    names = {name for name in names if preview or name in explicit or not known[name].preview}
    return Selection(
        rules=tuple(rule for rule in rules() if rule.rule_name() in names),
        checks=ABOUT_FILES | {meta.name for meta in ENGINE_CHECKS if meta.name in names},
        options=dict(options or {}),
        following=following,
        torch=torch,
        severities=_severities(severity),
        unfixable=_unfixable(fixable, unfixable),
        stable_only=frozenset() if preview else frozenset(names - explicit),
        ignore_noqa=ignore_noqa,
    )


def _severities(chosen: Iterable[tuple[str, str]]) -> dict[str, Severity]:
    """By rule; what means fewer rules goes before what means more of them, and the last before others alike."""
    found = [(find(selector), Severity(severity)) for selector, severity in chosen]
    by_reach = sorted(found, key=lambda item: -len(item[0]))
    return {meta.name: severity for metas_found, severity in by_reach for meta in metas_found}


def _unfixable(fixable: Iterable[str] | None, unfixable: Iterable[str]) -> frozenset[str]:
    """The rules whose fixes are turned off."""
    left_out = {meta.name for selector in unfixable for meta in find(selector)}
    if fixable is not None:
        wanted = {meta.name for selector in fixable for meta in find(selector)}
        left_out |= {meta.name for meta in metas()} - wanted
    return frozenset(left_out)

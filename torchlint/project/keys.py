"""The keys of the configuration: the one definition for reading files and for the JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass

from torchlint.engine.plugins import version_of
from torchlint.project.formats import FORMATS
from torchlint.project.kinds import (
    Choice,
    Flag,
    Folders,
    InsidePath,
    Kind,
    PerFileIgnores,
    Requirement,
    RuleOptions,
    Selectors,
    Severities,
    Strings,
)


@dataclass(frozen=True)
class Key:
    """One key of `[tool.torchlint]`."""

    kind: Kind
    meaning: str
    of_this_file: bool = False
    """Whether it describes its file and is not a setting."""


def _version() -> str:
    return version_of("torchlint")


KEYS: dict[str, Key] = {
    "required-version": Key(
        Requirement(_version),
        "The releases of torchlint that this file works with, such as `>=0.2,<0.4`. "
        "Other releases print an error and stop.",
        of_this_file=True,
    ),
    "extend": Key(
        InsidePath(),
        "A configuration file to inherit settings from. Settings in this file override it.",
        of_this_file=True,
    ),
    "select": Key(Selectors(), "Use only these rules: names, codes, prefixes of codes, categories, or `all`."),
    "ignore": Key(Selectors(), "Do not use these rules."),
    "extend-select": Key(Selectors(), "Use these rules too."),
    "fixable": Key(Selectors(), "Fix only findings of these rules."),
    "unfixable": Key(Selectors(), "Do not fix findings of these rules."),
    "severity": Key(Severities(), "Report these rules as error, warning, information or hint."),
    "per-file-ignores": Key(PerFileIgnores(), "Rules to ignore in files that match a pattern (as in .gitignore)."),
    "exclude": Key(Strings(), "Files and folders to skip: patterns as in .gitignore, relative to this file."),
    "preview": Key(Flag(), "Turn on preview rules and low-confidence findings."),
    "force-exclude": Key(Flag(), "Skip excluded files even if the command line names them."),
    "follow": Key(Flag(), "Follow imports to other files of the repository."),
    "src": Key(
        Folders(),
        "More folders in which torchlint searches for imported modules. `*` matches any name.",
    ),
    "output-format": Key(Choice(list(FORMATS)), "The format of the findings, unless --output-format is given."),
    "baseline": Key(InsidePath(), "Report only findings that this baseline does not contain. --baseline overrides it."),
    "cache-dir": Key(InsidePath(), "The folder of the cache. --cache-dir and TORCHLINT_CACHE_DIR override it."),
    "rules": Key(RuleOptions(), "Rule options, in one table per rule."),
}

PER_RUN = ("output-format", "baseline", "cache-dir")
"""Keys of a whole run: they come from the configuration of the working folder."""

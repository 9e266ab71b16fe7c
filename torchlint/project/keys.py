"""The keys of the configuration: the one definition, by which files are read and their JSON Schema is made."""

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
    """Whether it speaks of its file, and is no setting."""


def _version() -> str:
    return version_of("torchlint")


KEYS: dict[str, Key] = {
    "required-version": Key(
        Requirement(_version),
        "The releases of torchlint that this file is written for, as `>=0.2,<0.4`; another one stops.",
        of_this_file=True,
    ),
    "extend": Key(
        InsidePath(),
        "A configuration file whose settings this one inherits; what is set here goes before it.",
        of_this_file=True,
    ),
    "select": Key(Selectors(), "Look for these rules only; by name, code, beginning of a code or category, or `all`."),
    "ignore": Key(Selectors(), "Do not look for these rules."),
    "extend-select": Key(Selectors(), "Look for these rules as well."),
    "fixable": Key(Selectors(), "Make and offer the fixes of these rules only."),
    "unfixable": Key(Selectors(), "Neither make nor offer the fixes of these rules."),
    "severity": Key(Severities(), "Report these rules as error, warning, information or hint."),
    "per-file-ignores": Key(
        PerFileIgnores(), "Patterns of files as in .gitignore, each with rules that are not looked for there."
    ),
    "exclude": Key(Strings(), "Leave out files and folders; patterns as in .gitignore, from the folder of this file."),
    "preview": Key(Flag(), "Take in rules that are not stable yet, and findings of low confidence."),
    "force-exclude": Key(Flag(), "Leave out excluded files even if they are named on the command line."),
    "follow": Key(Flag(), "Follow imports that lead to files of the same repository."),
    "src": Key(Folders(), "Folders that imports start from, where torchlint does not guess them; `*` is any name."),
    "output-format": Key(Choice(list(FORMATS)), "The format of the findings, unless --output-format names one."),
    "baseline": Key(InsidePath(), "Report only what this file does not hold, unless --baseline names another."),
    "cache-dir": Key(InsidePath(), "The folder of the cache, unless --cache-dir or TORCHLINT_CACHE_DIR names one."),
    "rules": Key(RuleOptions(), "Options of rules, in a table for each."),
}

PER_RUN = ("output-format", "baseline", "cache-dir")
"""Keys that are taken from the configuration of the working folder, for all files of a run."""

"""Outputs: what a run found -> text in one of several formats, a file for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from torchlint.finding import Finding, Severity
from torchlint.project.formats import FORMATS
from torchlint.results import LintedFile, Outcome

__all__ = ["FORMATS", "Style", "counted", "render", "summary"]


@dataclass(frozen=True)
class Style:
    """How the formats for people look; the others do not care."""

    colour: bool = False
    summary: bool = True
    made: str = ""
    """The commit and time of a report, for formats that people keep."""


class _Format(Protocol):
    def render(self, outcome: Outcome, style: Style) -> str: ...


def render(name: str, outcome: Outcome, style: Style) -> str:
    """The outcome as text in the format `name`."""
    module: _Format = import_module(f"{__name__}.{name.replace('-', '_')}")
    return module.render(outcome, style)


def counted(number: int, noun: str) -> str:
    """`1 file`, `2,000 files`."""
    plural = "" if number == 1 or noun == "information" else "s"
    return f"{number:,} {noun}{plural}"


def summary(outcome: Outcome) -> str:
    """`3 findings (1 error, 2 warnings) in 2 of 9 files; 4 files use PyTorch.`

    Deprecated names count apart: `2 training bugs (2 errors) in 1 of 9 files; 60 deprecated names in 5 files; ...`.
    """
    defects, maintenance = outcome.parted()
    total = counted(outcome.total, "file")
    parts = [_defects(defects, outcome, total, apart=bool(maintenance))]
    if maintenance:
        number = sum(len(file.findings) for file in maintenance)
        where = counted(len(maintenance), "file") if defects else f"{len(maintenance):,} of {total}"
        parts.append(f"{counted(number, f'{_new(outcome)}deprecated name')} in {where}")
    if outcome.users is not None and outcome.users != outcome.total:
        parts.append(_users(outcome.users))
    return f"{'; '.join(parts)}."


def _defects(files: Sequence[LintedFile], outcome: Outcome, total: str, *, apart: bool) -> str:
    """How many findings that are no deprecated names; `apart` if there are such names, too."""
    found = [finding for file in files for finding in file.findings]
    noun = _new(outcome) + ("training bug" if apart and not _is_of_engine(found) else "finding")
    if not found:
        return f"No {noun}s" if apart else f"No {noun}s in {total}"
    severities = Counter(finding.severity for finding in found)
    kinds = ", ".join(counted(severities[kind], kind.value) for kind in Severity if severities[kind])
    return f"{counted(len(found), noun)} ({kinds}) in {len(files):,} of {total}"


def _new(outcome: Outcome) -> str:
    return "new " if outcome.new_only else ""


def _is_of_engine(found: Iterable[Finding]) -> bool:
    """Whether a finding is of the engine, and thus no training bug: a syntax error, a comment without effect."""
    from torchlint.engine.registry import ENGINE_CHECKS  # not worth its time before there is something to count

    own = {check.name for check in ENGINE_CHECKS}
    return any(finding.name in own for finding in found)


def _users(number: int) -> str:
    if not number:
        return "no file uses PyTorch"
    return f"{counted(number, 'file')} {'uses' if number == 1 else 'use'} PyTorch"

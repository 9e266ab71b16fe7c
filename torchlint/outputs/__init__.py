"""Outputs: what a run found -> text in one of several formats, a file for each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from torchlint.finding import Severity
from torchlint.project.formats import FORMATS
from torchlint.results import Outcome

__all__ = ["FORMATS", "Style", "counted", "render", "summary"]


@dataclass(frozen=True)
class Style:
    """How the formats for people look; the others do not care."""

    colour: bool = False
    summary: bool = True
    made: str = ""
    """Of which commit, and when, for formats that are kept."""


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
    """`3 findings (1 error, 2 warnings) in 2 of 9 files, 4 looked into.` Or `3 new findings`."""
    found = outcome.findings
    noun = "new finding" if outcome.new_only else "finding"
    is_all = outcome.looked_into in (None, outcome.total)
    all_files = counted(outcome.total, "file") + ("" if is_all else f", {outcome.looked_into:,} looked into")
    if not found:
        return f"No {noun}s in {all_files}."
    severities = Counter(finding.severity for finding in found)
    kinds = ", ".join(counted(severities[kind], kind.value) for kind in Severity if severities[kind])
    return f"{counted(len(found), noun)} ({kinds}) in {len(outcome.files):,} of {all_files}."

"""How often each rule found something, most first."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from torchlint.outputs import Style
from torchlint.results import Outcome


class Row(NamedTuple):
    """The findings of one rule: in how many files, and how many have a fix."""

    code: str
    name: str
    findings: int
    files: int
    fixable: int


def rows(outcome: Outcome) -> list[Row]:
    """One for each rule that found something."""
    counts = Counter((finding.code, finding.name) for finding in outcome.findings)
    files = Counter(key for file in outcome.files for key in {(item.code, item.name) for item in file.findings})
    fixable = Counter((finding.code, finding.name) for finding in outcome.findings if finding.fix is not None)
    found = [Row(*key, count, files[key], fixable[key]) for key, count in counts.items()]
    return sorted(found, key=lambda row: (-row.findings, row.code))


def render(outcome: Outcome, style: Style) -> str:
    """A table of count, code, name and number of files."""
    found = rows(outcome)
    width = max((len(row.name) for row in found), default=0)
    return "".join(
        f"{row.findings:>6}  {row.code}  {row.name:<{width}}  in {row.files} file{'s' * (row.files != 1)}\n"
        for row in found
    )

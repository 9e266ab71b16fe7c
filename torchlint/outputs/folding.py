"""Findings of one file that say the same of several lines, as one of them and the places of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

from torchlint.files.source import SourceFile
from torchlint.finding import Finding, Position, Span

_NOWHERE = Span(Position(0, 0), Position(0, 0))


def folded(findings: Iterable[Finding]) -> list[list[Finding]]:
    """The findings in groups that differ in nothing but their places; groups and their members keep their order."""
    groups: dict[Finding, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_key(finding), []).append(finding)
    return list(groups.values())


def _key(finding: Finding) -> Finding:
    """The parts of a finding that repeat: everything shown except its place."""
    fix = finding.fix and replace(finding.fix, edits=())
    return replace(finding, span=_NOWHERE, fingerprint="", fix=fix)


def lines_of(source: SourceFile, findings: Iterable[Finding]) -> str:
    """`on lines 12, 40`; in a notebook `in cell 3 on line 4, in cell 5 on lines 2, 7`."""
    places = dict.fromkeys((place.cell, place.line) for item in findings for place in [source.place(item.span.start)])
    cells = [(cell, [line for _, line in group]) for cell, group in groupby(places, lambda place: place[0])]
    return ", ".join(("" if cell is None else f"in cell {cell} ") + _on(lines) for cell, lines in cells)


def _on(lines: list[int]) -> str:
    return f"on line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"

"""Lint one file: triage, then a walk over what is parsed, suppress, sort."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.collector import collector_paused
from torchlint.finding import Finding, fingerprint
from torchlint.notebook import Cell
from torchlint.problems import Crashes, file_finding, internal_finding, problem_finding
from torchlint.registry import (
    ENGINE_CHECKS,
    UNREADABLE_FILE,
    Selection,
    metas,
)
from torchlint.rule import Rule
from torchlint.source import SourceError, SourceFile, SyntaxProblem
from torchlint.suppress import UNKNOWN_SUPPRESSION, UNUSED_SUPPRESSION, Suppressions

if TYPE_CHECKING:
    from torchlint.pieces import Pieces

_SUPPRESSION_CHECKS = {UNUSED_SUPPRESSION.name, UNKNOWN_SUPPRESSION.name}


def lint(source: SourceFile, selection: Selection, pieces: Pieces | None = None) -> list[Finding]:
    """All findings of one file, sorted; what is wrong with the file itself is a finding too. Never raises.

    `pieces` remember what was parsed, for whoever lints a file each time that it is edited.
    """
    try:
        source.text  # noqa: B018 - raises when the bytes are no text
        findings = _lint_valid(source, selection, pieces)
    except SourceError as error:
        findings = [problem_finding(source, error)]
    except (RecursionError, MemoryError):
        findings = [file_finding(UNREADABLE_FILE, source, "code is nested too deeply to be read", 1)]
    except Exception as error:
        findings = [internal_finding(source, "torchlint", error)]
    return _finished(findings, source)


def _lint_valid(source: SourceFile, selection: Selection, pieces: Pieces | None) -> list[Finding]:
    """Lint what is valid Python: of a notebook with cells that are not the others."""
    try:
        return _lint_text(source, selection, pieces)
    except (SyntaxProblem, SourceError) as problem:
        broken = broken_cells(source)
        if not broken or source.skipped:
            return [problem_finding(source, problem)]
    findings = [problem_finding(source, own, source.first_line(cell) - 1) for cell, own in broken.items()]
    rest = replace(source, skipped=frozenset(cell.number for cell in broken))
    try:
        return findings + _lint_text(rest, selection)
    except (SyntaxProblem, SourceError) as together:
        return [*findings, problem_finding(source, together)]


def broken_cells(source: SourceFile) -> dict[Cell, SyntaxProblem | SourceError]:
    """The cells of a notebook that are no valid Python, each with what is wrong; raises `SourceError`."""
    return {cell: found for cell in source.cells if (found := _problem_of(cell))}


def _problem_of(cell: Cell) -> SyntaxProblem | SourceError | None:
    from torchlint.syntax import parse

    try:
        parse(SourceFile("cell.py", cell.program.encode()))
    except (SyntaxProblem, SourceError) as problem:
        return problem
    return None


def _lint_text(source: SourceFile, selection: Selection, pieces: Pieces | None = None) -> list[Finding]:
    suppressions = Suppressions(source)
    crashes = Crashes(source)
    active = looking(selection.rules, source.code)
    found: list[Finding] = []
    if active:
        from torchlint.walk import walk  # LibCST takes longer to import than most runs take

        found = walk(source, active, selection.options, suppressions, crashes, pieces)
    if selection.checks & _SUPPRESSION_CHECKS:
        rules = [rule.meta() for rule in selection.rules]
        ran = {meta.name for meta in (*rules, *ENGINE_CHECKS)} - {rule.rule_name() for rule in crashes.failed}
        found += suppressions.findings(selection.checks, ran, [*metas(), *rules])
    return found + crashes.findings


def looking(rules: Iterable[type[Rule]], data: bytes) -> list[type[Rule]]:
    """The rules that look at a file of these bytes: those that may fire, if it has to be parsed for one of them."""
    able = [rule for rule in rules if rule.may_fire(data)]
    quick_first = sorted(able, key=lambda rule: "is_worth_a_parse" in vars(rule))
    with collector_paused():
        return able if any(rule.is_worth_a_parse(data) for rule in quick_first) else []


def unreadable(path: str, reason: str) -> Finding:
    """The finding for a file that could not even be read."""
    source = SourceFile(path, b"")
    return _finished([file_finding(UNREADABLE_FILE, source, reason, 1)], source)[0]


def _finished(findings: Iterable[Finding], source: SourceFile) -> list[Finding]:
    """Sorted, each with a fingerprint: the rule, the text of its line, and which of several like it."""
    seen: Counter[tuple[str, str]] = Counter()
    finished = []
    for finding in sorted(findings, key=lambda finding: finding.sort_key):
        line = _line_text(source, finding.span.start.line)
        key = (finding.name, line.strip())
        seen[key] += 1
        finished.append(replace(finding, fingerprint=fingerprint(finding.name, line, seen[key])))
    return finished


def _line_text(source: SourceFile, number: int) -> str:
    try:
        return source.line(number)
    except SourceError:
        return ""

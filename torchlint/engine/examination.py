"""Lint one file: the gate, the rules, suppressions, order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from torchlint.engine.diagnostics import Crashes, file_finding, internal_finding, is_notice, problem_finding
from torchlint.engine.fix_check import with_valid_fixes
from torchlint.engine.following import Reach, imported_training
from torchlint.engine.gate import by_words, uses_torch
from torchlint.engine.registry import (
    ENGINE_CHECKS,
    INTERNAL_ERROR,
    UNREADABLE_FILE,
    Selection,
    metas,
    select,
)
from torchlint.engine.rule_table import AnyRule
from torchlint.engine.suppressions import UNKNOWN_SUPPRESSION, UNUSED_SUPPRESSION, Suppressions, may_name_rules
from torchlint.files.ipython import without_indent
from torchlint.files.source import NewerSyntax, SourceError, SourceFile, SyntaxProblem, Unread
from torchlint.finding import Finding, fingerprint
from torchlint.results import NO_TALLY, Tally
from torchlint.rule import Rule

if TYPE_CHECKING:
    from torchlint.engine.document_cache import DocumentCache
    from torchlint.files.first_party import Search

_OWN_CHECKS = {meta.name for meta in ENGINE_CHECKS}
_SUPPRESSION_CHECKS = {UNUSED_SUPPRESSION.name, UNKNOWN_SUPPRESSION.name}


@dataclass(frozen=True)
class Examination:
    """All that was found in a file, sorted."""

    findings: list[Finding]
    tally: Tally = NO_TALLY
    search: Search | None = None
    """Knows which modules were looked for."""
    notices: tuple[Finding, ...] = ()
    """Remarks on how the file can be linted, sorted: comments without effect, syntax of a newer Python."""


def lint(source: SourceFile, selection: Selection) -> list[Finding]:
    """All findings of one file, sorted; what is wrong with the file itself is a finding too. Never raises."""
    return examine(source, selection).findings


def without_fixes(selection: Selection) -> Selection:
    """The selection for findings alone, for which LibCST parses nothing."""
    return replace(selection, unfixable=frozenset(rule.rule_name() for rule in selection.rules) | selection.checks)


def examine(
    source: SourceFile,
    selection: Selection,
    cached: DocumentCache | None = None,
    *,
    always_parse: bool = False,
    checked: bool = True,
) -> Examination:
    """Lint one file. Never raises.

    `cached` is what is kept of a document that is linted each time that it is edited. With `always_parse` a file
    in which no rule can fire is still parsed for syntax errors. Fixes give valid Python, unless they are not `checked`.
    """
    is_user, unstable = False, 0
    notices: list[Finding] = []
    search = selection.following.search(source.path) if selection.following is not None else None
    try:
        is_user = uses_torch(source.code)
        source.text  # noqa: B018 - raises when the bytes are no text
        imported = imported_training(source.code, search) if search is not None else None
        active = by_words(selection.rules, source.code, imported or ())
        may_wake = imported is not None and _others_look(selection.rules, source.code, imported)
        reach = Reach(search, imported is not None, may_wake)
        every = _Linting(selection, active, always_parse, reach, notices).lint_valid(source, cached)
        findings = [finding for finding in every if selection.reports(finding.name, finding.confidence)]
        unstable = len(every) - len(findings)
        if checked:
            findings = with_valid_fixes(source, findings)
    except SourceError as error:
        findings = [problem_finding(source, error)]
    except (RecursionError, MemoryError):
        findings = [file_finding(UNREADABLE_FILE, source, "code is nested too deeply to parse", 1)]
    except Exception as error:
        findings = [internal_finding(source, "torchlint", error)]
    is_user = is_user or any(finding.name not in _OWN_CHECKS for finding in findings)
    return Examination(
        _finished(_as_selected(findings, selection), source),
        Tally(is_user, unstable),
        search,
        tuple(_finished(notices, source)),
    )


def _others_look(selected: Sequence[AnyRule], code: bytes, imported: Sequence[bytes]) -> bool:
    """Whether rules that are on by default, but not selected here, look at a program: what they have followed may give
    one that is selected a reason."""
    return bool(by_words(_others(frozenset(rule.rule_name() for rule in selected)), code, imported))


@lru_cache(maxsize=4)
def _others(selected: frozenset[str]) -> tuple[AnyRule, ...]:
    return tuple(rule for rule in select().rules if rule.rule_name() not in selected)


@dataclass(frozen=True)
class _Linting:
    """The examination of one file."""

    selection: Selection
    active: Sequence[type[Rule]]
    always_parse: bool
    reach: Reach
    notices: list[Finding]
    """Collects the notices beside the findings."""

    def lint_valid(self, source: SourceFile, cached: DocumentCache | None) -> list[Finding]:
        """Lint what is valid Python: of a notebook with cells that are not the others."""
        try:
            return self._lint_text(source, cached)
        except (SyntaxProblem, SourceError) as problem:
            findings, rest = without_broken_cells(source, problem)
        try:
            findings += self._lint_text(rest) if rest is not None else []
        except (SyntaxProblem, SourceError) as together:
            findings.append(problem_finding(source, together))
        self.notices.extend(filter(is_notice, findings))
        return [finding for finding in findings if not is_notice(finding)]

    def _lint_text(self, source: SourceFile, cached: DocumentCache | None = None) -> list[Finding]:
        suppressions = Suppressions(source, ignored=self.selection.ignore_noqa)
        crashes = Crashes(source)
        found: list[Finding] = []
        if self.active or self.reach.may_wake:
            from torchlint.engine.run_rules import walk  # LibCST takes longer to import than most runs take

            found = walk(source, self.active, self.selection, suppressions, crashes, cached, self.reach)
        elif self.always_parse:
            from torchlint.syntax.reading import check

            check(source)
        if self.selection.checks & _SUPPRESSION_CHECKS or may_name_rules(source.code):
            found += self._about_suppressions(suppressions, crashes)
        return found + crashes.findings

    def _about_suppressions(self, suppressions: Suppressions, crashes: Crashes) -> list[Finding]:
        """The findings in comments; unknown names are notices unless their check is on."""
        checks = self.selection.checks
        rules = [rule.meta() for rule in self.selection.rules]
        known = [*dict.fromkeys([*metas(), *rules])]
        if UNKNOWN_SUPPRESSION.name not in checks:
            self.notices.extend(suppressions.without_effect(known))
        ran = {meta.name for meta in (*rules, *ENGINE_CHECKS)} - {rule.rule_name() for rule in crashes.failed}
        return suppressions.findings(checks, ran, known)


def without_broken_cells(
    source: SourceFile, problem: SyntaxProblem | SourceError
) -> tuple[list[Finding], SourceFile | None]:
    """The finding about a file with this problem, and the notebook without the broken cells.

    The rest is None for a file that is not a notebook, and for a notebook that has lost cells before.
    """
    version = _problem_of_old_python(source) or (problem if isinstance(problem, NewerSyntax) else None)
    broken = {cell: found for cell in source.cells if (found := _problem_of(cell.program))}
    if not broken or source.skipped:
        return [problem_finding(source, version or problem)], None
    if version:
        findings = [problem_finding(source, version)]
    else:
        told = [(cell, own) for cell, own in broken.items() if _problem_of(without_indent(cell.program))]
        findings = [problem_finding(source, own, source.first_line(cell) - 1) for cell, own in told]
    return findings, replace(source, skipped=frozenset(cell.number for cell in broken))


def _problem_of_old_python(source: SourceFile) -> SyntaxProblem | None:
    """The one finding about a file in an outdated version of Python."""
    from torchlint.syntax.old_python import first_sign

    sign = first_sign(source.text)
    if sign is None:
        return None
    message = f"this is {sign.version} ({sign.what}), which torchlint does not support"
    return SyntaxProblem(message, source.position(sign.offset))


def _problem_of(program: str) -> SyntaxProblem | SourceError | None:
    from torchlint.syntax.reading import check

    try:
        check(SourceFile("cell.py", program.encode()))
    except (SyntaxProblem, SourceError) as problem:
        return problem
    return None


def unread_finding(path: str, problem: Unread) -> Finding:
    """The finding for a file that was not even read."""
    source, meta = SourceFile(path, b""), INTERNAL_ERROR if problem.is_of_machine else UNREADABLE_FILE
    return _finished([file_finding(meta, source, problem.reason, 1)], source)[0]


def _as_selected(findings: Iterable[Finding], selection: Selection) -> Iterable[Finding]:
    """The findings with the selected severities, and without the fixes that are turned off."""
    for finding in findings:
        severity = selection.severities.get(finding.name, finding.severity)
        fix = None if finding.name in selection.unfixable else finding.fix
        is_same = severity is finding.severity and fix is finding.fix
        yield finding if is_same else replace(finding, severity=severity, fix=fix)


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

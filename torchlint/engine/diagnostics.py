"""Findings about what went wrong: files that cannot be read, text that is no Python, rules that crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from torchlint.engine.moved import hint
from torchlint.engine.registry import INTERNAL_ERROR, SYNTAX_ERROR, UNREADABLE_FILE
from torchlint.files.source import NewerSyntax, SourceError, SourceFile, SyntaxProblem
from torchlint.finding import Finding, Meta, Position, Severity, Span
from torchlint.rule import Rule


def file_finding(meta: Meta, source: SourceFile, message: str, line: int) -> Finding:
    """A finding about a file rather than about code in it."""
    start = Position(line, 0)
    return Finding(source.path, meta.name, meta.code, message, Span(start, start), meta.category.severity)


def internal_finding(source: SourceFile, who: str, error: Exception) -> Finding:
    """The finding for what `who` raised."""
    import traceback

    place = traceback.extract_tb(error.__traceback__)[-1]
    message = f"{who} crashed: {type(error).__name__}: {error}{hint(error)} ({place.name}, line {place.lineno})"
    return file_finding(INTERNAL_ERROR, source, message, 1)


def problem_finding(source: SourceFile, problem: SyntaxProblem | SourceError, before: int = 0) -> Finding:
    """The finding for a problem in text that comes after so many lines of the file."""
    if isinstance(problem, SourceError):
        return file_finding(UNREADABLE_FILE, source, problem.message, problem.line + before)
    start = Position(problem.position.line + before, problem.position.column)
    finding = file_finding(SYNTAX_ERROR, source, problem.message, start.line)
    severity = Severity.INFORMATION if isinstance(problem, NewerSyntax) else finding.severity
    return replace(finding, span=Span(start, Position(start.line, start.column + 1)), severity=severity)


def is_notice(finding: Finding) -> bool:
    """Whether a finding about a file says nothing against it: a later Python reads it."""
    return finding.name == SYNTAX_ERROR.name and finding.severity is Severity.INFORMATION


class Crashes:
    """Contains what rules raise: one finding a rule and file, and the rule is not called again."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.failed: set[type[Rule]] = set()
        self.findings: list[Finding] = []

    def call(self, rule: type[Rule], handler: Callable[..., object], *arguments: object) -> None:
        """Call something of a rule, unless it has failed before."""
        if rule not in self.failed:
            with self.of(rule):
                handler(*arguments)

    @contextmanager
    def of(self, rule: type[Rule]) -> Iterator[None]:
        """Blame a rule for every exception inside."""
        try:
            yield
        except Exception as error:
            if rule not in self.failed:
                self.failed.add(rule)
                self.findings.append(internal_finding(self.source, f"rule {rule.rule_name()}", error))

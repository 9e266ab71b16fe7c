"""Lint one file: triage, parse, model, one walk, suppress, sort."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from torchlint.edits import lines_of
from torchlint.finding import Finding, Meta, Position, Related, Span, fingerprint
from torchlint.model import Model
from torchlint.notebook import Cell
from torchlint.pieces import Pieces
from torchlint.registry import (
    ENGINE_CHECKS,
    INTERNAL_ERROR,
    SYNTAX_ERROR,
    UNREADABLE_FILE,
    Selection,
    metas,
)
from torchlint.rule import Report, Rule
from torchlint.source import SourceError, SourceFile
from torchlint.suppress import UNKNOWN_SUPPRESSION, UNUSED_SUPPRESSION, Suppressions
from torchlint.syntax import SyntaxProblem, Tree, collector_paused, parse, with_deep_stack

Handler = Callable[[cst.CSTNode], object]

_SUPPRESSION_CHECKS = {UNUSED_SUPPRESSION.name, UNKNOWN_SUPPRESSION.name}


def lint(source: SourceFile, selection: Selection, pieces: Pieces | None = None) -> list[Finding]:
    """All findings of one file, sorted; what is wrong with the file itself is a finding too. Never raises.

    `pieces` remember what was parsed, for whoever lints a file each time that it is edited.
    """
    try:
        source.text  # noqa: B018 - raises when the bytes are no text
        findings = _lint_valid(source, selection, pieces)
    except SourceError as error:
        findings = [_problem_finding(source, error)]
    except (RecursionError, MemoryError):
        findings = [_file_finding(UNREADABLE_FILE, source, "code is nested too deeply to be read", 1)]
    except Exception as error:
        findings = [_internal_finding(source, "torchlint", error)]
    return _finished(findings, source)


def _lint_valid(source: SourceFile, selection: Selection, pieces: Pieces | None) -> list[Finding]:
    """Lint what is valid Python: of a notebook with cells that are not the others."""
    try:
        return _lint_text(source, selection, pieces)
    except (SyntaxProblem, SourceError) as problem:
        broken = {cell: found for cell in source.cells if (found := _problem_of(cell))}
        if not broken or source.skipped:
            return [_problem_finding(source, problem)]
    findings = [_problem_finding(source, own, source.first_line(cell) - 1) for cell, own in broken.items()]
    rest = replace(source, skipped=frozenset(cell.number for cell in broken))
    try:
        return findings + _lint_text(rest, selection)
    except (SyntaxProblem, SourceError) as together:
        return [*findings, _problem_finding(source, together)]


def _problem_of(cell: Cell) -> SyntaxProblem | SourceError | None:
    try:
        parse(SourceFile("cell.py", cell.program.encode()))
    except (SyntaxProblem, SourceError) as problem:
        return problem
    return None


def _lint_text(source: SourceFile, selection: Selection, pieces: Pieces | None = None) -> list[Finding]:
    suppressions = Suppressions(source)
    crashes = _Crashes(source)
    active = [rule for rule in selection.rules if rule.may_fire(source.code)]
    found: list[Finding] = []
    if active:
        with collector_paused():
            found = with_deep_stack(
                lambda: _lint_parsed(parse(source, pieces), active, selection, suppressions, crashes)
            )
    if selection.checks & _SUPPRESSION_CHECKS:
        rules = [rule.meta() for rule in selection.rules]
        ran = {meta.name for meta in (*rules, *ENGINE_CHECKS)} - {rule.rule_name() for rule in crashes.failed}
        found += suppressions.findings(selection.checks, ran, [*metas(), *rules])
    return found + crashes.findings


def unreadable(path: str, reason: str) -> Finding:
    """The finding for a file that could not even be read."""
    source = SourceFile(path, b"")
    return _finished([_file_finding(UNREADABLE_FILE, source, reason, 1)], source)[0]


def _file_finding(meta: Meta, source: SourceFile, message: str, line: int) -> Finding:
    start = Position(line, 0)
    return Finding(source.path, meta.name, meta.code, message, Span(start, start), meta.category.severity)


def _lint_parsed(
    tree: Tree,
    active: Sequence[type[Rule]],
    selection: Selection,
    suppressions: Suppressions,
    crashes: _Crashes,
) -> list[Finding]:
    model = Model(tree)
    rules = [rule(model, selection.options.get(rule.rule_name())) for rule in active]
    _dispatch(tree, rules, crashes)
    reports = [(rule.meta(), report) for rule in rules for report in rule.reports]
    return _located(tree, reports, suppressions)


def _internal_finding(source: SourceFile, who: str, error: Exception) -> Finding:
    place = traceback.extract_tb(error.__traceback__)[-1]
    message = f"{who} crashed: {type(error).__name__}: {error} ({place.name}, line {place.lineno})"
    return _file_finding(INTERNAL_ERROR, source, message, 1)


def _problem_finding(source: SourceFile, problem: SyntaxProblem | SourceError, before: int = 0) -> Finding:
    """The finding for a problem in text that comes after so many lines of the file."""
    if isinstance(problem, SourceError):
        return _file_finding(UNREADABLE_FILE, source, problem.message, problem.line + before)
    start = Position(problem.position.line + before, problem.position.column)
    finding = _file_finding(SYNTAX_ERROR, source, problem.message, start.line)
    return replace(finding, span=Span(start, Position(start.line, start.column + 1)))


class _Crashes:
    """Contains what a rule raises: one finding a rule and file, and the rule is not called again."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.failed: set[Rule] = set()
        self.findings: list[Finding] = []

    def call(self, rule: Rule, handler: Handler, node: cst.CSTNode) -> None:
        if rule in self.failed:
            return
        try:
            handler(node)
        except Exception as error:
            self.failed.add(rule)
            self.findings.append(_internal_finding(self.source, f"rule {rule.rule_name()}", error))


def _dispatch(tree: Tree, rules: Sequence[Rule], crashes: _Crashes) -> None:
    """One walk over the tree that calls every rule's `visit_X` and `leave_X`."""
    visits = _handlers(rules, "visit")
    leaves = _handlers(rules, "leave")
    if leaves:
        _dispatch_nested(tree, visits, leaves, crashes)
        return
    if set(visits) == {"Module"}:
        nodes: Iterable[cst.CSTNode] = [tree.module]
    else:
        nodes = tree.nodes
    for node in nodes:
        for rule, handler in visits.get(type(node).__name__, ()):
            crashes.call(rule, handler, node)


def _dispatch_nested(
    tree: Tree,
    visits: dict[str, list[tuple[Rule, Handler]]],
    leaves: dict[str, list[tuple[Rule, Handler]]],
    crashes: _Crashes,
) -> None:
    open_nodes: list[cst.CSTNode] = []

    def close_until(parent: cst.CSTNode | None) -> None:
        while open_nodes and open_nodes[-1] is not parent:
            node = open_nodes.pop()
            for rule, handler in leaves.get(type(node).__name__, ()):
                crashes.call(rule, handler, node)

    for node in tree.nodes:
        close_until(tree.parent(node))
        for rule, handler in visits.get(type(node).__name__, ()):
            crashes.call(rule, handler, node)
        open_nodes.append(node)
    close_until(None)


def _handlers(rules: Sequence[Rule], verb: str) -> dict[str, list[tuple[Rule, Handler]]]:
    found: dict[str, list[tuple[Rule, Handler]]] = {}
    for rule in rules:
        for name in dir(type(rule)):
            if name.startswith(verb + "_"):
                found.setdefault(name[len(verb) + 1 :], []).append((rule, getattr(rule, name)))
    return found


def _located(tree: Tree, reports: Sequence[tuple[Meta, Report]], suppressions: Suppressions) -> list[Finding]:
    if not reports:
        return []
    wanted = {node for _, report in reports for node in (report.node, *(node for node, _ in report.related))}
    for _, report in reports:
        statement = tree.statement(report.node)
        wanted |= {statement, *_suite(statement)}
        if report.fix is not None:
            wanted.update(report.fix.surroundings(tree))
    spans = tree.spans(wanted)
    return [
        _finding(tree, meta, report, spans, suppressions)
        for meta, report in reports
        if not suppressions.covers(meta, _lines(tree, report.node, spans))
    ]


def _finding(
    tree: Tree, meta: Meta, report: Report, spans: Mapping[cst.CSTNode, Span], suppressions: Suppressions
) -> Finding:
    fix = report.fix.fix(tree, spans) if report.fix is not None else None
    if fix is not None and suppressions.speaks_of(meta, lines_of(fix)):
        fix = None
    return Finding(
        path=tree.source.path,
        name=meta.name,
        code=meta.code,
        message=report.message,
        span=_header(report.node, spans),
        severity=report.severity,
        confidence=report.confidence,
        related=tuple(Related(_header(node, spans), text) for node, text in report.related),
        help=report.help,
        fix=fix,
    )


def _header(node: cst.CSTNode, spans: Mapping[cst.CSTNode, Span]) -> Span:
    """The span of a node; of a compound statement the first line, since its body is not the point."""
    span = spans[node]
    if isinstance(node, cst.BaseCompoundStatement) and span.end.line > span.start.line:
        return Span(span.start, Position(span.start.line + 1, 0))
    return span


def _lines(tree: Tree, node: cst.CSTNode, spans: Mapping[cst.CSTNode, Span]) -> set[int]:
    """The lines on which a suppression of a finding on `node` may stand: its own, and its statement's.

    Of a compound statement only the header counts, or a comment somewhere in the body would excuse it.
    """
    statement = tree.statement(node)
    first, last = spans[statement].start.line, spans[statement].end.line
    if isinstance(statement, cst.BaseCompoundStatement):
        suites = [spans[suite].start.line - 1 for suite in _suite(statement)]
        last = max(first, *suites) if suites else first
    lines = set(range(first, last + 1))
    if node is not statement:
        lines.update(range(spans[node].start.line, spans[node].end.line + 1))
    return lines


def _suite(statement: cst.CSTNode) -> list[cst.CSTNode]:
    """The suite that follows the header of a compound statement."""
    body = getattr(statement, "body", None)
    return [body] if isinstance(body, cst.BaseSuite) else []


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

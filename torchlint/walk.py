"""One walk over a parsed file: rules visit its nodes and ask its model, and what they report becomes findings.

Most files that are worth a look have no finding. So rules look at a draft first, where all of them can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import libcst as cst

from torchlint.collector import collector_paused
from torchlint.depth import may_be_too_deep
from torchlint.draft import draft
from torchlint.finding import Finding, Meta, Position, Related, Span
from torchlint.model import Model
from torchlint.pieces import Pieces
from torchlint.problems import Crashes
from torchlint.rule import OptionValue, Report, Rule
from torchlint.source import SourceFile
from torchlint.suppress import Suppressions
from torchlint.syntax import Tree, parse, with_deep_stack

Handler = Callable[[cst.CSTNode], object]
Call = Callable[[Rule, Handler, cst.CSTNode], None]
"""Calls a handler of a rule for a node."""


def walk(
    source: SourceFile,
    active: Sequence[type[Rule]],
    options: Mapping[str, Mapping[str, OptionValue]],
    suppressions: Suppressions,
    crashes: Crashes,
    pieces: Pieces | None,
) -> list[Finding]:
    """What the rules find that no comment suppresses; raises `SyntaxProblem` and `SourceError`."""

    def work() -> list[Finding]:
        if pieces is None and all(map(_reads_drafts, active)) and _passes(source, active, options):
            return []
        tree = parse(source, pieces)
        reports = _reports(tree, active, options, crashes.call)
        return _located(tree, reports, suppressions)

    with collector_paused():
        return with_deep_stack(work)


def _reads_drafts(rule: type[Rule]) -> bool:
    """Whether a rule sees in a draft all that it looks at; one of a plugin may ask how a number is written."""
    return rule.__module__.startswith("torchlint.rules.")


def _passes(source: SourceFile, active: Sequence[type[Rule]], options: Mapping[str, Mapping[str, OptionValue]]) -> bool:
    """Whether a draft shows that a file has no findings; of whatever is odd about it the parsed file will tell."""
    if may_be_too_deep(source.code):
        return False
    try:
        return not _reports(Tree(draft(source.text), source), active, options, _call)
    except Exception:  # no draft of it can be made, a rule crashed, or wants to know the layout around a finding
        return False


def _call(rule: Rule, handler: Handler, node: cst.CSTNode) -> None:
    handler(node)


def _reports(
    tree: Tree, active: Sequence[type[Rule]], options: Mapping[str, Mapping[str, OptionValue]], call: Call
) -> list[tuple[Meta, Report]]:
    """What rules report of a tree."""
    model = Model(tree)
    rules = [rule(model, options.get(rule.rule_name())) for rule in active]
    _dispatch(tree, rules, call)
    return [(rule.meta(), report) for rule in rules for report in rule.reports]


def _dispatch(tree: Tree, rules: Sequence[Rule], call: Call) -> None:
    """One walk over the tree that calls every rule's `visit_X` and `leave_X`."""
    visits = _handlers(rules, "visit")
    leaves = _handlers(rules, "leave")
    if leaves:
        _dispatch_nested(tree, visits, leaves, call)
        return
    if set(visits) == {"Module"}:
        nodes: Iterable[cst.CSTNode] = [tree.module]
    else:
        nodes = tree.nodes
    for node in nodes:
        for rule, handler in visits.get(type(node).__name__, ()):
            call(rule, handler, node)


def _dispatch_nested(
    tree: Tree,
    visits: dict[str, list[tuple[Rule, Handler]]],
    leaves: dict[str, list[tuple[Rule, Handler]]],
    call: Call,
) -> None:
    open_nodes: list[cst.CSTNode] = []

    def close_until(parent: cst.CSTNode | None) -> None:
        while open_nodes and open_nodes[-1] is not parent:
            node = open_nodes.pop()
            for rule, handler in leaves.get(type(node).__name__, ()):
                call(rule, handler, node)

    for node in tree.nodes:
        close_until(tree.parent(node))
        for rule, handler in visits.get(type(node).__name__, ()):
            call(rule, handler, node)
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
    if fix is not None and suppressions.speaks_of(meta, fix.lines):
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

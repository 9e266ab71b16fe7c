"""Rules ask the model of a file, visit its nodes, and what they report becomes findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

from torchlint.engine.cases import Told, holding, key_of
from torchlint.engine.diagnostics import Crashes
from torchlint.engine.following import Reach
from torchlint.engine.gate import by_syntax, by_words
from torchlint.engine.owned import Owned, answer
from torchlint.engine.registry import Selection
from torchlint.engine.suppressions import Suppressions
from torchlint.files.first_party import beside
from torchlint.files.source import SourceError, SourceFile, SyntaxProblem
from torchlint.finding import HAPPENS_HERE, Elsewhere, Finding, Meta, Position, Related, Span
from torchlint.index import FileIndex
from torchlint.model import Model
from torchlint.model.cases import Case
from torchlint.model.imports import Bases, Imports
from torchlint.model.queries.options import Options
from torchlint.rule import Place, Report, Rule
from torchlint.syntax.deep_stack import with_deep_stack
from torchlint.syntax.gc_pause import collector_paused
from torchlint.syntax.python_ast import Site
from torchlint.syntax.reading import read
from torchlint.syntax.spare_trees import own_tree

if TYPE_CHECKING:  # LibCST takes longer to import than most files take
    import libcst as cst

    from torchlint.engine.document_cache import DocumentCache
    from torchlint.syntax.edits import Change
    from torchlint.syntax.matching import Nodes
    from torchlint.syntax.tree import Tree

Handler: TypeAlias = "Callable[[cst.CSTNode], object]"


def walk(
    source: SourceFile,
    active: Sequence[type[Rule]],
    selection: Selection,
    suppressions: Suppressions,
    crashes: Crashes,
    cached: DocumentCache | None,
    reach: Reach,
) -> list[Finding]:
    """Findings that no comment suppresses, of any confidence; raises `SyntaxProblem` and `SourceError`.

    If the cache is of this source, only the fixes of its findings are computed.
    """

    def work() -> list[Finding]:
        latest = cached.walk if cached is not None else None
        if latest is not None and latest.is_of(source, active):
            return latest.findings_with_fixes(selection, suppressions, crashes)
        walk = Walk(source, cached, crashes, reach)
        found = walk.findings(active, selection, suppressions)
        if cached is not None:
            cached.walk = walk
        else:
            walk.release()
        return found

    with collector_paused():
        return with_deep_stack(work)


class Walk:
    """One file, linted by all rules."""

    def __init__(self, source: SourceFile, cached: DocumentCache | None, crashes: Crashes, reach: Reach) -> None:
        self.source = source
        self.reach = reach
        self.search = reach.search
        self.cached = cached
        self.crashes = crashes
        self.python = own_tree(source) or read(source)
        self.active: Sequence[type[Rule]] = ()
        self.model: Model | None = None
        self.modules: Imports | None = None
        self.told: list[Told] = []
        self._models: list[Model] = []

    def is_of(self, source: SourceFile, active: Sequence[type[Rule]]) -> bool:
        """Whether this very source was linted, with these rules."""
        return self.source is source and self.active == active

    def findings(
        self,
        active: Sequence[type[Rule]],
        selection: Selection,
        suppressions: Suppressions,
    ) -> list[Finding]:
        self.active = active
        if not self.reach.follows:
            active = by_syntax(active, FileIndex.of(self.python))
            if not active:
                return []
        modules = Imports(self.search) if self.search is not None else None
        imports = modules if self.reach.follows else None
        calls = {name for rule in active for name in rule.calls}
        model = self._model(calls, modules, selection, follows=self.reach.follows, case=None)
        rules: list[Rule] = []
        asking = chain(active, self._called_for(active, selection, model, imports) if imports is not None else ())
        for rule in asking:
            with self.crashes.of(rule):
                self._ask(rule, model, selection, rules)
        visitors = [rule for rule in rules if _visits(type(rule))]
        if visitors:
            _dispatch(self.tree, visitors, self.crashes)
        owned = Owned(self.python, modules, selection)
        reports = [(type(rule), report) for rule in rules for report in rule.reports]
        told = [item for item in _told_once(reports) if not owned.by_other_file(*item)]
        if model.is_interpreted:
            again = partial(self._again, calls, selection, follows=self.reach.follows)
            told = holding(told, Options(model.program), again)
            told = told if self.reach.follows else self._confirmed(told, calls, selection)
        if told:  # else nobody asks the model for fixes
            self.model, self.modules, self.told = model, modules, told
        found = self._located(told, suppressions)
        if modules is not None:
            modules.close()
        return found

    def release(self) -> None:
        """Free the trees that only this walk used."""
        for model in self._models:
            model.release()
        self.python.release()
        if self.search is not None:
            Imports(self.search).parsed.release()

    def findings_with_fixes(self, selection: Selection, suppressions: Suppressions, crashes: Crashes) -> list[Finding]:
        """The same findings with fixes: their rules ask the same model again, and this time get nodes."""
        self.crashes = crashes
        for module in self.modules.followed() if self.modules is not None else ():
            module.follow(self.modules)
        fixes: dict[object, Change | None] = {}
        for rule in dict.fromkeys(rule for rule, _ in self.told):
            asked: list[Rule] = []
            with crashes.of(rule):
                assert self.model is not None, "a model made these findings"
                self._ask(rule, self.model, selection, asked)
            fixes |= {key_of(rule, report): report.fix for made in asked for report in made.reports}
        told = [
            (rule, replace(report, fix=report.fix or fixes.get(key_of(rule, report)))) for rule, report in self.told
        ]
        found = self._located(told, suppressions)
        if self.modules is not None:
            self.modules.close()
        return found

    def _model(
        self, calls: Collection[str], modules: Imports | None, selection: Selection, *, follows: bool, case: Case | None
    ) -> Model:
        imports, bases = (modules, None) if modules is None or follows else (None, Bases(modules))
        model = Model(self.python, calls, imports, selection.torch, self._imported_texts, bases, case)
        self._models.append(model)
        return model

    def _confirmed(self, told: list[Told], calls: Collection[str], selection: Selection) -> list[Told]:
        """The reports that are made as well where what the file imports is followed, if it was not.

        An evaluation follows nothing, until something is said of it: what it imports may freeze the model.
        """
        if not told or self.search is None or not self.search.imported(self.source.code):
            return told
        again = self._again(calls, selection, None, {rule for rule, _ in told}, follows=True)
        found = {key_of(*item) for item in again}
        return [item for item in told if key_of(*item) in found]

    def _ask(self, rule: type[Rule], model: Model, selection: Selection, asked: list[Rule]) -> None:
        """Add a rule that has reported to those that were asked; if it raises, with what it reported before.

        One whose fixes are not made gets no nodes, so that LibCST need not parse the file, unless it fails for that.
        """
        options = selection.options.get(rule.rule_name())
        if rule.rule_name() in selection.unfixable and not _visits(rule):
            with suppress(Exception):
                without_nodes = rule(model, lambda: None, options)
                answer(without_nodes)
                asked.append(without_nodes)
                return
        asked.append(rule(model, lambda: self.nodes, options))
        answer(asked[-1])

    def _again(
        self,
        calls: Collection[str],
        selection: Selection,
        case: Case | None,
        rules: Collection[type[Rule]],
        *,
        follows: bool,
    ) -> Iterator[Told]:
        """The reports of rules in a second interpretation: with imports, or with a fixed value of an option."""
        modules = Imports(self.search) if self.search is not None else None
        model = self._model(calls, modules, selection, follows=follows, case=case)
        for rule in rules:
            asked: list[Rule] = []
            with self.crashes.of(rule):
                self._ask(rule, model, selection, asked)
                yield from ((rule, report) for made in asked for report in made.reports)
        if modules is not None:
            modules.close()

    def _called_for(
        self, active: Sequence[type[Rule]], selection: Selection, model: Model, imports: Imports
    ) -> Iterator[type[Rule]]:
        """Rules for which only what was followed gives a reason: known once the program was interpreted.

        `main.py` calls a trainer, which has its loss from elsewhere.
        """
        if self.reach.may_wake:
            model.program  # noqa: B018 - it may be that none of those that are selected asks for it
        followed = [module.tree.source.code for module in imports.followed()]
        asked = {rule.rule_name() for rule in active}
        others = [rule for rule in selection.rules if rule.rule_name() not in asked]
        yield from by_words(others, self.source.code, followed) if followed else ()

    def _imported_texts(self) -> Iterator[bytes]:
        yield from self.search.imported(self.source.code).values() if self.search is not None else ()

    @cached_property
    def tree(self) -> Tree:
        """The file as it is written."""
        from torchlint.syntax.tree import parse

        return parse(self.source, self.cached.pieces if self.cached is not None else None)

    @cached_property
    def nodes(self) -> Nodes | None:
        from torchlint.syntax.matching import Nodes

        try:
            return Nodes(self.python, self.tree)
        except (SyntaxProblem, SourceError):
            return None

    def _located(self, reports: Sequence[Told], suppressions: Suppressions) -> list[Finding]:
        wanted: set[cst.CSTNode] = set()
        for rule, report in reports:
            with self.crashes.of(rule):
                wanted.update(self._wanted(report))
        spans = self.tree.spans(wanted) if wanted else {}
        found: list[Finding] = []
        for rule, report in reports:
            with self.crashes.of(rule):
                if not self._is_suppressed(rule.meta(), report.place, spans, suppressions):
                    found.append(self._finding(rule.meta(), report, spans, suppressions))
        return found

    def _is_suppressed(
        self, meta: Meta, place: Place, spans: Mapping[cst.CSTNode, Span], suppressions: Suppressions
    ) -> bool:
        """Whether a comment suppresses a report: beside the call in this file, or where it happens in another one."""
        if suppressions.covers(meta, self.python.lines_around(self._span(place, spans))):
            return True
        inner = place.inner if isinstance(place, Site) else None
        if inner is None:
            return False
        lines = inner.tree.lines_around(inner.tree.span(inner.site))
        return suppressions.of(inner.tree.source).covers(meta, lines)

    def _span(self, place: Place, spans: Mapping[cst.CSTNode, Span]) -> Span:
        return self.python.span(place) if isinstance(place, Site) else _header(place, spans)

    def _wanted(self, report: Report) -> Iterator[cst.CSTNode]:
        """The nodes whose places a report needs; raises `LookupError` where one is not of this file."""
        for place in (report.place, *(other for other, _ in report.related)):
            if not isinstance(place, Site):
                if not self.tree.holds(place):
                    raise LookupError(f"a finding is at a node of this file's tree, or at a site, not at {place!r:.80}")
                yield place
        if report.fix is not None:
            yield from report.fix.surroundings(self.tree)

    def _finding(
        self,
        meta: Meta,
        report: Report,
        spans: Mapping[cst.CSTNode, Span],
        suppressions: Suppressions,
    ) -> Finding:
        fix = report.fix.fix(self.tree, spans) if report.fix is not None else None
        if fix is not None and suppressions.speaks_of(meta, fix.lines):
            fix = None
        return Finding(
            path=self.source.path,
            name=meta.name,
            code=meta.code,
            message=self._message(report),
            span=self._span(report.place, spans),
            severity=report.severity,
            confidence=report.confidence,
            related=tuple(Related(self._span(place, spans), text) for place, text in report.related if _is_here(place)),
            elsewhere=tuple(self._elsewhere(report)),
            help=report.help,
            fix=fix,
        )

    def _message(self, report: Report) -> str:
        """The message, whose names are those of the file that it is about: where that is another one, it says which."""
        inner = report.place.inner if isinstance(report.place, Site) else None
        if inner is None or self.search is None:
            return report.message
        path = PurePath(self.search.way_to(inner.tree.source.path)).as_posix()
        return f"in `{path}`, {report.message}"

    def _elsewhere(self, report: Report) -> Iterator[Elsewhere]:
        """The places of a report that are in other files."""
        for place, text in ((report.place, HAPPENS_HERE), *report.related):
            if isinstance(place, Site) and place.inner is not None and self.search is not None:
                tree, site = place.inner
                path = beside(self.source.path, self.search.way_to(tree.source.path))
                span = tree.span(site)
                yield Elsewhere(path, span, tree.source.utf16_span(span), text)


def _told_once(reports: Iterable[Told]) -> list[Told]:
    """Reports without those of what happens at one place of another file, at a second call that leads there."""
    found: dict[object, Told] = {}
    for number, (rule, report) in enumerate(reports):
        inner = report.place.inner if isinstance(report.place, Site) else None
        key = (rule, inner.tree.source.path, inner.site, report.message) if inner is not None else number
        found.setdefault(key, (rule, report))
    return list(found.values())


def _is_here(place: Place) -> bool:
    return not isinstance(place, Site) or place.inner is None


def _dispatch(tree: Tree, rules: Sequence[Rule], crashes: Crashes) -> None:
    """One walk over the tree that calls every rule's `visit_X` and `leave_X`."""
    visits = _handlers(rules, "visit")
    leaves = _handlers(rules, "leave")
    if leaves:
        _dispatch_nested(tree, visits, leaves, crashes)
        return
    for node in tree.nodes:
        for rule, handler in visits.get(type(node).__name__, ()):
            crashes.call(type(rule), handler, node)


def _dispatch_nested(
    tree: Tree,
    visits: dict[str, list[tuple[Rule, Handler]]],
    leaves: dict[str, list[tuple[Rule, Handler]]],
    crashes: Crashes,
) -> None:
    open_nodes: list[cst.CSTNode] = []

    def close_until(parent: cst.CSTNode | None) -> None:
        while open_nodes and open_nodes[-1] is not parent:
            node = open_nodes.pop()
            for rule, handler in leaves.get(type(node).__name__, ()):
                crashes.call(type(rule), handler, node)

    for node in tree.nodes:
        close_until(tree.parent(node))
        for rule, handler in visits.get(type(node).__name__, ()):
            crashes.call(type(rule), handler, node)
        open_nodes.append(node)
    close_until(None)


_VISITS: WeakKeyDictionary[type[Rule], bool] = WeakKeyDictionary()


def _visits(rule: type[Rule]) -> bool:
    """Whether a rule is about how code is written, so that it needs the nodes for more than its fixes."""
    known = _VISITS.get(rule)
    if known is None:
        names = (name for kind in rule.__mro__ for name in vars(kind))
        known = _VISITS[rule] = any(name.startswith(("visit_", "leave_")) for name in names)
    return known


def _handlers(rules: Sequence[Rule], verb: str) -> dict[str, list[tuple[Rule, Handler]]]:
    found: dict[str, list[tuple[Rule, Handler]]] = {}
    for rule in rules:
        for name in dir(type(rule)):
            if name.startswith(f"{verb}_"):
                found.setdefault(name[len(verb) + 1 :], []).append((rule, getattr(rule, name)))
    return found


def _header(node: cst.CSTNode, spans: Mapping[cst.CSTNode, Span]) -> Span:
    """The span of a node; of a compound statement the first line, since its body is not the point."""
    import libcst as cst

    span = spans[node]
    if isinstance(node, cst.BaseCompoundStatement) and span.end.line > span.start.line:
        return Span(span.start, Position(span.start.line + 1, 0))
    return span

"""Reports that belong to another file: each appears once, where it happens or where it can be repaired."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from torchlint.engine.following import imported_training
from torchlint.engine.gate import by_words
from torchlint.engine.registry import Selection
from torchlint.files.first_party import MAX_ON_THE_WAY, Search
from torchlint.files.source import SourceFile
from torchlint.finding import Confidence
from torchlint.index import FileIndex
from torchlint.model import Model
from torchlint.model.imports import Imports
from torchlint.rule import Place, Report, Rule
from torchlint.syntax.python_ast import Site, called_name
from torchlint.syntax.python_tree import PythonTree
from torchlint.syntax.reading import read

_MAX_CALLERS = 20
"""The number of earlier files, by path, to check for the same report."""


def answer(rule: Rule) -> None:
    """Have a rule report what the model answers."""
    for found in rule.ask():
        getattr(rule, f"report_{type(found).__name__}")(found)


class Owned:
    """The reports that other files get when they are linted themselves."""

    def __init__(self, tree: PythonTree, modules: Imports | None, selection: Selection) -> None:
        self._tree = tree
        self._modules = modules
        self._selection = selection
        self._reports: dict[tuple[str, type[Rule]], list[Report]] = {}

    def by_other_file(self, rule: type[Rule], report: Report) -> bool:
        """Whether another file gets the report: the file where it happens, the file of the base class, a file on
        the way, or an earlier one of several similar callers.

        A loop here that repeats the event there is a related place of the finding.
        """
        if self._modules is None:
            return False
        inner = [place.inner for place in (report.subject, *_sites(report)) if isinstance(place, Site) and place.inner]
        is_there = any(self._is_told_there(rule, report, *place) for place in inner)
        return is_there or self._is_told_before(rule, report)

    def _is_told_there(self, rule: type[Rule], report: Report, tree: PythonTree, site: Site) -> bool:
        told = (self._told_in(source, rule, report) for source in self._on_the_way(tree.source))
        return any((tree.source.path, site) in places for places in told)

    def _is_told_before(self, rule: type[Rule], report: Report) -> bool:
        """Whether an earlier file, by path, gets the same report about other files."""
        if self._modules is None or not isinstance(report.place, Site) or report.place.inner is None:
            return False
        search, happens = self._modules.search, report.place.inner.tree.source
        callers = search.of(happens.path).users(self._name_at(report.place))
        before = sorted((path, code) for path, code in callers if path < search.path and search.holds(path))
        return any(
            _is_the_same(other, report) and _is_as_sure(other, report)
            for path, code in before[:_MAX_CALLERS]
            if search.path not in search.of(path).reachable(code, MAX_ON_THE_WAY)  # else this file is told for that
            for other in self._reports_of(SourceFile(path, code), rule)
        )

    def _name_at(self, place: Site) -> bytes:
        """The name of what is called at a place of the file; of all files some import something."""
        node = self._tree.own_node(place.here)
        return called_name(node).encode() if isinstance(node, ast.Call) and called_name(node) else b"import"

    def _on_the_way(self, source: SourceFile) -> Iterator[SourceFile]:
        """A file, and those that were followed and import it, unless they import the linted one as well."""
        yield source
        if self._modules is None:
            return
        search = self._modules.search
        for other in [module.tree.source for module in self._modules.followed()]:
            imported = search.of(other.path).direct(other.code)
            if source.path in imported and search.path not in imported:
                yield other

    def _told_in(self, source: SourceFile, rule: type[Rule], report: Report) -> set[tuple[str, Site]]:
        """The places that the reports of a file name, each with its path. Only reports as sure as this one count."""
        same = (other for other in self._reports_of(source, rule) if _is_as_sure(other, report))
        told = (place for other in same for place in (other.place, other.subject))
        places = [place for place in told if isinstance(place, Site) and place.kind != "ClassDef"]
        inner = {(place.inner.tree.source.path, place.inner.site) for place in places if place.inner is not None}
        return inner | {(source.path, place) for place in places if place.inner is None}

    def _reports_of(self, source: SourceFile, rule: type[Rule]) -> list[Report]:
        """The reports of a rule in another file, computed once."""
        key = source.path, rule
        if key not in self._reports:
            assert self._modules is not None
            self._reports[key] = list(self._reported(source, rule, self._modules.search.of(source.path)))
        return self._reports[key]

    def _reported(self, source: SourceFile, rule: type[Rule], search: Search) -> Iterator[Report]:
        follows = imported_training(source.code, search) is not None
        if not follows and not by_words((rule,), source.code):
            return
        imports = Imports(search)
        with suppress(Exception):  # that is said when the file itself is linted
            tree = read(replace(source, path=search.inside_top))  # which may lie in a folder that is called `tests`
            if not follows and not rule.concerns(FileIndex.of(tree)):
                return
            model = Model(tree, rule.calls, imports, self._selection.torch)
            found = rule(model, lambda: None, self._selection.options.get(rule.rule_name()))
            answer(found)
            yield from found.reports
        imports.close()


def _sites(report: Report) -> Iterator[Site]:
    """The place of a report, and those beside it."""
    places = (report.place, *(place for place, _ in report.related))
    return (place for place in places if isinstance(place, Site))


def _is_as_sure(other: Report, report: Report) -> bool:
    """Whether users who see one report see the other, too: one of them may be a preview."""
    return other.confidence is Confidence.HIGH or report.confidence is Confidence.LOW


def _is_the_same(one: Report, other: Report) -> bool:
    """Whether two files get the same reports about other files."""
    subject = _elsewhere(one.subject) if one.about is not None else None
    if subject is not None:
        return subject == _elsewhere(other.subject)
    return _places_elsewhere(one) == _places_elsewhere(other)


def _places_elsewhere(report: Report) -> set[tuple[str, Site]]:
    """The places of a report that are in other files, each with the path of that."""
    return {found for site in _sites(report) if (found := _elsewhere(site)) is not None}


def _elsewhere(place: Place) -> tuple[str, Site] | None:
    """A place in another file, with the path of that."""
    inner = place.inner if isinstance(place, Site) else None
    return (inner.tree.source.path, inner.site) if inner is not None else None

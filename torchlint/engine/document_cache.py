"""Data that is kept between two lints of a document."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchlint.engine.following import Following
from torchlint.engine.registry import INTERNAL_ERROR, Selection
from torchlint.files.source import SourceFile
from torchlint.files.sources import Module
from torchlint.finding import Finding
from torchlint.syntax.incremental import Pieces

if TYPE_CHECKING:
    from torchlint.engine.examination import Examination
    from torchlint.engine.run_rules import Walk

MAX_FORMS = 4
"""Forms of a document whose findings are kept: those before the latest come back when an edit is undone."""


@dataclass(frozen=True)
class Form:
    """One form of a document, what was found in it, and what that depends on."""

    source: SourceFile
    findings: tuple[Finding, ...]
    """With the notices, in the order of their places."""
    asked: frozenset[str]
    """The modules that were looked for: their paths without a suffix."""
    _selection: Selection
    _path: tuple[object, ...]
    _modules: tuple[Module, ...]

    @classmethod
    def of(cls, source: SourceFile, selection: Selection, found: Examination) -> Form:
        """The result of examining one form of a document."""
        findings = sorted([*found.findings, *found.notices], key=lambda finding: finding.sort_key)
        asked = found.search.asked if found.search is not None else frozenset()
        modules = found.search.modules() if found.search is not None else ()
        own, path = replace(selection, following=None), _search_path(selection.following)
        return cls(source, tuple(findings), asked, own, path, modules)

    def is_of(self, source: SourceFile, selection: Selection) -> bool:
        """Whether linting a source now would find the same: text, settings and imported modules are what they were."""
        if source.path != self.source.path or source.code != self.source.code:
            return False
        following = selection.following
        if _search_path(following) != self._path or replace(selection, following=None) != self._selection:
            return False
        return following is None or all(map(following.sources.is_unchanged, self._modules))


class DocumentCache:
    """The statements of earlier forms, as LibCST parsed them, and what the rules reported of the latest forms."""

    def __init__(self) -> None:
        self.pieces = Pieces()
        self.walk: Walk | None = None
        """It holds the model of the latest form, so that its fixes need no second interpretation."""
        self._forms: OrderedDict[bytes, Form] = OrderedDict()

    def form(self, source: SourceFile, selection: Selection) -> Form | None:
        """The form that is this source, if nothing has changed since that decides what is found in it."""
        known = self._forms.get(source.code)
        return known if known is not None and known.is_of(source, selection) else None

    def keep(self, form: Form) -> None:
        """Keep a form, unless a rule has failed: it may not fail again."""
        if not _has_failed(form.findings):
            self._forms[form.source.code] = form
            self._forms.move_to_end(form.source.code)
            while len(self._forms) > MAX_FORMS:
                self._forms.popitem(last=False)


def _has_failed(findings: Iterable[Finding]) -> bool:
    return any(finding.name == INTERNAL_ERROR.name for finding in findings)


def _search_path(following: Following | None) -> tuple[object, ...]:
    """How imports are looked for, whatever there is to find now."""
    return (following.folders, following.here, following.top) if following is not None else ()

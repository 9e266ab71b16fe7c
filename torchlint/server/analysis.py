"""The findings of one form of a document, at the places where the editor shows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from cattrs import Converter
from lsprotocol import types
from lsprotocol.converters import get_converter

from torchlint.engine.document_cache import DocumentCache, Form
from torchlint.engine.examination import examine, without_fixes
from torchlint.engine.registry import INTERNAL_ERROR, Selection
from torchlint.files.lines import Text
from torchlint.files.source import SourceFile
from torchlint.finding import Finding, Fix, Position, Span
from torchlint.outputs.escaping import printable
from torchlint.outputs.json import Location, diagnostic
from torchlint.server.documents import Buffer, Document
from torchlint.server.positions import Columns


@dataclass(frozen=True)
class Shown:
    """A finding as an editor shows it: in which buffer, and how."""

    finding: Finding
    uri: str
    diagnostic: types.Diagnostic


@dataclass(frozen=True)
class Analysis:
    """One form of a document, and what was found in it. Its fixes are computed when they are asked for."""

    document: Document
    source: SourceFile
    selection: Selection
    columns: Columns
    findings: tuple[Finding, ...]
    """With the notices, which are hints and information; without fixes."""
    imports: frozenset[str] = frozenset()
    """The modules that were looked for: their paths without a suffix."""
    cached: DocumentCache | None = None
    failures: list[str] = field(default_factory=list)
    """Errors that rules raised while computing fixes, until they are logged."""

    @classmethod
    def of(
        cls, document: Document, name: str, selection: Selection, columns: Columns, cached: DocumentCache
    ) -> Analysis:
        """Lint a document; what is kept of its earlier forms makes that quick."""
        source = document.source(name)
        form = Form.of(
            source, selection, examine(source, without_fixes(selection), cached, always_parse=True, checked=False)
        )
        cached.keep(form)
        return cls(document, source, selection, columns, form.findings, form.asked, cached)

    @classmethod
    def known(
        cls, document: Document, name: str, selection: Selection, columns: Columns, cached: DocumentCache
    ) -> Analysis | None:
        """The analysis of a form that was linted before: the document was saved, or an edit undone."""
        form = cached.form(document.source(name), selection)
        if form is None:
            return None
        return cls(document, form.source, selection, columns, form.findings, form.asked, cached)

    @cached_property
    def fixes(self) -> dict[Finding, Fix]:
        """The valid fixes of the findings. It takes linting, and so belongs to the thread for that."""
        if not self.findings:
            return {}
        found = examine(self.source, self.selection, self.cached, always_parse=True).findings
        if self.cached is not None:
            self.cached.walk = None  # the model takes memory, and nothing more is asked of it
        new = (item for item in found if item.name == INTERNAL_ERROR.name and item not in self.findings)
        self.failures.extend(item.message for item in new)
        return {replace(item, fix=None): item.fix for item in found if item.fix is not None}

    @cached_property
    def shown(self) -> tuple[Shown, ...]:
        """The findings in the order of their places."""
        return tuple(self._shown())

    def _shown(self) -> Iterator[Shown]:
        for finding in self.findings:
            raw = diagnostic(finding, self._location)
            raw["message"] = _with_help(raw["message"], finding.help)
            yield Shown(finding, self.place(finding.span).uri, _converter().structure(raw, types.Diagnostic))

    def at(self, uri: str, asked: types.Range) -> list[Shown]:
        """The findings whose places in a buffer touch a range."""
        return [item for item in self.shown if item.uri == uri and _touch(item.diagnostic.range, asked)]

    def place(self, span: Span) -> types.Location:
        """Where the client finds a span of the program."""
        buffer, inside = self._located(span)
        return types.Location(buffer.uri, self.range(buffer, inside))

    def text(self, buffer: Buffer) -> Text:
        """The lines of a buffer."""
        if buffer.uri not in self._texts:
            self._texts[buffer.uri] = Text(buffer.text)
        return self._texts[buffer.uri]

    @cached_property
    def _texts(self) -> dict[str, Text]:
        return {}

    def range(self, buffer: Buffer, span: Span) -> types.Range:
        """A span of a buffer, as the client counts."""
        return types.Range(self._sent(buffer, span.start), self._sent(buffer, span.end))

    def _sent(self, buffer: Buffer, position: Position) -> types.Position:
        return self.columns.sent(self.text(buffer).line(position.line), position)

    def _located(self, span: Span) -> tuple[Buffer, Span]:
        """The buffer in which a span of the program starts, and the span in it; it ends with the buffer."""
        buffer, start = self.document.place(self.source, span.start)
        other, end = self.document.place(self.source, span.end)
        if other is not buffer:
            end = self.text(buffer).position(len(buffer.text))
        return buffer, Span(start, end)

    def _location(self, span: Span) -> Location:
        place = self.place(span)
        return {"uri": place.uri, "range": {"start": _as_dict(place.range.start), "end": _as_dict(place.range.end)}}


def _with_help(message: str, help: str) -> str:
    """A message as editors show it: VS Code in its hover and its list of problems, Neovim in its float."""
    return f"{message}\nhelp: {printable(help)}" if help else message


def _as_dict(position: types.Position) -> dict[str, int]:
    return {"line": position.line, "character": position.character}


def _touch(one: types.Range, two: types.Range) -> bool:
    return one.start <= two.end and two.start <= one.end


@cache
def _converter() -> Converter:
    converter: Any = get_converter()
    assert isinstance(converter, Converter)
    return converter

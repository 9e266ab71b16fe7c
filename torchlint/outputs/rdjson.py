"""Reviewdog's diagnostic format, for comments on pull requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchlint import addresses
from torchlint.engine import registry
from torchlint.files.source import SourceError, SourceFile
from torchlint.finding import Finding, Position, Severity, Span
from torchlint.outputs import Style
from torchlint.outputs.escaping import json_text, printable
from torchlint.outputs.places import placed, repository_path
from torchlint.results import Outcome

_SEVERITIES = {
    Severity.ERROR: "ERROR",
    Severity.WARNING: "WARNING",
    Severity.INFORMATION: "INFO",
    Severity.HINT: "INFO",
}


def render(outcome: Outcome, style: Style) -> str:
    """Indented JSON in ASCII: one object. Columns count bytes of UTF-8, as the format wants it."""
    found = [_diagnostic(file.source, finding) for file in outcome.files for finding in file.findings]
    return json_text({"source": {"name": "torchlint", "url": addresses.SITE}, "diagnostics": found})


def _diagnostic(source: SourceFile, finding: Finding) -> dict[str, Any]:
    code = {"value": finding.code}
    if href := registry.address(finding.name):
        code["url"] = href
    message = f"{finding.name}: {placed(finding.message, source, finding.span.start)}"
    found: dict[str, Any] = {
        "message": printable(f"{message} ({finding.help})" if finding.help else message),
        "location": _location(source, finding.span),
        "severity": _SEVERITIES[finding.severity],
        "code": code,
    }
    if related := list(_related(source, finding)):
        found["related_locations"] = related
    if finding.fix is not None and not source.is_notebook:  # whose text is not that of the file
        found["suggestions"] = [
            {"range": _range(source, edit.span), "text": edit.content} for edit in finding.fix.edits
        ]
    return found


def _related(source: SourceFile, finding: Finding) -> Iterator[dict[str, Any]]:
    for item in finding.related:
        yield {"message": printable(item.message), "location": _location(source, item.span)}
    for place in finding.elsewhere:
        where = {"path": _path(place.path), "range": {"start": {"line": place.span.start.line}}}
        yield {"message": printable(place.message), "location": where}


def _location(source: SourceFile, span: Span) -> dict[str, Any]:
    return {"path": _path(source.path), "range": _range(source, span)}


def _path(path: str) -> str:
    return repository_path(path).encode("utf-8", "replace").decode()


def _range(source: SourceFile, span: Span) -> dict[str, Any]:
    if source.is_notebook:
        return {"start": {"line": source.file_line(span.start.line)}}
    return {"start": _position(source, span.start), "end": _position(source, span.end)}


def _position(source: SourceFile, position: Position) -> dict[str, int]:
    try:
        before = source.line(position.line)[: position.column]
    except SourceError:
        before = ""
    return {"line": position.line, "column": len(before.encode("utf-8", "surrogatepass")) + 1}

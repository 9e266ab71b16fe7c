"""The Language Server Protocol's form: an array of `PublishDiagnosticsParams`, one a file or cell with findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torchlint.engine import registry
from torchlint.files.source import SourceFile
from torchlint.finding import Elsewhere, Finding, Fix, Severity, Span
from torchlint.outputs import Style
from torchlint.outputs.escaping import json_text, printable
from torchlint.outputs.places import absolute, range_elsewhere, utf16_range
from torchlint.results import LintedFile, Outcome

Location = dict[str, Any]
"""The protocol's `Location`: the URI of a document, and a range in it."""

_SEVERITIES = {Severity.ERROR: 1, Severity.WARNING: 2, Severity.INFORMATION: 3, Severity.HINT: 4}


def render(outcome: Outcome, style: Style) -> str:
    """Indented JSON in ASCII."""
    return json_text([published for file in outcome.files for published in _published(file)])


def diagnostic(finding: Finding, locate: Callable[[Span], Location]) -> dict[str, Any]:
    """The protocol's `Diagnostic` for a finding, in the document in which `locate` finds its span."""
    found: dict[str, Any] = {
        "range": locate(finding.span)["range"],
        "severity": _SEVERITIES[finding.severity],
        "code": finding.code,
        "source": "torchlint",
        "message": printable(finding.message),
        "relatedInformation": [
            *({"location": locate(item.span), "message": printable(item.message)} for item in finding.related),
            *({"location": _elsewhere(item), "message": printable(item.message)} for item in finding.elsewhere),
        ],
        "data": {
            "name": finding.name,
            "confidence": finding.confidence.value,
            "fingerprint": finding.fingerprint,
            "help": finding.help,
        },
    }
    if finding.fix is not None:
        found["data"]["fix"] = _fix(finding.fix, locate)
    if href := registry.address(finding.name):
        found["codeDescription"] = {"href": href}
    return found


def _fix(fix: Fix, locate: Callable[[Span], Location]) -> dict[str, Any]:
    """A fix, with its edits as the protocol's `WorkspaceEdit`."""
    changes: dict[str, list[dict[str, Any]]] = {}
    for edit in fix.edits:
        place = locate(edit.span)
        changes.setdefault(place["uri"], []).append({"range": place["range"], "newText": edit.content})
    return {"title": fix.message, "safety": fix.safety.value, "edit": {"changes": changes}}


def _published(file: LintedFile) -> Iterator[dict[str, Any]]:
    """One for the file; of a notebook one for each cell with findings, `#cell3` at the end of its URI."""
    locate = partial(_location, file.source)
    by_uri: dict[str, list[dict[str, Any]]] = {}
    for finding in file.findings:
        by_uri.setdefault(locate(finding.span)["uri"], []).append(diagnostic(finding, locate))
    for uri, diagnostics in by_uri.items():
        yield {"uri": uri, "diagnostics": diagnostics}


def _location(source: SourceFile, span: Span) -> Location:
    cell = source.place(span.start).cell
    uri = absolute(source.path).as_uri() + ("" if cell is None else f"#cell{cell}")
    return _ranged(uri, *utf16_range(source, span))


def _elsewhere(place: Elsewhere) -> Location:
    return _ranged(absolute(place.path).as_uri(), *range_elsewhere(place))


def _ranged(uri: str, start: tuple[int, int], end: tuple[int, int]) -> Location:
    return {
        "uri": uri,
        "range": {
            "start": {"line": start[0], "character": start[1]},
            "end": {"line": end[0], "character": end[1]},
        },
    }

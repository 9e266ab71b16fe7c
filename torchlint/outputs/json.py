"""The Language Server Protocol's form: an array of `PublishDiagnosticsParams`, one a file with findings."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torchlint.docs import address
from torchlint.finding import Finding, Severity, Span
from torchlint.outputs import LintedFile, Outcome, Style, utf16_range
from torchlint.source import SourceFile

Location = dict[str, Any]
"""The protocol's `Location`: the URI of a document, and a range in it."""

_SEVERITIES = {Severity.ERROR: 1, Severity.WARNING: 2, Severity.INFORMATION: 3, Severity.HINT: 4}


def render(outcome: Outcome, style: Style) -> str:
    """Indented JSON in ASCII, so that it survives any pipe."""
    return json.dumps([_published(file) for file in outcome.files], indent=2) + "\n"


def diagnostic(finding: Finding, locate: Callable[[Span], Location]) -> dict[str, Any]:
    """The protocol's `Diagnostic` for a finding, in the document in which `locate` finds its span."""
    found = {
        "range": locate(finding.span)["range"],
        "severity": _SEVERITIES[finding.severity],
        "code": finding.code,
        "source": "torchlint",
        "message": finding.message,
        "relatedInformation": [
            {"location": locate(related.span), "message": related.message} for related in finding.related
        ],
        "data": {
            "name": finding.name,
            "confidence": finding.confidence.value,
            "fingerprint": finding.fingerprint,
            "help": finding.help,
        },
    }
    if href := address(finding.name, finding.code):
        found["codeDescription"] = {"href": href}
    return found


def _published(file: LintedFile) -> dict[str, Any]:
    uri = Path(file.source.path).absolute().as_uri()
    locate = partial(_location, uri, file.source)
    return {"uri": uri, "diagnostics": [diagnostic(finding, locate) for finding in file.findings]}


def _location(uri: str, source: SourceFile, span: Span) -> Location:
    start, end = utf16_range(source, span)
    return {
        "uri": uri,
        "range": {
            "start": {"line": start[0], "character": start[1]},
            "end": {"line": end[0], "character": end[1]},
        },
    }

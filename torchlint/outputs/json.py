"""The Language Server Protocol's form: an array of `PublishDiagnosticsParams`, one a file with findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torchlint.docs import address
from torchlint.finding import Finding, Severity, Span
from torchlint.outputs import LintedFile, Outcome, Style, utf16_range
from torchlint.source import SourceFile

_SEVERITIES = {Severity.ERROR: 1, Severity.WARNING: 2, Severity.INFORMATION: 3, Severity.HINT: 4}


def render(outcome: Outcome, style: Style) -> str:
    """Indented JSON in ASCII, so that it survives any pipe."""
    return json.dumps([_published(file) for file in outcome.files], indent=2) + "\n"


def _published(file: LintedFile) -> dict[str, Any]:
    diagnostics = [_diagnostic(file.source, finding) for finding in file.findings]
    return {"uri": _uri(file.source), "diagnostics": diagnostics}


def _uri(source: SourceFile) -> str:
    return Path(source.path).absolute().as_uri()


def _range(source: SourceFile, span: Span) -> dict[str, dict[str, int]]:
    start, end = utf16_range(source, span)
    return {
        "start": {"line": start[0], "character": start[1]},
        "end": {"line": end[0], "character": end[1]},
    }


def _diagnostic(source: SourceFile, finding: Finding) -> dict[str, Any]:
    diagnostic = {
        "range": _range(source, finding.span),
        "severity": _SEVERITIES[finding.severity],
        "code": finding.code,
        "source": "torchlint",
        "message": finding.message,
        "relatedInformation": [
            {
                "location": {"uri": _uri(source), "range": _range(source, related.span)},
                "message": related.message,
            }
            for related in finding.related
        ],
        "data": {
            "name": finding.name,
            "confidence": finding.confidence.value,
            "fingerprint": finding.fingerprint,
            "help": finding.help,
        },
    }
    if href := address(finding.name, finding.code):
        diagnostic["codeDescription"] = {"href": href}
    return diagnostic

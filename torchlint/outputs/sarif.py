"""SARIF 2.1.0, the form of code scanning services."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

from torchlint import addresses
from torchlint.engine import registry
from torchlint.engine.documentation import markdown
from torchlint.files.source import SourceFile
from torchlint.finding import Category, Confidence, Finding, Fix, Meta, Safety, Severity, Span
from torchlint.outputs import Style
from torchlint.outputs.escaping import json_text, sarif_text
from torchlint.outputs.places import placed, range_elsewhere, repository_uri, utf16_range
from torchlint.results import LintedFile, Outcome

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "note",
    Severity.HINT: "note",
}
_PRECISIONS = {
    Category.CORRECTNESS: "very-high",
    Category.SUSPICIOUS: "high",
    Category.PERFORMANCE: "high",
    Category.PEDANTIC: "medium",
}
_RANKS = {Confidence.HIGH: 90.0, Confidence.MEDIUM: 60.0, Confidence.LOW: 30.0}
CRASH = "internal-error"


def render(outcome: Outcome, style: Style) -> str:
    """Indented JSON in ASCII with one run; a rule that crashed is a notification rather than a result."""
    return json_text(log(outcome))


def log(outcome: Outcome) -> dict[str, Any]:
    """The log as JSON values, with one run."""
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [_run(outcome)]}


def _run(outcome: Outcome) -> dict[str, Any]:
    indices = {meta.code: index for index, meta in enumerate(outcome.rules)}
    results = [
        _result(file.source, finding, indices)
        for file in outcome.files
        for finding in file.findings
        if finding.name != CRASH
    ]
    return {
        "tool": {"driver": _driver(outcome.rules)},
        "columnKind": "utf16CodeUnits",
        "invocations": [_invocation(outcome.files)],
        "results": results,
    }


def _driver(rules: Iterable[Meta]) -> dict[str, Any]:
    return {
        "name": "torchlint",
        "informationUri": addresses.SITE,
        "version": version("torchlint"),
        "rules": [_rule(meta) for meta in rules],
    }


def _rule(meta: Meta) -> dict[str, Any]:
    rule = {
        "id": meta.code,
        "name": meta.name,
        "shortDescription": {"text": meta.summary},
        "fullDescription": {"text": meta.summary},
        "help": {"text": meta.documentation, "markdown": markdown(meta)},
        "defaultConfiguration": {
            "enabled": meta.category.on_by_default and not meta.preview,
            "level": _LEVELS[meta.category.severity],
        },
        "properties": {"tags": [meta.category.value], "precision": _PRECISIONS[meta.category]},
    }
    if href := registry.address(meta.name):
        rule["helpUri"] = href
    return rule


def _result(source: SourceFile, finding: Finding, indices: dict[str, int]) -> dict[str, Any]:
    message = sarif_text(placed(finding.message, source, finding.span.start))
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": _LEVELS[finding.severity],
        "rank": _RANKS[finding.confidence],
        "message": {"text": f"{message}\n{sarif_text(finding.help)}" if finding.help else message},
        "locations": [_location(source, finding.span)],
        "relatedLocations": [
            {"id": number, **place, "message": {"text": text}}
            for number, (place, text) in enumerate(_related(source, finding), 1)
        ],
        "partialFingerprints": {"torchlint/v1": finding.fingerprint},
    }
    if finding.code in indices:
        result["ruleIndex"] = indices[finding.code]
    if finding.fix is not None and not source.is_notebook:  # whose text is not that of the file
        result["fixes"] = [_fix(source, finding.fix)]
    return result


def _fix(source: SourceFile, fix: Fix) -> dict[str, Any]:
    replacements = [
        {"deletedRegion": _region(source, edit.span), "insertedContent": {"text": edit.content}} for edit in fix.edits
    ]
    return {
        "description": {"text": fix.message if fix.safety is Safety.SAFE else f"{fix.message} (unsafe)"},
        "artifactChanges": [{"artifactLocation": _artifact(source.path), "replacements": replacements}],
    }


def _related(source: SourceFile, finding: Finding) -> Iterator[tuple[dict[str, Any], str]]:
    for item in finding.related:
        yield _location(source, item.span), sarif_text(placed(item.message, source, item.span.start))
    for place in finding.elsewhere:
        yield _physical(place.path, _columns(*range_elsewhere(place))), sarif_text(place.message)


def _location(source: SourceFile, span: Span) -> dict[str, Any]:
    return _physical(source.path, _region(source, span))


def _physical(path: str, region: dict[str, int]) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": _artifact(path), "region": region}}


def _region(source: SourceFile, span: Span) -> dict[str, int]:
    """A region of the file; of a notebook, whose file is JSON, it is a line."""
    if source.is_notebook:
        return {"startLine": source.file_line(span.start.line)}
    return _columns(*utf16_range(source, span))


def _columns(start: tuple[int, int], end: tuple[int, int]) -> dict[str, int]:
    return {
        "startLine": start[0] + 1,
        "startColumn": start[1] + 1,
        "endLine": end[0] + 1,
        "endColumn": end[1] + 1,
    }


def _artifact(path: str) -> dict[str, str]:
    uri = repository_uri(path)
    return {"uri": uri} if uri.startswith("file:") else {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _invocation(files: Iterable[LintedFile]) -> dict[str, Any]:
    notifications = [
        {
            "level": "error",
            "message": {"text": sarif_text(finding.message)},
            "locations": [{"physicalLocation": {"artifactLocation": _artifact(file.source.path)}}],
        }
        for file in files
        for finding in file.findings
        if finding.name == CRASH
    ]
    return {"executionSuccessful": not notifications, "toolExecutionNotifications": notifications}

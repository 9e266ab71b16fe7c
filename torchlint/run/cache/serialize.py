"""Findings as JSON values and back, without their path: lists in the order of the fields."""

from __future__ import annotations

import os
from typing import Any

from torchlint.files.first_party import beside
from torchlint.finding import Confidence, Edit, Elsewhere, Finding, Fix, Position, Related, Safety, Severity, Span


def plain(finding: Finding) -> list[Any]:
    """A finding as JSON values."""
    fix = finding.fix
    return [
        finding.name,
        finding.code,
        finding.message,
        _plain_span(finding.span),
        finding.severity.value,
        finding.confidence.value,
        [[_plain_span(related.span), related.message] for related in finding.related],
        finding.help,
        finding.fingerprint,
        [
            [_way(finding.path, item.path), _plain_span(item.span), _plain_span(item.utf16), item.message]
            for item in finding.elsewhere
        ],
        fix and [fix.message, [[_plain_span(edit.span), edit.content] for edit in fix.edits], fix.safety.value],
    ]


def finding_of(values: list[Any], path: str) -> Finding:
    """The finding of which `plain` made `values`, in the file that is shown as `path`."""
    name, code, message, span, severity, confidence, related, help, fingerprint, elsewhere, fix = values
    return Finding(
        path=path,
        name=name,
        code=code,
        message=message,
        span=_span(span),
        severity=Severity(severity),
        confidence=Confidence(confidence),
        related=tuple(Related(_span(place), text) for place, text in related),
        elsewhere=tuple(
            Elsewhere(beside(path, other), _span(place), _span(utf16), text) for other, place, utf16, text in elsewhere
        ),
        help=help,
        fingerprint=fingerprint,
        fix=fix and Fix(fix[0], tuple(Edit(_span(place), text) for place, text in fix[1]), Safety(fix[2])),
    )


def _way(path: str, other: str) -> str:
    """The way from the folder of one file to another."""
    return os.path.relpath(other, os.path.dirname(path) or os.curdir)


def _plain_span(span: Span) -> list[int]:
    return [span.start.line, span.start.column, span.end.line, span.end.column]


def _span(values: list[int]) -> Span:
    return Span(Position(values[0], values[1]), Position(values[2], values[3]))

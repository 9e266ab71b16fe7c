"""Diagnostics that the editor asks for, document by document, in place of those that are sent to it."""

from __future__ import annotations

from typing import TypeAlias

from lsprotocol import types

from torchlint.files.fingerprint import digest_of
from torchlint.server.analysis import Analysis

Report: TypeAlias = types.RelatedFullDocumentDiagnosticReport | types.RelatedUnchangedDocumentDiagnosticReport

OPTIONS = types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier="torchlint")


def report(analysis: Analysis | None, uri: str, previous: str | None) -> Report:
    """The findings of a document, or the answer that nothing changed since `previous`."""
    items = [item.diagnostic for item in analysis.shown if item.uri == uri] if analysis is not None else []
    result = digest_of(repr(items).encode("utf-8", "backslashreplace"))
    if result == previous:
        return types.RelatedUnchangedDocumentDiagnosticReport(result)
    return types.RelatedFullDocumentDiagnosticReport(items, result_id=result)

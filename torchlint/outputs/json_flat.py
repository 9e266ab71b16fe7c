"""Flat JSON, for scripts: an array with one object for each finding, without objects inside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from torchlint.files.source import SourceFile
from torchlint.finding import Finding
from torchlint.outputs import Style
from torchlint.outputs.escaping import json_text, printable
from torchlint.outputs.places import whole_message
from torchlint.results import Outcome


def render(outcome: Outcome, style: Style) -> str:
    """Indented JSON in ASCII."""
    return json_text(list(objects(outcome)))


def objects(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """One object for each finding, all with the same keys.

    Lines and columns count from 1, columns in code points; the end is excluded. In a notebook they count in the cell.
    """
    for file in outcome.files:
        yield from (_object(file.source, finding) for finding in file.findings)


def _object(source: SourceFile, finding: Finding) -> dict[str, Any]:
    start, end = source.places(finding.span)
    return {
        "path": _path(source.path),
        "cell": start.cell,
        "line": start.line,
        "column": start.column + 1,
        "end_line": end.line,
        "end_column": end.column + 1,
        "rule": finding.name,
        "code": finding.code,
        "severity": finding.severity.value,
        "message": printable(whole_message(finding)),
        "help": printable(finding.help),
        "fix": finding.fix.safety.value if finding.fix is not None else None,
    }


def _path(path: str) -> str:
    """A path as it was given, with forward slashes; bytes that are no text are question marks."""
    return path.replace(os.sep, "/").encode("utf-8", "replace").decode()

"""GitLab's code quality report: the part of Code Climate's format that merge requests show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from torchlint.finding import Severity
from torchlint.outputs import Style
from torchlint.outputs.escaping import json_text, printable
from torchlint.outputs.places import placed_whole, repository_path
from torchlint.results import LintedFile, Outcome

_SEVERITIES = {
    Severity.ERROR: "critical",
    Severity.WARNING: "major",
    Severity.INFORMATION: "minor",
    Severity.HINT: "info",
}


def render(outcome: Outcome, style: Style) -> str:
    """Indented JSON in ASCII: an array with one object a finding.

    GitLab compares the fingerprints of two branches, and shows one finding of several with the same: they are
    different throughout the report, and stay what they are when lines move.
    """
    seen: Counter[str] = Counter()
    return json_text([issue for file in outcome.files for issue in _issues(file, seen)])


def _issues(file: LintedFile, seen: Counter[str]) -> Iterator[dict[str, Any]]:
    path = repository_path(file.source.path).encode("utf-8", "replace").decode()
    for finding in file.findings:
        key = f"{path}\0{finding.name}\0{finding.fingerprint}"
        seen[key] += 1
        yield {
            "description": printable(placed_whole(finding, file.source)),
            "check_name": f"{finding.code} {finding.name}",
            "fingerprint": sha256(f"{key}\0{seen[key]}".encode()).hexdigest()[:32],
            "severity": _SEVERITIES[finding.severity],
            "location": {"path": path, "lines": {"begin": file.source.file_line(finding.span.start.line)}},
        }

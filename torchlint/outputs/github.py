"""GitHub's workflow commands: an annotation beside the changed line for each finding."""

from __future__ import annotations

from torchlint.files.source import SourceFile
from torchlint.finding import Finding, Severity, Span
from torchlint.outputs import Style
from torchlint.outputs.escaping import printable
from torchlint.outputs.places import placed_whole, repository_path
from torchlint.results import LintedFile, Outcome

_COMMANDS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "notice",
    Severity.HINT: "notice",
}

_NEWLINES = "\r\n"
"""Which are escaped otherwise."""


def render(outcome: Outcome, style: Style) -> str:
    """One command a finding."""
    return "".join(f"{_command(file, finding)}\n" for file in outcome.files for finding in file.findings)


def _command(file: LintedFile, finding: Finding) -> str:
    properties = {
        "title": f"{finding.code} {finding.name}",
        "file": printable(repository_path(file.source.path)),
        **_region(file.source, finding.span),
    }
    listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    message = placed_whole(finding, file.source)
    full = f"{message}\nhelp: {finding.help}" if finding.help else message
    return f"::{_COMMANDS[finding.severity]} {listed}::{_data(printable(full, keep=_NEWLINES))}"


def _region(source: SourceFile, span: Span) -> dict[str, int]:
    """Where to annotate; of a notebook, whose file is JSON, it is a line."""
    if source.is_notebook:
        return {"line": source.file_line(span.start.line)}
    start, end = span.start, span.end
    return {"line": start.line, "col": start.column + 1, "endLine": end.line, "endColumn": end.column + 1}


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

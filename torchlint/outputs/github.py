"""GitHub's workflow commands: an annotation beside the changed line for each finding."""

from __future__ import annotations

from pathlib import Path

from torchlint.finding import Finding, Severity
from torchlint.outputs import LintedFile, Outcome, Style

_COMMANDS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "notice",
    Severity.HINT: "notice",
}


def render(outcome: Outcome, style: Style) -> str:
    """One command a finding."""
    return "".join(f"{_command(file, finding)}\n" for file in outcome.files for finding in file.findings)


def _command(file: LintedFile, finding: Finding) -> str:
    start, end = finding.span.start, finding.span.end
    properties = {
        "title": f"{finding.code} {finding.name}",
        "file": _path(file.source.path),
        "line": start.line,
        "col": start.column + 1,
        "endLine": end.line,
        "endColumn": end.column + 1,
    }
    listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    message = f"{finding.message}\nhelp: {finding.help}" if finding.help else finding.message
    return f"::{_COMMANDS[finding.severity]} {listed}::{_data(message)}"


def _path(path: str) -> str:
    """Relative to the working folder where it can be, since GitHub knows no other paths."""
    try:
        return Path(path).absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return Path(path).as_posix()


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

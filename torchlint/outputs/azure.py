"""Azure Pipelines' logging commands: an issue of the run, with its place, for each finding."""

from __future__ import annotations

from torchlint.files.source import SourceFile
from torchlint.finding import Finding, Severity
from torchlint.outputs import Style
from torchlint.outputs.escaping import printable
from torchlint.outputs.places import placed_whole, repository_path
from torchlint.results import Outcome


def render(outcome: Outcome, style: Style) -> str:
    """One command a finding. There are errors and warnings only; what is less is a warning too."""
    return "".join(f"{_command(file.source, finding)}\n" for file in outcome.files for finding in file.findings)


def _command(source: SourceFile, finding: Finding) -> str:
    properties = {
        "type": "error" if finding.severity is Severity.ERROR else "warning",
        "sourcepath": printable(repository_path(source.path)),
        "linenumber": source.file_line(finding.span.start.line),
        **({} if source.is_notebook else {"columnnumber": finding.span.start.column + 1}),
        "code": finding.code,
    }
    listed = "".join(f"{key}={_property(str(value))};" for key, value in properties.items())
    message = f"{finding.name}: {placed_whole(finding, source)}"
    return f"##vso[task.logissue {listed}]{_data(printable(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%AZP25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(";", "%3B").replace("]", "%5D")

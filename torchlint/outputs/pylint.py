"""pylint's `parseable` form, which many services and editors read."""

from __future__ import annotations

from torchlint.files.source import SourceFile
from torchlint.finding import Finding
from torchlint.outputs import Style
from torchlint.outputs.escaping import printable
from torchlint.outputs.places import placed_whole, repository_path
from torchlint.results import Outcome


def render(outcome: Outcome, style: Style) -> str:
    """`path:line: [TL101(missing-zero-grad), ] message`; the part after the comma names a function, and is empty."""
    return "".join(f"{_line(file.source, finding)}\n" for file in outcome.files for finding in file.findings)


def _line(source: SourceFile, finding: Finding) -> str:
    place = f"{printable(repository_path(source.path))}:{source.file_line(finding.span.start.line)}"
    message = printable(placed_whole(finding, source))
    return f"{place}: [{finding.code}({finding.name}), ] {message}"

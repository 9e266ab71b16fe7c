"""One line a finding, for `grep` and editors that jump to `path:line:column`."""

from __future__ import annotations

from torchlint.colours import Paint, painter
from torchlint.files.source import SourceFile
from torchlint.finding import Finding
from torchlint.outputs import Style
from torchlint.outputs.escaping import printable
from torchlint.outputs.places import shown_place, whole_message
from torchlint.results import Outcome


def render(outcome: Outcome, style: Style) -> str:
    """`path:line:column: code name: message`; in a notebook `path:cell 3:line:column: ...`."""
    paint = painter(style.colour)
    return "".join(f"{_line(file.source, finding, paint)}\n" for file in outcome.files for finding in file.findings)


def _line(source: SourceFile, finding: Finding, paint: Paint) -> str:
    place = paint(f"{shown_place(source, finding.span.start)}:", "title")
    code = paint(finding.code, finding.severity.value)
    return f"{place} {code} {finding.name}: {printable(whole_message(finding))}"

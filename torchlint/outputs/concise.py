"""One line a finding, for `grep` and editors that jump to `path:line:column`."""

from __future__ import annotations

from torchlint.colours import Paint, painter
from torchlint.finding import Finding
from torchlint.outputs import Outcome, Style, printable


def render(outcome: Outcome, style: Style) -> str:
    """`path:line:column: code name: message`."""
    paint = painter(style.colour)
    return "".join(f"{_line(finding, paint)}\n" for finding in outcome.findings)


def _line(finding: Finding, paint: Paint) -> str:
    start = finding.span.start
    place = paint(f"{printable(finding.path)}:{start.line}:{start.column + 1}:", "title")
    code = paint(finding.code, finding.severity.value)
    return f"{place} {code} {finding.name}: {printable(finding.message)}"

"""For people: each finding with the source, the place underlined, its other half, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from torchlint.colours import Paint, painter
from torchlint.files.source import SourceFile
from torchlint.finding import Finding, Safety
from torchlint.outputs import Style, summary
from torchlint.outputs.escaping import printable
from torchlint.outputs.excerpt import Note, excerpt
from torchlint.outputs.places import shown_elsewhere, shown_place
from torchlint.results import LintedFile, Outcome


def render(outcome: Outcome, style: Style) -> str:
    """The findings, an empty line after each, and a closing line that counts them."""
    paint = painter(style.colour)
    lines = [line for file in outcome.files for line in _of_file(file, paint)]
    if style.summary and outcome.total:
        lines.append(summary(outcome) + _fixable(outcome.findings))
    return "".join(f"{line}\n" for line in lines)


def _of_file(file: LintedFile, paint: Paint) -> Iterator[str]:
    for finding in file.findings:
        yield _headline(file.source, finding, paint)
        yield from excerpt(file.source, _notes(file.source, finding), paint)
        for place in finding.elsewhere:
            where = paint(f"{shown_elsewhere(place)}:", "title")
            yield f"  {where} {printable(place.message)}"
        if finding.help:
            yield f"  {paint('help:', 'hint')} {printable(finding.help)}"
        yield ""


def _headline(source: SourceFile, finding: Finding, paint: Paint) -> str:
    place = paint(f"{shown_place(source, finding.span.start)}:", "title")
    severity = paint(f"{finding.severity.value} {finding.code}", finding.severity.value)
    return f"{place} {severity} {finding.name}: {printable(finding.message)}"


def _notes(source: SourceFile, finding: Finding) -> Iterable[Note]:
    if finding.span.start == finding.span.end:
        return
    yield Note(finding.span, "", "^", finding.severity.value)
    for related in finding.related:
        yield Note(related.span, printable(related.message), "-", "related")


def _fixable(found: Iterable[Finding]) -> str:
    """Which options repair findings, and how many."""
    kinds = Counter(finding.fix.safety for finding in found if finding.fix is not None)
    safe, unsafe = kinds[Safety.SAFE], kinds[Safety.UNSAFE]
    offers = [f"--fix repairs {safe:,}"] * bool(safe)
    offers += [f"--fix --unsafe-fixes repairs {safe + unsafe:,}"] * bool(unsafe)
    return f" {'; '.join(offers)}." if offers else ""

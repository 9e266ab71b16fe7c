"""For people: each finding with the source, the place underlined, its other half, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from torchlint.colours import Paint, painter
from torchlint.finding import Finding, Safety, Severity
from torchlint.outputs import LintedFile, Outcome, Style, counted, printable
from torchlint.outputs.excerpt import Note, excerpt
from torchlint.source import SourceFile


def render(outcome: Outcome, style: Style) -> str:
    """The findings, an empty line after each, and a closing line that counts them."""
    paint = painter(style.colour)
    lines = [line for file in outcome.files for line in _of_file(file, paint)]
    if style.summary and outcome.total:
        lines.append(_summary(outcome))
    return "".join(f"{line}\n" for line in lines)


def _of_file(file: LintedFile, paint: Paint) -> Iterator[str]:
    for finding in file.findings:
        yield _headline(finding, paint)
        yield from excerpt(file.source, _notes(file.source, finding), paint)
        if finding.help:
            yield f"  {paint('help:', 'hint')} {printable(finding.help)}"
        yield ""


def _headline(finding: Finding, paint: Paint) -> str:
    start = finding.span.start
    place = paint(f"{printable(finding.path)}:{start.line}:{start.column + 1}:", "title")
    severity = paint(f"{finding.severity.value} {finding.code}", finding.severity.value)
    return f"{place} {severity} {finding.name}: {printable(finding.message)}"


def _notes(source: SourceFile, finding: Finding) -> Iterable[Note]:
    if finding.span.start == finding.span.end:
        return
    yield Note(finding.span, "", "^", finding.severity.value)
    for related in finding.related:
        yield Note(related.span, printable(related.message), "-", "related")


def _summary(outcome: Outcome) -> str:
    found = outcome.findings
    if not found:
        return f"No findings in {counted(outcome.total, 'file')}."
    severities = Counter(finding.severity for finding in found)
    kinds = ", ".join(counted(severities[kind], _NOUNS[kind]) for kind in Severity if severities[kind])
    files = f"{len(outcome.files):,} of {counted(outcome.total, 'file')}"
    return f"{counted(len(found), 'finding')} ({kinds}) in {files}.{_fixable(found)}"


def _fixable(found: Iterable[Finding]) -> str:
    """Which options repair findings, and how many."""
    kinds = Counter(finding.fix.safety for finding in found if finding.fix is not None)
    safe, unsafe = kinds[Safety.SAFE], kinds[Safety.UNSAFE]
    offers = [f"--fix repairs {safe:,}"] * bool(safe)
    offers += [f"--fix --unsafe-fixes repairs {safe + unsafe:,}"] * bool(unsafe)
    return f" {'; '.join(offers)}." if offers else ""


_NOUNS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "information",
    Severity.HINT: "hint",
}

"""For people: each finding with the source, the place underlined, its other half, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from torchlint.colours import Paint, painter
from torchlint.files.source import SourceFile
from torchlint.finding import Finding, Safety
from torchlint.outputs import Style, counted, summary
from torchlint.outputs.escaping import printable
from torchlint.outputs.folding import folded, lines_of
from torchlint.outputs.places import shown_elsewhere, shown_place
from torchlint.results import Outcome

if TYPE_CHECKING:
    from torchlint.outputs.excerpt import Note

_MARKS = {Safety.SAFE: "[fix]", Safety.UNSAFE: "[unsafe fix]"}


def render(outcome: Outcome, style: Style) -> str:
    """The findings, an empty line after each, and a closing line that counts them.

    Deprecated names come last, and each name once for a file, with its lines.
    """
    paint = painter(style.colour)
    lines = [line for source, same in _shown(outcome) for line in _lines(source, same, paint)]
    if style.summary and outcome.total:
        lines.append(" ".join([summary(outcome), *_fixable(outcome.findings), *_unstable(outcome)]))
    return "".join(f"{line}\n" for line in lines)


def _shown(outcome: Outcome) -> Iterator[tuple[SourceFile, Sequence[Finding]]]:
    """The findings in the order in which people see them, together with those that say the same."""
    defects, maintenance = outcome.parted()
    for file in defects:
        yield from ((file.source, [finding]) for finding in file.findings)
    for file in maintenance:
        yield from ((file.source, same) for same in folded(file.findings))


def _lines(source: SourceFile, same: Sequence[Finding], paint: Paint) -> Iterator[str]:
    """A finding, with the lines of those that say the same elsewhere in its file."""
    from torchlint.outputs.excerpt import excerpt  # not worth its time where nothing is found

    finding, *others = same
    yield _headline(source, finding, paint)
    yield from excerpt(source, _notes(source, finding), paint)
    for place in finding.elsewhere:
        where = paint(f"{shown_elsewhere(place)}:", "title")
        yield f"  {where} {printable(place.message)}"
    if finding.help:
        yield f"  {paint('help:', 'hint')} {printable(finding.help)}"
    if others:
        yield f"  {paint('also', 'related')} {lines_of(source, others)}"
    yield ""


def _headline(source: SourceFile, finding: Finding, paint: Paint) -> str:
    place = paint(f"{shown_place(source, finding.span.start)}:", "title")
    severity = paint(f"{finding.severity.value} {finding.code}", finding.severity.value)
    mark = "" if finding.fix is None else f" {paint(_MARKS[finding.fix.safety], 'hint')}"
    return f"{place} {severity} {finding.name}: {printable(finding.message)}{mark}"


def _notes(source: SourceFile, finding: Finding) -> Iterable[Note]:
    if finding.span.start == finding.span.end:
        return
    from torchlint.outputs.excerpt import Note

    yield Note(finding.span, "", "^", finding.severity.value)
    for related in finding.related:
        yield Note(related.span, printable(related.message), "-", "related")


def _fixable(found: Iterable[Finding]) -> Iterator[str]:
    """The options that repair findings, how many, and how those are marked."""
    kinds = Counter(finding.fix.safety for finding in found if finding.fix is not None)
    safe, unsafe = kinds[Safety.SAFE], kinds[Safety.UNSAFE]
    offers = [f"--fix fixes {counted(safe, 'finding')} marked [fix]"] * bool(safe)
    also = "also fixes" if safe else "fixes"
    offers += [f"--fix --unsafe-fixes {also} {counted(unsafe, 'finding')} marked [unsafe fix]"] * bool(unsafe)
    if offers:
        yield f"{'; '.join(offers)}."


def _unstable(outcome: Outcome) -> Iterator[str]:
    """The findings that --preview would add, if all findings count: a baseline does not list previews."""
    if outcome.unstable and not outcome.new_only:
        yield f"--preview shows at least {outcome.unstable:,} more."

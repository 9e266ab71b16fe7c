"""For people: each finding with its verdict and the evidence, and a line that counts them."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.colours import Paint, painter
from torchlint.outputs import printable
from torchlint.verify.session import Judged, Verification
from torchlint.verify.verdict import Answer

ROLES = {
    Answer.CONFIRMED: "error",
    Answer.REFUTED: "hint",
    Answer.NOT_REACHED: "dim",
    Answer.INCONCLUSIVE: "warning",
}
_WIDTH = max(len(answer.value) for answer in Answer)


def render(verification: Verification, colour: bool) -> str:
    """A block a finding, what the user should know, and a summary."""
    paint = painter(colour)
    lines = [line for judged in verification.judged for line in _of(judged, paint)]
    if lines:
        lines.append("")
    lines += [f"{paint('note:', 'hint')} {printable(note)}" for note in verification.notes]
    lines.append(_summary(verification))
    return "".join(f"{line}\n" for line in lines)


def _of(judged: Judged, paint: Paint) -> Iterator[str]:
    finding, verdict = judged.finding, judged.verdict
    answer = paint(f"{verdict.answer.value:<{_WIDTH}}", ROLES[verdict.answer])
    place = f"{printable(finding.path)}:{finding.span.start.line}:{finding.span.start.column + 1}:"
    yield f"{answer}  {paint(place, 'title')} {finding.code} {finding.name}"
    text = judged.source.line(finding.span.start.line).strip() if judged.source.data else ""
    if text:
        yield f"{'':{_WIDTH}}    {paint(printable(text), 'code')}"
    first = "" if verdict.first_step is None else f" (first at step {verdict.first_step + 1:,})"
    yield f"{'':{_WIDTH}}    {printable(verdict.reason)}{first}"


def _summary(verification: Verification) -> str:
    counts = [f"{verification.count(answer)} {answer.value}" for answer in Answer if verification.count(answer)]
    found = ", ".join(counts) or "no findings"
    ended = verification.ended
    if ended is None:
        return f"{found}."
    devices = sorted({evidence.process.device for evidence in verification.evidence}) or ["nothing"]
    processes = f" in {len(verification.evidence)} processes" if len(verification.evidence) > 1 else ""
    return (
        f"{found}. {verification.steps:,} steps{processes} in {ended.seconds:.1f} s on {', '.join(devices)}; "
        f"the program: {ended.description}."
    )

"""The report for people: each finding with its verdict and the evidence, and a summary line."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.colours import Paint, painter
from torchlint.outputs.escaping import printable
from torchlint.verify.comparison import Comparison
from torchlint.verify.proof import Outcome
from torchlint.verify.session import CONFIRMED, FAILED, NEVER_LOADED, Judged, Verification
from torchlint.verify.verdict import MORE_STEPS, NO_JUDGE, Answer
from torchlint.verify.watch.catalogue import consequence

ROLES = {
    Answer.CONFIRMED: "error",
    Answer.REFUTED: "hint",
    Answer.NOT_REACHED: "dim",
    Answer.INCONCLUSIVE: "warning",
}
OUTCOMES = {
    Outcome.PROVEN: "hint",
    Outcome.NOT_PROVEN: "warning",
    Outcome.NOTHING_TO_PROVE: "dim",
    Outcome.NO_FIX: "dim",
}
_PLACES = 5
"""The maximum number of findings in one line that are named, and of blocks for findings that no run can judge."""
_NOTHING = {
    CONFIRMED: "the program makes no progress",
    NEVER_LOADED: "torchlint could not observe it",
    FAILED: "the program failed, and no check explains it",
}
"""Why a watched run has no answers, by exit codes."""
_WIDTH = max(len(answer.value) for answer in Answer)


def render(verification: Verification, colour: bool) -> str:
    """A block per finding, notes for the user, and a summary."""
    paint = painter(colour)
    lines = list(_findings(verification, paint))
    if lines:
        lines.append("")
    lines += [f"{paint('note:', 'hint')} {printable(note)}" for note in verification.notes]
    if verification.comparison is not None:
        lines += [*_compared(verification.comparison, paint), ""]
    lines.append(_summary(verification))
    return "".join(f"{line}\n" for line in lines)


def _findings(verification: Verification, paint: Paint) -> Iterator[str]:
    """A block for each finding with evidence and one line for all others; nothing for a run that showed nothing."""
    if verification.ended is not None and not any(evidence.has_anything for evidence in verification.evidence):
        return
    ranked = verification.ranked
    missed = [item for item in ranked if item.verdict.answer is Answer.NOT_REACHED]
    unjudged = [item for item in ranked if item.verdict.reason == NO_JUDGE]
    are_many = len(unjudged) > _PLACES
    for judged in ranked:
        if judged.verdict.answer is not Answer.NOT_REACHED and not (are_many and judged.verdict.reason == NO_JUDGE):
            yield from _of(judged, paint)
    if are_many:
        yield _in_one_line(unjudged, NO_JUDGE, paint)
    if missed:
        yield _in_one_line(missed, "the code did not run", paint)
        if any(item.verdict.advice for item in missed):
            yield f"{'':{_WIDTH}}    next: {MORE_STEPS}, because the run was stopped"


def _in_one_line(items: list[Judged], reason: str, paint: Paint) -> str:
    """The number of findings with the same verdict, and the first places."""
    places = ", ".join(f"{printable(item.finding.path)}:{item.line} {item.finding.code}" for item in items[:_PLACES])
    places += f" and {len(items) - _PLACES:,} more" if len(items) > _PLACES else ""
    answer = items[0].verdict.answer
    return f"{paint(f'{answer.value:<{_WIDTH}}', ROLES[answer])}  {len(items):,}, {reason}: {places}"


def _of(judged: Judged, paint: Paint) -> Iterator[str]:
    finding, verdict = judged.finding, judged.verdict
    answer = paint(f"{verdict.answer.value:<{_WIDTH}}", ROLES[verdict.answer])
    place = f"{printable(finding.path)}:{judged.line}:{finding.span.start.column + 1}:"
    yield f"{answer}  {paint(place, 'title')} {finding.code} {finding.name}"
    text = judged.source.line(finding.span.start.line).strip() if judged.source.data else ""
    if text:
        yield f"{'':{_WIDTH}}    {paint(printable(text), 'code')}"
    first = "" if verdict.first_step is None else f" (first at step {verdict.first_step + 1:,})"
    yield f"{'':{_WIDTH}}    {printable(verdict.reason)}{first}"
    if verdict.answer is Answer.CONFIRMED and (meaning := consequence(finding.name)):
        yield f"{'':{_WIDTH}}    means: {printable(meaning)}"
    if judged.beside is not None:
        yield f"{'':{_WIDTH}}    the linter reports: {printable(judged.beside.message)}"
    if verdict.advice:
        yield f"{'':{_WIDTH}}    next: {printable(verdict.advice)}"
    if judged.proof is not None:
        yield f"{'':{_WIDTH}}    {_fix(judged, paint)}"


def _fix(judged: Judged, paint: Paint) -> str:
    """`fix proven (unsafe: drop the argument): 13 retained graphs before, 0 after, in 40 steps`"""
    assert judged.proof is not None
    outcome, fix = judged.proof.outcome, judged.finding.fix
    about = f" ({fix.safety.value}: {fix.message})" if fix is not None else ""
    title = "no fix" if outcome is Outcome.NO_FIX else f"fix {outcome.value}"
    return f"{paint(title, OUTCOMES[outcome])}{printable(about)}: {printable(judged.proof.reason)}"


def _compared(comparison: Comparison, paint: Paint) -> Iterator[str]:
    """The list of runs, and a table of their measurements."""
    yield f"runs: {', '.join(comparison.order)}; seed {comparison.seed}"
    quantities = comparison.quantities
    rows = [(item.label, item.shown_before, item.shown_after) for item in quantities]
    rows.insert(0, ("", "as it is", "with fixes"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for number, (name, before, after) in enumerate(rows):
        line = f"{name:<{widths[0]}}  {before:>{widths[1]}}  {after:>{widths[2]}}"
        yield paint(line, "title") if not number else line


def _nothing(verification: Verification) -> str:
    """The reason why there are no verdicts to count."""
    if not verification.title.endswith("watch"):
        return "no findings"
    if verification.exit_code == NEVER_LOADED and verification.evidence and not verification.steps:
        return "no training step was seen"
    return _NOTHING.get(verification.exit_code, "no problem found")


def _by_optimizer(verification: Verification) -> str:
    """The steps of each optimizer, if there are several."""
    made = verification.steps_made
    return f" ({', '.join(f'{name} {steps:,}' for name, steps in made)})" if len(made) > 1 else ""


def _summary(verification: Verification) -> str:
    counts = [f"{verification.count(answer)} {answer.value}" for answer in Answer if verification.count(answer)]
    found = ", ".join(counts) or _nothing(verification)
    proofs = [judged.proof.outcome for judged in verification.judged if judged.proof is not None]
    if verification.comparison is not None:
        proven, unproven = (proofs.count(outcome) for outcome in (Outcome.PROVEN, Outcome.NOT_PROVEN))
        found += f"; fixes: {proven} proven, {unproven} not proven"
    ended = verification.ended
    if ended is None:
        return f"{found}."
    devices = ", ".join(sorted({evidence.process.device for evidence in verification.evidence}))
    training = sum(evidence.steps > 0 for evidence in verification.evidence)
    processes = f" in {training} processes" if training > 1 else ""
    verb = "ended with" if ended.description.startswith("exit code") else "was"
    return (
        f"{found}. {verification.steps:,} steps{_by_optimizer(verification)}{processes} in {ended.seconds:.1f} s"
        f"{f' on {devices}' if devices else ''}; the program {verb} {ended.description}."
    )

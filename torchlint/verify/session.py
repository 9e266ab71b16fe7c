"""One verification: findings and a command in, verdicts out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchlint.files.source import Place, SourceFile
from torchlint.finding import Finding
from torchlint.verify.claims import Claim, claim
from torchlint.verify.comparison import Comparison
from torchlint.verify.evidence import Evidence
from torchlint.verify.folder import Conditions, Folder, FolderError, Limits, Watched
from torchlint.verify.launch import Ended, Launcher, launch
from torchlint.verify.proof import Proof
from torchlint.verify.stuck import is_lost
from torchlint.verify.verdict import (
    CHECKS,
    MORE_STEPS,
    READ,
    VERIFIABLE,
    Answer,
    Verdict,
    inconclusive,
    not_reached,
    sighted,
    verdict,
)
from torchlint.verify.watch import ranks
from torchlint.verify.watch.branches import branches_of
from torchlint.verify.watch.catalogue import checks

NOTHING_CONFIRMED, CONFIRMED, USAGE, NEVER_LOADED, FAILED = range(5)
_THREADS = 6
_OFTEN = 2
"""An error that a program ignores is named from this number on."""


@dataclass(frozen=True)
class Subject:
    """A finding to verify, its source text, and the reason why it cannot be judged, or empty.

    `fixed` is the text with its fix and the other fixes of the file; None if it has no fix.
    """

    finding: Finding
    source: SourceFile
    problem: str = ""
    fixed: SourceFile | None = None


_FAILURES = {"program-error", "out-of-memory", "nonfinite-value", "second-backward", "nonscalar-backward"}
_COSTS = {
    "undetached-accumulation",
    "memory-growth",
    "gradient-holds-graph",
    "leaked-hook",
    "evaluation-with-grad",
    "retain-graph-in-loop",
    "empty-cache-in-loop",
    "anomaly-detection-left-on",
    "host-synchronization",
    "pytorch-warning",
}
"""Names of findings that only cost time or memory, or are warnings."""


@dataclass(frozen=True)
class Judged:
    """A finding with its verdict, and the proof of its fix from another run, if there was one.

    `beside` is the linter's finding about the same line, if a run without findings has shown a problem.
    """

    finding: Finding
    source: SourceFile
    verdict: Verdict
    proof: Proof | None = None
    beside: Finding | None = None

    @property
    def place(self) -> Place:
        """Where a reader finds the finding: in a notebook, its line counts in its cell."""
        return self.source.place(self.finding.span.start)

    @property
    def line(self) -> str:
        """The line as text; in a notebook with its cell."""
        return self.place.shown_line


@dataclass(frozen=True)
class Verification:
    """The result: a verdict for each finding, in the given order, and how the program ended."""

    command: tuple[str, ...]
    judged: tuple[Judged, ...]
    ended: Ended | None
    """None if its end was not observed: there was nothing to verify, or only evidence to judge."""
    evidence: tuple[Evidence, ...]
    notes: tuple[str, ...]
    """Notes for the user, as sentences."""
    exit_code: int
    replaced: frozenset[str] = field(default=frozenset())
    """The real paths of files in whose place another text ran."""
    comparison: Comparison | None = None
    """The comparison with the fixed program."""
    title: str = "torchlint verify"
    """The torchlint command of this report."""

    def only(self, wanted: Callable[[Judged], bool]) -> Verification:
        """The verification with only the selected findings; others do not count for the exit code."""
        kept = tuple(filter(wanted, self.judged))
        none_left = self.exit_code == CONFIRMED and not any(item.verdict.answer is Answer.CONFIRMED for item in kept)
        return replace(self, judged=kept, exit_code=NOTHING_CONFIRMED if none_left else self.exit_code)

    def count(self, answer: Answer) -> int:
        return sum(item.verdict.answer is answer for item in self.judged)

    @property
    def ranked(self) -> tuple[Judged, ...]:
        """Confirmed findings first, then open ones; errors before wrong results, these before time and memory."""
        order = (Answer.CONFIRMED, Answer.INCONCLUSIVE, Answer.REFUTED, Answer.NOT_REACHED)
        return tuple(sorted(self.judged, key=lambda item: (order.index(item.verdict.answer), _badness(item))))

    @property
    def steps_made(self) -> list[tuple[str, int]]:
        """The optimizers of the busiest process that have stepped, each with its number of steps."""
        busiest = max(self.evidence, key=lambda item: item.steps, default=None)
        optimizers = () if busiest is None else busiest.optimizers
        return [(item.name, item.made) for item in optimizers if item.name and item.made]

    @property
    def steps(self) -> int:
        """The steps of all optimizers together, in the busiest process."""
        return max((evidence.steps for evidence in self.evidence), default=0)


def _badness(item: Judged) -> int:
    """A smaller number is worse: the program fails, learns something wrong, or wastes time and memory."""
    return 0 if item.finding.name in _FAILURES else 2 if item.finding.name in _COSTS else 1


def verify(
    command: Sequence[str],
    subjects: Sequence[Subject],
    root: Path,
    limits: Limits,
    announce: Callable[[str], None] = lambda text: None,
    launcher: Launcher = launch,
) -> Verification:
    """Run the program, if a run can judge a finding, and judge the findings; raises `LaunchError`.

    `root` is the folder of the user's own code; `announce` receives the place of the evidence while the program runs.
    """
    nothing = nothing_to_verify(command, subjects)
    return nothing if nothing is not None else run(command, subjects, root, limits, announce, launcher=launcher)


def nothing_to_verify(command: Sequence[str], subjects: Sequence[Subject]) -> Verification | None:
    """The verification of findings that no run can judge; None if there are others."""
    case = _Case.of(subjects)
    if any(claim.rule in VERIFIABLE for claim in case.claims.values()):
        return None
    return Verification(tuple(command), case.judged((), ()), None, (), (_nothing(subjects),), NOTHING_CONFIRMED)


def run(
    command: Sequence[str],
    subjects: Sequence[Subject],
    root: Path,
    limits: Limits,
    announce: Callable[[str], None],
    conditions: Conditions | None = None,
    launcher: Launcher = launch,
) -> Verification:
    """Run the program, under the conditions of a comparison if it is for one, and judge the findings."""
    case = _Case.of(subjects)
    folder = Folder()
    try:
        folder.write_plan(list(case.claims.values()), root, limits, conditions, case.watched)
        announce(f"writing evidence to {folder.path}; torchlint deletes it after the report")
        variables = {} if conditions is None else conditions.variables(os.environ)
        ended = launcher(command, folder, limits, variables)
        verification = _judged(case, folder, tuple(command), ended, limits)
        return verification if conditions is None else replace(verification, replaced=folder.replaced(conditions))
    finally:
        folder.remove()


def judge(path: Path, subjects: Sequence[Subject]) -> Verification:
    """Judge the findings by the evidence that a verification left behind when it was killed; raises `FolderError`."""
    folder = Folder.left_behind(path)
    case = _Case.of(subjects)
    if not folder.is_about(list(case.claims.values())):
        raise FolderError(f"{path} was made for other findings: have sources or options changed?")
    return _judged(case, folder, (), None, Limits())


def _nothing(subjects: Sequence[Subject]) -> str:
    if not subjects:
        return "There are no findings, so there is nothing to verify. The program did not run."
    return "No run can judge these findings. The program did not run."


@dataclass(frozen=True)
class _Case:
    """The findings, the claims of those that can be judged, and why the others cannot."""

    subjects: tuple[Subject, ...]
    claims: dict[int, Claim]
    problems: dict[int, str]

    @classmethod
    def of(cls, subjects: Sequence[Subject]) -> _Case:
        claims, problems = {}, {}
        for index, subject in enumerate(subjects):
            if subject.problem:
                problems[index] = subject.problem
                continue
            path = os.path.realpath(subject.source.path)
            try:
                claims[index] = claim(index, subject.finding, path, subject.source.data)
            except (SyntaxError, ValueError, RecursionError) as error:
                problems[index] = f"{subject.source.path} is not valid Python: {error}"
        return cls(tuple(subjects), claims, problems)

    @property
    def watched(self) -> Watched | None:
        """The checks of watched runs that judge these findings."""
        asked = {CHECKS.get(claim.rule, claim.rule) for claim in self.claims.values()}
        names = [check.name for check in checks() if check.name in asked]
        return Watched((), names) if names else None

    def read(self, path: str) -> bytes | None:
        """The data of a file with findings, by its real path."""
        found = (item.source for item in self.subjects if os.path.realpath(item.source.path) == path)
        return next((source.data for source in found), None)

    def judged(self, evidence: Sequence[Evidence], refused: Sequence[str]) -> tuple[Judged, ...]:
        """All findings with their verdicts; `refused` names the problems of evidence that could not be read."""
        return tuple(
            Judged(subject.finding, subject.source, self._verdict(index, evidence, refused))
            for index, subject in enumerate(self.subjects)
        )

    def _verdict(self, index: int, evidence: Sequence[Evidence], refused: Sequence[str]) -> Verdict:
        if index in self.problems:
            return inconclusive(self.problems[index], advice="")
        if refused and not evidence:
            return inconclusive("there is no usable evidence", advice="see the notes of the report")
        claim = self.claims[index]
        found = verdict(claim, evidence)
        if found.answer is not Answer.CONFIRMED:
            found = next((seen for item in evidence for seen in _sighted(claim, item)), found)
        together = self._on_its_line(claim)
        if found.answer is Answer.CONFIRMED and claim.rule in CHECKS and together > 1:
            reason = f"{found.reason}; the run cannot tell apart the {together} findings of this rule on the line"
            return inconclusive(reason, found.numbers, READ)
        if found.answer is Answer.NOT_REACHED and any(item.stopped for item in evidence):
            return not_reached("the run was stopped before the flagged code ran", MORE_STEPS)
        if found.advice == MORE_STEPS and not any(item.stopped for item in evidence):
            return replace(found, advice="the program ended by itself: let it train for longer")
        return found

    def _on_its_line(self, claim: Claim) -> int:
        """The number of findings of the same rule on the line of a claim: a check knows lines, and no columns."""
        places = [(item.rule, item.file, item.lines[:1]) for item in self.claims.values()]
        return places.count((claim.rule, claim.file, claim.lines[:1]))


def _sighted(claim: Claim, evidence: Evidence) -> Iterator[Verdict]:
    """The problems that the check of the same name observed at the claim's line."""
    for item in evidence.sightings:
        innermost = evidence.stacks[item.site][:1]
        at_line = any(
            evidence.files[file] == claim.file and claim.statement[0] <= line <= claim.statement[1]
            for file, line in innermost
        )
        if item.check == claim.rule and at_line:
            yield sighted(item, evidence)


def _judged(case: _Case, folder: Folder, command: tuple[str, ...], ended: Ended | None, limits: Limits) -> Verification:
    evidence, refused = folder.evidence()
    judged = case.judged(ranks.compared(evidence, branches_of(case.read)), refused)
    return conclude(command, judged, ended, evidence, refused, bool(folder.booted()), limits)


def conclude(
    command: tuple[str, ...],
    judged: tuple[Judged, ...],
    ended: Ended | None,
    evidence: Sequence[Evidence],
    refused: Sequence[str],
    booted: bool,
    limits: Limits,
    *,
    has_findings: bool = True,
) -> Verification:
    """The exit code and the notes; `booted` is whether a process has found the boot hook.

    Without findings, a program that did not train was not observed. A program that fails or makes no progress is never
    reported as correct.
    """
    if ended is not None:
        ended = replace(ended, stopped=min((item.stopped for item in evidence if item.stopped), default=""))
    seen = [item for item in evidence if (item.has_anything if has_findings else item.trains)]
    code, message = _outcome(judged, ended, evidence, seen, booted, bool(refused))
    still = () if has_findings else _standstill(ended, evidence, limits)
    if code == NOTHING_CONFIRMED and not has_findings:
        code = CONFIRMED if still else FAILED if _has_failed(ended) else code
    if (
        code == NOTHING_CONFIRMED
        and not has_findings
        and not any(item.steps or _steps_by_hand(item) for item in evidence)
    ):
        code, message = NEVER_LOADED, (_no_step(evidence),)
    said = (*message, *_notes(ended, evidence, limits), *still, *refused)
    return Verification(command, judged, ended, tuple(evidence), said, code)


def _steps_by_hand(evidence: Evidence) -> bool:
    """Whether the program changes the parameters of an optimizer itself."""
    return any(item.check == "optimizer-never-steps" for item in evidence.acquittals)


def _no_step(evidence: Sequence[Evidence]) -> str:
    """That nothing was trained, and the error that training code raised most often."""
    errors = [(one.count, one, item) for item in evidence for one in item.raised]
    count, error, of = max(errors, key=lambda pair: pair[0], default=(0, None, None))
    if error is None or of is None or count < _OFTEN:
        return "No training step was seen: no optimizer took a step."
    place = of.place(error.site)
    where = f" at {place}" if place else ""
    return f"No training step was seen: `{error.error}` was raised {count:,} times{where}, and the program continued."


def _has_failed(ended: Ended | None) -> bool:
    """Whether the program ended with an error of its own."""
    return ended is not None and bool(ended.code) and not (ended.timed_out or ended.stopped or ended.signal)


def _standstill(ended: Ended | None, evidence: Sequence[Evidence], limits: Limits) -> tuple[str, ...]:
    """The lines of the threads, if the program made no step in the last half of its time."""
    if ended is None or not ended.timed_out or ended.is_stuck:
        return ()
    training = [item for item in evidence if item.trains] or evidence
    idle = min((item.idle for item in training), default=0.0)
    if idle < limits.max_seconds / 2:
        return ()
    threads = [(item, one) for item in training for one in item.standing]
    places = [f"{item.of_rank}{one.thread} at {item.place(one.site)}" for item, one in threads[:_THREADS]]
    where = f": {', '.join(places)}" if places else ""
    return (f"No step has ended in the last {idle:.0f} of {limits.max_seconds:g} seconds{where}.",)


def _outcome(
    judged: Sequence[Judged],
    ended: Ended | None,
    evidence: Sequence[Evidence],
    seen: Sequence[Evidence],
    booted: bool,
    is_explained: bool,
) -> tuple[int, tuple[str, ...]]:
    """The exit code, and a sentence that explains it if it is not about findings and no note does.

    `seen` is the evidence that is not empty.
    """
    confirmed = any(item.verdict.answer is Answer.CONFIRMED for item in judged)
    if ended is not None and ended.signal:
        return 128 + ended.signal, (f"The verification was {ended.description}: the report is incomplete.",)
    if not booted:
        return NEVER_LOADED, (
            "The probe never loaded: the program is not Python, or Python runs in isolated mode (-I, -E or -S).",
        )
    if confirmed:
        return CONFIRMED, ()
    if is_explained and not evidence:
        return NEVER_LOADED, ()
    if not seen:
        if ended is not None and ended.code and not ended.timed_out:
            return FAILED, (f"The program failed before torchlint could observe anything ({ended.description}).",)
        if not evidence:
            return NEVER_LOADED, (
                "The probe never loaded: the program did not import torch. Is it installed for the Python "
                'that runs it? `pip install "torchlint[verify]"` installs it.',
            )
    return NOTHING_CONFIRMED, ()


def _error(evidence: Evidence) -> str:
    """The error that ended a process, and its line."""
    place = evidence.place(evidence.error_site)
    return f"{evidence.of_rank}{evidence.error}{f' ({place})' if place else ''}"


def _notes(ended: Ended | None, evidence: Sequence[Evidence], limits: Limits) -> list[str]:
    notes = []
    stopped = min((item.stopped for item in evidence if item.stopped), default="")
    if stopped:
        notes.append(f"The program was stopped after {stopped}: files saved at its end are from a truncated run.")
    if ended is None:
        notes.append("The verification was killed before its report: this report may be incomplete.")
    elif ended.is_stuck:
        notes.append("The program was stopped, because its ranks waited for calls that never come.")
    elif ended.timed_out:
        notes.append(f"The program did not end within {limits.max_seconds:g} seconds and was stopped.")
    elif not stopped and ended.code and not ended.signal:
        failed = sorted((item for item in evidence if item.error), key=lambda item: is_lost(item.error))
        errors = [_error(item) for item in failed]
        notes.append(f"The program failed with {ended.description}{': ' + errors[0] if errors else ''}.")
    notes += [f"The probe had a problem: {item.trouble}." for item in evidence if item.trouble]
    unwatched = sorted({item.unwatched for item in evidence if item.unwatched})
    notes += [f"Flagged lines could not be watched: {reason}." for reason in unwatched]
    return notes

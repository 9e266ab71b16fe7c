"""One verification: findings and a command in, verdicts out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchlint.finding import Finding
from torchlint.source import SourceFile
from torchlint.verify.claims import Claim, claim
from torchlint.verify.evidence import Evidence
from torchlint.verify.folder import Folder, FolderError, Limits
from torchlint.verify.launch import Ended, launch
from torchlint.verify.verdict import VERIFIABLE, Answer, Verdict, inconclusive, verdict

NOTHING_CONFIRMED, CONFIRMED, USAGE, NEVER_LOADED, FAILED_EARLY = range(5)


@dataclass(frozen=True)
class Subject:
    """A finding to verify, the text that it is about, and why it cannot be judged; empty where it can."""

    finding: Finding
    source: SourceFile
    problem: str = ""


@dataclass(frozen=True)
class Judged:
    """A finding with its verdict."""

    finding: Finding
    source: SourceFile
    verdict: Verdict


@dataclass(frozen=True)
class Verification:
    """What came out: a verdict for each finding, in the order given; and how the program ended."""

    command: tuple[str, ...]
    judged: tuple[Judged, ...]
    ended: Ended | None
    """None if its end was not seen: there was nothing to verify, or only evidence to judge."""
    evidence: tuple[Evidence, ...]
    notes: tuple[str, ...]
    """What the user should know, in sentences."""
    exit_code: int

    def count(self, answer: Answer) -> int:
        return sum(item.verdict.answer is answer for item in self.judged)

    @property
    def steps(self) -> int:
        return max((evidence.steps for evidence in self.evidence), default=0)


def verify(
    command: Sequence[str],
    subjects: Sequence[Subject],
    root: Path,
    limits: Limits,
    announce: Callable[[str], None] = lambda text: None,
) -> Verification:
    """Run the program and judge the findings; raises `LaunchError`.

    `root` is the folder of the user's own code; `announce` is told where the evidence is while the program runs.
    """
    claims, problems = _claims(subjects)
    if not any(claim.rule in VERIFIABLE for claim in claims.values()):
        judged = [_unjudged(index, subject, claims, problems) for index, subject in enumerate(subjects)]
        return Verification(tuple(command), tuple(judged), None, (), (_nothing(subjects),), NOTHING_CONFIRMED)
    folder = Folder()
    try:
        folder.write_plan(list(claims.values()), root, limits)
        announce(f"evidence is in {folder.path} until the report")
        ended = launch(command, folder, limits)
        return _judged(command, subjects, folder, ended, limits)
    finally:
        folder.remove()


def judge(path: Path, subjects: Sequence[Subject]) -> Verification:
    """Judge the findings by the evidence that a verification left behind when it was killed; raises `FolderError`."""
    folder = Folder.left_behind(path)
    claims, _ = _claims(subjects)
    if not folder.is_about(list(claims.values())):
        raise FolderError(f"the findings are not those that {path} was made for: have sources or options changed?")
    return _judged((), subjects, folder, None, Limits())


def _judged(
    command: Sequence[str], subjects: Sequence[Subject], folder: Folder, ended: Ended | None, limits: Limits
) -> Verification:
    claims, problems = _claims(subjects)
    evidence, refused = folder.evidence()
    judged = []
    for index, subject in enumerate(subjects):
        found = _verdict(index, claims, problems, evidence)
        if refused and not evidence:
            found = inconclusive("the evidence was refused")
        judged.append(Judged(subject.finding, subject.source, found))
    code, message = _outcome(judged, ended, evidence, bool(folder.booted()))
    said = [*message, *_notes(ended, evidence, limits), *refused]
    return Verification(tuple(command), tuple(judged), ended, tuple(evidence), tuple(said), code)


def _nothing(subjects: Sequence[Subject]) -> str:
    if not subjects:
        return "There are no findings, so there is nothing to verify, and the program was not run."
    return "None of the findings can be verified, and the program was not run."


def _claims(subjects: Sequence[Subject]) -> tuple[dict[int, Claim], dict[int, str]]:
    """The claims of the findings that can be judged, and why the others cannot."""
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
    return claims, problems


def _verdict(index: int, claims: dict[int, Claim], problems: dict[int, str], evidence: Sequence[Evidence]) -> Verdict:
    if index in problems:
        return inconclusive(problems[index])
    return verdict(claims[index], evidence)


def _unjudged(index: int, subject: Subject, claims: dict[int, Claim], problems: dict[int, str]) -> Judged:
    return Judged(subject.finding, subject.source, _verdict(index, claims, problems, ()))


def _outcome(
    judged: Sequence[Judged], ended: Ended | None, evidence: Sequence[Evidence], booted: bool
) -> tuple[int, tuple[str, ...]]:
    """The exit code, and the sentence that explains one that is not about findings."""
    confirmed = any(item.verdict.answer is Answer.CONFIRMED for item in judged)
    if ended is not None and ended.signal:
        return 128 + ended.signal, (f"The verification was {ended.description}; this is what was seen until then.",)
    if not booted:
        return NEVER_LOADED, (
            "The probe never loaded: the program is not Python, or Python runs isolated (-I, -E or -S).",
        )
    if confirmed:
        return CONFIRMED, ()
    if not any(item.has_anything for item in evidence):
        if ended is not None and ended.code and not ended.timed_out:
            return FAILED_EARLY, (f"The program failed before anything could be seen ({ended.description}).",)
        if not evidence:
            return NEVER_LOADED, (
                "The probe never loaded: the program did not import torch. Is it installed for the Python "
                'that runs it? `pip install "torchlint[verify]"` installs it.',
            )
    return NOTHING_CONFIRMED, ()


def _notes(ended: Ended | None, evidence: Sequence[Evidence], limits: Limits) -> list[str]:
    notes = []
    stopped = sorted({item.stopped for item in evidence if item.stopped})
    if stopped:
        notes.append(f"The program was stopped after {stopped[0]}: what it saved at its end is of a truncated run.")
    if ended is None:
        notes.append("The verification was killed before its report; this is what was seen until then.")
    elif ended.timed_out:
        notes.append(f"The program did not end within {limits.max_seconds:g} seconds and was stopped.")
    elif not stopped and ended.code and not ended.signal:
        errors = [item.error for item in evidence if item.error]
        notes.append(f"The program failed with {ended.description}{': ' + errors[0] if errors else ''}.")
    notes += [f"The probe had a problem: {item.trouble}." for item in evidence if item.trouble]
    unwatched = sorted({item.unwatched for item in evidence if item.unwatched})
    notes += [f"Flagged lines could not be watched: {reason}." for reason in unwatched]
    return notes

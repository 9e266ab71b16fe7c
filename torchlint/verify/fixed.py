"""A verification of the program with and without its fixes, and the proofs of the fixes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchlint.finding import Safety
from torchlint.verify.comparison import Comparison, comparable, first_difference
from torchlint.verify.evidence import Evidence
from torchlint.verify.folder import Conditions, Limits
from torchlint.verify.moving import Move
from torchlint.verify.proof import Outcome, Proof, Run, prove
from torchlint.verify.session import NEVER_LOADED, Judged, Subject, Verification, nothing_to_verify, run
from torchlint.verify.verdict import Answer, Verdict, strongest

SEED = 0
"""The seed for programs that do not seed themselves."""

AS_IT_IS, WITH_FIXES = "as it is", "with the fixes"


def verify_fixed(
    command: Sequence[str],
    subjects: Sequence[Subject],
    root: Path,
    limits: Limits,
    announce: Callable[[str], None],
    pairs: int = 1,
) -> Verification:
    """Run the program as it is and with the fixes, alternately, `pairs` times, and judge findings and fixes.

    The verdicts and the exit code are those of the program as it is. Raises `LaunchError`.
    """
    nothing = nothing_to_verify(command, subjects)
    if nothing is not None:
        return nothing
    trial = _Trial(command, subjects, root, limits, announce)
    if not trial.texts:
        verification = run(command, subjects, root, limits, announce)
        note = "torchlint has no fix for these findings: the program ran once, as it is."
        return replace(verification, judged=_unfixed(verification), notes=(*verification.notes, note))
    trial.run(pairs)
    return trial.verification()


def _unfixed(verification: Verification) -> tuple[Judged, ...]:
    return tuple(replace(item, proof=_no_fix(item.finding.fix is not None)) for item in verification.judged)


def _no_fix(exists: bool) -> Proof:
    return Proof(
        Outcome.NO_FIX, "torchlint cannot make its fix here" if exists else "torchlint has no fix for this finding"
    )


def _unproven(verdict: Verdict, reason: str) -> Proof:
    if verdict.answer is not Answer.CONFIRMED:
        return Proof(Outcome.NOTHING_TO_PROVE, f"{verdict.answer.value} as it is")
    return Proof(Outcome.NOT_PROVEN, reason)


@dataclass
class _Trial:
    """The runs of both forms of the program."""

    command: Sequence[str]
    subjects: Sequence[Subject]
    root: Path
    limits: Limits
    announce: Callable[[str], None]
    order: list[str] = field(default_factory=list)
    before: list[Verification] = field(default_factory=list)
    after: list[Verification] = field(default_factory=list)

    @property
    def texts(self) -> dict[str, bytes]:
        return {_path(item): item.fixed.data for item in self.subjects if item.fixed is not None}

    @property
    def _signal(self) -> int:
        """The signal that ended a run, and with it the verification; or 0."""
        return max((ran.ended.signal for ran in (*self.before, *self.after) if ran.ended is not None), default=0)

    def run(self, pairs: int) -> None:
        """Run both forms alternately, as long as there is something to compare."""
        turns = [(AS_IT_IS, WITH_FIXES), (WITH_FIXES, AS_IT_IS)]
        for name in [name for pair in range(pairs) for name in turns[pair % 2]]:
            ran = self._run_one(name)
            if ran.ended is None or ran.ended.signal or ran.exit_code == NEVER_LOADED:
                return

    def _run_one(self, name: str) -> Verification:
        self.announce(f"the program {name}")
        fixed = name == WITH_FIXES
        conditions = Conditions(SEED, self.texts if fixed else {})
        subjects = _moved(self.subjects) if fixed else self.subjects
        ran = run(self.command, subjects, self.root, self.limits, self.announce, conditions)
        self.order.append(name)
        (self.after if fixed else self.before).append(ran)
        return ran

    def verification(self) -> Verification:
        """The verification with verdicts, proofs and the comparison."""
        first = self.before[0]
        judged = [
            replace(item, verdict=verdict) for item, verdict in zip(first.judged, _said(self.before), strict=True)
        ]
        if not self.after:
            proofs = self._without(judged, "the program did not run with the fixes")
            return replace(first, judged=_with(judged, proofs))
        last = self.after[-1]
        notes = [*first.notes, *(f"With the fixes: {note}" for note in last.notes if note not in first.notes)]
        notes += self._fault()
        assert last.ended is not None, "a run ends"
        before, after = _evidence(self.before), _evidence(self.after)
        comparison = Comparison(tuple(self.order), SEED, before, after, last.ended)
        return replace(
            first,
            judged=_with(judged, self._proofs(judged)),
            notes=(*notes, *comparison.notes),
            exit_code=128 + self._signal if self._signal else first.exit_code,
            comparison=comparison,
        )

    def _proofs(self, judged: Sequence[Judged]) -> list[Proof]:
        replaced = {path for ran in self.after for path in ran.replaced}
        fixed = [number for number, item in enumerate(self.subjects) if item.fixed and _path(item) in replaced]
        said = _said(self.after)
        proofs = prove(
            [judged[number].verdict for number in fixed],
            Run(_evidence(self.before), _failure(self.before[-1])),
            [said[number] for number in fixed],
            Run(_evidence(self.after), _failure(self.after[-1])),
        )
        proven = dict(zip(fixed, proofs, strict=True))
        unproven = self._without(judged, "the program loaded its file in a way that bypasses the fix")
        return [proven.get(number, proof) for number, proof in enumerate(unproven)]

    def _without(self, judged: Sequence[Judged], reason: str) -> list[Proof]:
        """The reason for each finding whose fix did not run."""
        return [
            _unproven(item.verdict, reason) if subject.fixed is not None else _no_fix(item.finding.fix is not None)
            for item, subject in zip(judged, self.subjects, strict=True)
        ]

    def _fault(self) -> list[str]:
        """Whether safe fixes changed no number, as promised. If numbers differ, the program itself may cause it."""
        fixes = [item.finding.fix for item in self.subjects if item.fixed is not None]
        if not all(fix is not None and fix.safety is Safety.SAFE for fix in fixes):
            return []
        before, after = self.before[0], self.after[0]
        pairs = comparable(before.evidence, after.evidence)
        steps = max((min(one.steps, other.steps) for one, other in pairs), default=0)
        if not steps or not after.replaced or self._signal:
            return []
        step = first_difference(pairs)
        if step is None:
            return [f"The fixes are safe: they changed no loss or gradient norm in {steps:,} steps."]
        again = self._run_one(AS_IT_IS)
        if first_difference(comparable(before.evidence, again.evidence)) is not None:
            return ["Losses and gradient norms differ, but they also differ between runs without the fixes."]
        return [
            f"From step {step:,} on, losses or gradient norms differ with the fixes, although all fixes are "
            "safe. This is a bug in torchlint: please report it."
        ]


def _path(subject: Subject) -> str:
    return os.path.realpath(subject.source.path)


def _moved(subjects: Sequence[Subject]) -> list[Subject]:
    """The findings at their places in the fixed files."""
    moves = {_path(item): Move(item.source, item.fixed) for item in subjects if item.fixed is not None}
    return [_moved_one(item, moves.get(_path(item))) for item in subjects]


def _moved_one(subject: Subject, move: Move | None) -> Subject:
    if move is None or subject.problem:
        return subject
    finding = move.finding(subject.finding)
    if finding is None:
        return replace(subject, source=move.after, problem="the fixes delete the flagged line")
    return replace(subject, finding=finding, source=move.after)


def _said(verifications: Sequence[Verification]) -> list[Verdict]:
    """The verdict about each finding from all runs of one form of the program."""
    every = zip(*([item.verdict for item in ran.judged] for ran in verifications), strict=True)
    return [strongest(verdicts) for verdicts in every]


def _evidence(verifications: Sequence[Verification]) -> tuple[Evidence, ...]:
    return tuple(item for ran in verifications for item in ran.evidence)


def _with(judged: Sequence[Judged], proofs: Sequence[Proof]) -> tuple[Judged, ...]:
    return tuple(replace(item, proof=proof) for item, proof in zip(judged, proofs, strict=True))


def _failure(verification: Verification) -> str:
    """How the program failed or was interrupted; empty if it ended without an error or used up its budget."""
    ended = verification.ended
    if ended is not None and ended.signal:
        return ended.description
    if ended is None or not ended.code or ended.timed_out or any(item.stopped for item in verification.evidence):
        return ""
    errors = [item.error for item in verification.evidence if item.error]
    return f"{ended.description}{': ' + errors[0] if errors else ''}"

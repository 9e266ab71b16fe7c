"""Whether a fix removes its defect, decided by the evidence with and without it. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from torchlint.verify.evidence import Evidence
from torchlint.verify.verdict import Answer, Verdict, times

ENOUGH_STEPS = 3
"""The minimum number of steps of the fixed program, if the original one failed immediately."""


class Outcome(str, Enum):
    """The outcome of a finding's fix."""

    PROVEN = "proven"
    NOT_PROVEN = "not-proven"
    NOTHING_TO_PROVE = "nothing-to-prove"
    NO_FIX = "no-fix"


@dataclass(frozen=True)
class Proof:
    """An outcome, and the reason in one sentence."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Run:
    """The observations from a run of one form of the program."""

    evidence: Sequence[Evidence]
    failure: str = ""
    """How the program failed; empty if it did not."""

    @property
    def steps(self) -> int:
        return max((item.steps for item in self.evidence), default=0)

    def total(self, measure: Measure) -> float:
        """The largest value in any process."""
        return max(map(measure.of, self.evidence), default=0)


@dataclass(frozen=True)
class Measure:
    """A symptom that is counted in the whole process, whatever its source."""

    what: str
    of: Callable[[Evidence], float]


def _errors(evidence: Evidence) -> float:
    at_lines = sum(sum(change.errors.values()) for change in evidence.changes)
    return at_lines + sum(sum(item.errors.values()) for item in evidence.backwards)


def _failed(evidence: Evidence) -> float:
    return sum(sum(item.errors.values()) for item in evidence.backwards)


MEASURES: Mapping[str, Measure] = {
    "retained": Measure("retained graphs", lambda evidence: sum(item.retained for item in evidence.backwards)),
    "calls": Measure("calls of empty_cache", lambda evidence: sum(item.calls for item in evidence.caches)),
    "steps_on": Measure("steps with anomaly detection", lambda evidence: evidence.anomaly.steps_on),
    "errors": Measure("errors", _errors),
    "failed_backwards": Measure("failed backwards", _failed),
    "parameters": Measure(
        "parameters without a gradient", lambda evidence: sum(item.without_gradient for item in evidence.optimizers)
    ),
}
"""By the name of the verdict's number that counts the same at the flagged code. A fix that removes this code leaves
nothing to judge there, so the count of the whole process must fall by that number."""


def prove(befores: Sequence[Verdict], before: Run, afters: Sequence[Verdict], after: Run) -> list[Proof]:
    """The proofs of fixes that were made together, from the verdicts about their findings before and after."""
    allowed = _allowed(befores, before)
    return [_proof(pair, before, after, allowed) for pair in zip(befores, afters, strict=True)]


def _allowed(befores: Sequence[Verdict], before: Run) -> dict[str, float]:
    """The allowed rest of each symptom: everything that does not come from fixed code."""
    return {
        name: max(0, before.total(measure) - sum(item.numbers.get(name, 0) for item in befores if _is_confirmed(item)))
        for name, measure in MEASURES.items()
    }


def _is_confirmed(verdict: Verdict) -> bool:
    return verdict.answer is Answer.CONFIRMED


def _proof(pair: tuple[Verdict, Verdict], before: Run, after: Run, allowed: Mapping[str, float]) -> Proof:
    was, now = pair
    if _is_confirmed(now):
        return Proof(Outcome.NOT_PROVEN, f"still confirmed with the fix: {now.reason}")
    if not _is_confirmed(was):
        return Proof(Outcome.NOTHING_TO_PROVE, f"{was.answer.value} as it is")
    if after.failure and (not before.failure or after.steps < ENOUGH_STEPS):
        return Proof(Outcome.NOT_PROVEN, f"the program failed with the fixes: {after.failure}")
    needed = max(before.steps, ENOUGH_STEPS)
    if after.steps < needed:
        return Proof(
            Outcome.NOT_PROVEN, f"with the fixes it took {times(after.steps, 'step')}, but {needed:,} are needed"
        )
    if now.answer is Answer.REFUTED:
        if now.numbers.get("summed_steps"):
            return Proof(Outcome.PROVEN, f"this evidence is gone, check whether the sum is intended: {now.reason}")
        return Proof(Outcome.PROVEN, now.reason)
    return _by_measure(was, now, before, after, allowed)


def _by_measure(was: Verdict, now: Verdict, before: Run, after: Run, allowed: Mapping[str, float]) -> Proof:
    for name, measure in MEASURES.items():
        if not was.numbers.get(name):
            continue
        had, has = before.total(measure), after.total(measure)
        seen = f"{measure.what}: {had:,.0f} before, {has:,.0f} after"
        if has <= allowed[name]:
            return Proof(Outcome.PROVEN, f"{seen}, in {times(after.steps, 'step')}")
        return Proof(Outcome.NOT_PROVEN, seen)
    return Proof(Outcome.NOT_PROVEN, f"{now.answer.value} with the fix: {now.reason}")

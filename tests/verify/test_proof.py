"""A proof has enough evidence, finds findings in fixed text, and detects a safe fix that broke its promise."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore]
import pytest

from torchlint.files.source import SourceFile
from torchlint.finding import Edit, Finding, Fix, Position, Safety, Severity, Span
from torchlint.verify import fixed
from torchlint.verify.comparison import Comparison, comparable, first_difference
from torchlint.verify.evidence import Evidence
from torchlint.verify.evidence_file import from_json
from torchlint.verify.folder import Limits
from torchlint.verify.launch import Ended
from torchlint.verify.moving import Move
from torchlint.verify.proof import Outcome, Proof, Run, prove
from torchlint.verify.reports import FORMATS, render
from torchlint.verify.reports import html as page
from torchlint.verify.session import Judged, Subject, Verification
from torchlint.verify.verdict import confirmed, inconclusive, refuted

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "verify-report.schema.json").read_text("utf-8"))
SAFE = Fix("use `.detach()`", (Edit(Span(Position(1, 0), Position(1, 0)), ""),), Safety.SAFE)


def evidence(steps: int = 40, calls: int = 0, losses: Sequence[float] = (), errors: int = 0) -> Evidence:
    empty: dict[str, Any] = {field.name: [] for field in dataclasses.fields(Evidence)}
    texts = dict.fromkeys(("status", "stopped", "error", "trouble", "unwatched"), "")
    process = {"pid": 7, "rank": "", "python": "3.12.1", "torch": "2.13.0", "device": "cpu", "compiled": 0}
    anomaly = {
        "on_sites": [],
        "off_sites": [],
        "library_sites": [],
        "steps_on": 0,
        "steps_off": 0,
        "on_ms": [],
        "off_ms": [],
    }
    backwards = [{"site": 0, "count": 9, "retained": 0, "errors": {"an error": errors}, "first_error": 0}]
    own = {
        "format": 1,
        "seconds": 1.0,
        "error_site": 0,
        "raised": [],
        "idle": 0.0,
        "steps": steps,
        "stride": 1,
        "process": process,
        "anomaly": anomaly,
        "stacks": [[]],
        "caches": [{"site": 0, "calls": calls, "seconds": 0.1, "released": 9}],
        "backwards": backwards * bool(errors),
        "series": [{"step": step, "loss": loss} for step, loss in enumerate(losses, 1)],
    }
    return from_json({**empty, **texts, **own}, "test")


EMPTIED = confirmed("40 calls", {"calls": 40}, 0)
GONE = inconclusive("the fixes delete the flagged line")
PROOFS = {
    "gone": (EMPTIED, Run([evidence(calls=40)]), GONE, Run([evidence()]), Outcome.PROVEN),
    "others are left": (EMPTIED, Run([evidence(calls=80)]), GONE, Run([evidence(calls=40)]), Outcome.PROVEN),
    "still there": (EMPTIED, Run([evidence(calls=40)]), GONE, Run([evidence(calls=1)]), Outcome.NOT_PROVEN),
    "fewer steps": (EMPTIED, Run([evidence(calls=40)]), GONE, Run([evidence(39)]), Outcome.NOT_PROVEN),
    "failed": (EMPTIED, Run([evidence(calls=40)]), GONE, Run([evidence()], "exit code 1"), Outcome.NOT_PROVEN),
    "refuted": (confirmed("", {}), Run([evidence()]), refuted("", {}), Run([evidence()]), Outcome.PROVEN),
    "undecided": (confirmed("", {}), Run([evidence()]), GONE, Run([evidence()]), Outcome.NOT_PROVEN),
    "confirmed": (EMPTIED, Run([evidence()]), EMPTIED, Run([evidence()]), Outcome.NOT_PROVEN),
    "made worse": (refuted("", {}), Run([evidence()]), EMPTIED, Run([evidence()]), Outcome.NOT_PROVEN),
    "was not true": (refuted("", {}), Run([evidence()]), refuted("", {}), Run([evidence()]), Outcome.NOTHING_TO_PROVE),
    "an error that ended it": (
        confirmed("", {"errors": 1}),
        Run([evidence(0, errors=1)], "exit code 1"),
        inconclusive("nothing changed"),
        Run([evidence(3)]),
        Outcome.PROVEN,
    ),
    "it runs no further": (
        confirmed("", {"errors": 1}),
        Run([evidence(0, errors=1)], "exit code 1"),
        inconclusive("nothing changed"),
        Run([evidence(2)], "exit code 1"),
        Outcome.NOT_PROVEN,
    ),
}


@pytest.mark.parametrize("name", PROOFS)
def test_a_proof(name: str) -> None:
    was, before, now, after, outcome = PROOFS[name]
    assert [proof.outcome for proof in prove([was], before, [now], after)] == [outcome]


def test_a_sum_that_is_left_is_no_proof_that_the_program_is_right() -> None:
    """Both backwards of sharpness-aware minimization still add up."""
    cleared = refuted("none used stale gradients", {"summed_steps": 40})
    (proof,) = prove([confirmed("", {})], Run([evidence()]), [cleared], Run([evidence()]))
    assert proof.outcome is Outcome.PROVEN
    assert proof.reason.startswith("this evidence is gone")


def test_half_of_a_symptom_proves_neither_of_two_fixes() -> None:
    proofs = prove([EMPTIED, EMPTIED], Run([evidence(calls=80)]), [GONE, GONE], Run([evidence(calls=40)]))
    assert {proof.outcome for proof in proofs} == {Outcome.NOT_PROVEN}


MOVES = [
    ("a\nloss.backward(retain_graph=True)\n", "a\nb\nloss.backward()\n", 2, 0, (3, 0)),
    ("with off():\n    step()\n    more()\n", "step()\nmore()\n", 3, 4, (2, 0)),
    ("    a(); loss.backward()\n", "    a(); zero(); loss.backward()\n", 1, 9, (1, 17)),
    ("total += loss\n", "total += loss.item()\n", 1, 0, (1, 0)),
    ("a()\ntorch.cuda.empty_cache()\nb()\n", "a()\nb()\n", 2, 0, None),
    ("x.relu_()\n", "x = x.relu()\n", 1, 0, (1, 0)),
]


@pytest.mark.parametrize(("before", "after", "line", "column", "moved"), MOVES)
def test_a_finding_moves(before: str, after: str, line: int, column: int, moved: tuple[int, int] | None) -> None:
    sources = [SourceFile("train.py", text.encode()) for text in (before, after)]
    span = Span(Position(line, column), Position(line, column + 1))
    found = Move(*sources).finding(Finding("train.py", "x", "TL000", "", span, Severity.ERROR))
    assert (found and (found.span.start.line, found.span.start.column)) == moved


@pytest.mark.parametrize(
    ("one", "other", "step"),
    [([1, 2, 3], [1, 2, 3], None), ([1, 2, 3], [1, 2.5, 3], 2), ([1, 2], [1, 2, 3], None), ([1, 2], [1], 2)],
)
def test_the_first_difference(one: list[float], other: list[float], step: int | None) -> None:
    """A step that both made counts, if only one of them has a loss there."""
    steps = max(len(one), 2)
    longer = max(len(other), 2)
    pairs = comparable([evidence(steps, losses=one)], [evidence(longer, losses=other)])
    assert first_difference(pairs) == step


def test_processes_that_cannot_be_told_apart_are_not_compared() -> None:
    assert comparable([evidence()], [evidence(), evidence()]) == []


def trial(
    monkeypatch: pytest.MonkeyPatch, runs: Sequence[Sequence[float]], safety: Safety, pairs: int = 1
) -> Verification:
    """A verification with one fix, of a program whose runs have these losses."""
    left = list(runs)
    replaced = frozenset([str(Path("train.py").resolve())])

    def run(command: Any, subjects: Sequence[Subject], *arguments: Any) -> Verification:
        judged = tuple(Judged(item.finding, item.source, refuted("", {})) for item in subjects)
        return Verification(("python",), judged, Ended(0, 1.0), (evidence(3, losses=left.pop(0)),), (), 0, replaced)

    monkeypatch.setattr(fixed, "run", run)
    span = Span(Position(1, 0), Position(1, 1))
    fix = dataclasses.replace(SAFE, safety=safety)
    finding = Finding("train.py", "undetached-accumulation", "TL201", "", span, Severity.ERROR, fix=fix)
    source = SourceFile("train.py", b"kept.append(loss)\n")
    subject = Subject(finding, source, fixed=SourceFile("train.py", b"kept.append(loss.detach())\n"))
    verification = fixed.verify_fixed(["python"], [subject], Path(), Limits(), print, pairs)
    assert not left
    return verification


@pytest.mark.parametrize(
    ("runs", "safety", "note"),
    [
        ([[1, 2, 3], [1, 2, 3]], Safety.SAFE, "they changed no loss or gradient norm"),
        ([[1, 2, 3], [1, 2, 4], [1, 2, 3]], Safety.SAFE, "From step 3 on"),
        ([[1, 2, 3], [1, 2, 4], [1, 2, 5]], Safety.SAFE, "they also differ between runs without the fixes"),
        ([[1, 2, 3], [1, 2, 4]], Safety.UNSAFE, ""),
    ],
)
def test_a_safe_fix_changes_no_number(
    monkeypatch: pytest.MonkeyPatch, runs: list[list[float]], safety: Safety, note: str
) -> None:
    notes = " ".join(trial(monkeypatch, runs, safety).notes)
    assert note in notes
    assert ("bug in torchlint" in notes) == note.startswith("From")


def test_pairs_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = trial(monkeypatch, [[1], [2], [3], [4]], Safety.UNSAFE, pairs=2).comparison
    assert comparison is not None
    assert comparison.order == ("as it is", "with the fixes", "with the fixes", "as it is")
    losses = [[item.series[0]["loss"] for item in form] for form in (comparison.before, comparison.after)]
    assert losses == [[1, 4], [2, 3]]


def test_every_report_tells_of_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = trial(monkeypatch, [[1, 2, 3], [1, 2, -4]], Safety.UNSAFE)
    judged = dataclasses.replace(plain.judged[0], proof=Proof(Outcome.NOT_PROVEN, "still <there>"))
    verification = dataclasses.replace(plain, judged=(judged,))
    texts = {name: render(name, verification, False) for name in FORMATS}
    jsonschema.validate(json.loads(texts["json"]), SCHEMA, jsonschema.Draft202012Validator)
    assert "fix not-proven (unsafe: use `.detach()`): still <there>" in texts["text"]
    assert ["last", "loss", "3", "-4"] in [line.split() for line in texts["text"].splitlines()]
    assert json.loads(texts["sarif"])["runs"][0]["results"][0]["properties"]["fix"]["outcome"] == "not-proven"
    pytest.importorskip("matplotlib")
    html = page.render(verification)
    assert "still &lt;there&gt;" in html
    assert 'id="comparison-0-curve-1"' in html


def timed(milliseconds: float, **series: list[float]) -> Evidence:
    """A run whose steps took so long, with more numbers of each step."""
    columns = [dict(zip(series, row, strict=True)) for row in zip(*series.values(), strict=True)] or [{}] * 12
    return dataclasses.replace(
        evidence(12), series=[{"step": step, "ms": milliseconds, **row} for step, row in enumerate(columns, 1)]
    )


def compared(before: list[Evidence], after: list[Evidence]) -> Comparison:
    return Comparison((), 0, tuple(before), tuple(after), Ended(0, 1.0))


@pytest.mark.parametrize(
    ("before", "after", "is_shown"),
    [
        ([163], [190], False),
        ([163, 170], [190, 186], True),
        ([163, 188], [190, 186], False),
        ([190, 186], [163], False),
    ],
)
def test_step_times_are_shown_where_pairs_agree(before: list[float], after: list[float], is_shown: bool) -> None:
    names = [item.name for item in compared(list(map(timed, before)), list(map(timed, after))).quantities]
    assert ("step time, median" in names) == is_shown


def test_graphs_that_come_and_go_do_not_grow() -> None:
    up_and_down = timed(1, graphs=[float(step % 5) for step in range(12)])
    growing = timed(1, graphs=[2.0 * step for step in range(12)])
    flat = timed(1, graphs=[3.0] * 12)
    name = "extra live graphs per step"
    grown = [item for item in compared([growing], [up_and_down]).quantities if item.name == name]
    assert [(item.before, item.after) for item in grown] == [(2, 0)]
    assert name not in [item.name for item in compared([up_and_down], [flat]).quantities]


def test_a_loss_that_rises_with_the_fixes_is_said() -> None:
    rising = timed(1, loss=[0.5 * 1000.0**step for step in range(12)])
    falling = timed(1, loss=[1.0 / step for step in range(1, 13)])
    (note,) = compared([rising], [rising]).notes
    assert "rises from 0.5 to 5e+32" in note
    assert not compared([rising], [falling]).notes

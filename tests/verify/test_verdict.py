"""Verdicts from evidence alone: torch is not needed, and hard evidence is never talked away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from torchlint.verify.claims import Claim
from torchlint.verify.evidence import (
    Anomaly,
    Backwards,
    Changed,
    Cleared,
    Cut,
    Emptied,
    Evidence,
    Forward,
    Kept,
    Observed,
    Optimizer,
    Process,
    Read,
    Retained,
    Standing,
)
from torchlint.verify.folder import Limits
from torchlint.verify.launch import Ended
from torchlint.verify.session import conclude
from torchlint.verify.verdict import VERIFIABLE, Answer, verdict

FILE = "/project/train.py"
OPTIMIZER = Optimizer(
    name="SGD",
    parameters=4,
    trainable=4,
    without_gradient=0,
    contested=False,
    made=20,
    steps=[[1, 20]],
    evaluations=[],
    stale=[],
    wiped=[],
    hungry=[],
    leftover=[],
    added=[[1, 20]],
    added_stale=[],
    first_stale=-1,
    summed=0,
    clears=19,
    lost=0,
    moved=3,
    still=0,
    unmoved=0,
    ratios=[],
)
KEPT = Kept(
    claim=0,
    visits=20,
    backwards=list(range(20)),
    steps=list(range(20)),
    lives=[],
    tensors=20,
    clean=0,
    graphs=19,
    container="list",
    emptied=False,
    shown="losses",
    bound=-1,
    holder="",
    weights=[],
)
CLEARED = Cleared(claim=0, visits=20, optimizers=[[0, 19]], robbed=0, parameters=0, starved=0, first=-1)
CHANGED = Changed(
    claim=0,
    hits=10,
    bumps=10,
    tracked=10,
    passed=10,
    share=1.0,
    leaves=0,
    silent={},
    untried=0,
    errors={},
    matched={},
    first_error=-1,
    backwards_after=10,
)
ANOMALY = Anomaly(on_sites=[], off_sites=[], library_sites=[], steps_on=0, steps_off=20, on_ms=[], off_ms=[])


def claim(rule: str, **fields: Any) -> Claim:
    """A claim about line 5 of a file, in a function from line 1 to 9."""
    given: dict[str, Any] = {
        "index": 0,
        "rule": rule,
        "file": FILE,
        "statement": (5, 5),
        "reach": (5, 5),
        "lines": ((5, 5),),
        "scope": (1, 9),
        "blocks": ((5, 7),),
        **fields,
    }
    return Claim(**given)


def seen(**fields: Any) -> Evidence:
    """Evidence of 20 steps on a CPU, in which site 1 is line 5, site 2 line 8, and site 3 line 50."""
    given: dict[str, Any] = {
        "format": 1,
        "process": Process(1, "", "3.12.1", "2.13.0", "cpu", 0),
        "status": "finished",
        "stopped": "",
        "error": "",
        "compiling": [],
        "trouble": "",
        "seconds": 1.0,
        "steps": 20,
        "files": [FILE],
        "stacks": [[], [[0, 5]], [[0, 8]], [[0, 50]]],
        "backwards": [Backwards(1, 20, 0, {}, 0)],
        "optimizers": [OPTIMIZER],
        "forwards": [],
        "reads": [],
        "cuts": [],
        "retention": [],
        "caches": [],
        "anomaly": ANOMALY,
        "reached": [0],
        "unwatched": "",
        "keeps": [KEPT],
        "clearings": [CLEARED],
        "changes": [CHANGED],
        "observed": [],
        "stride": 1,
        "series": [],
        **fields,
    }
    return Evidence(**given)


def answer(rule: str, evidence: Evidence, **fields: Any) -> str:
    return verdict(claim(rule, **fields), [evidence]).answer.value


@pytest.mark.parametrize(
    ("discards", "expected"),
    [
        ([3, 3, 3, 3, 3], "confirmed"),
        ([3, 3, 1, 3, 3, 1], "confirmed"),  # the last window of an epoch is shorter
        ([3, 3, 3], "inconclusive"),
        ([0, 1, 0, 0, 2, 0], "inconclusive"),  # bad batches are left out
        ([0, 0, 1, 0, 0, 0], "refuted"),
        ([], "refuted"),
    ],
)
def test_gradients_that_are_cleared_unused(discards: list[int], expected: str) -> None:
    evidence = seen(clearings=[replace(CLEARED, discards=discards)])
    assert answer("cleared-before-step", evidence) == expected


@pytest.mark.parametrize("is_still", [True, False])
def test_a_program_that_stands_still(is_still: bool) -> None:
    """It is said where its threads stand, and a watched run is not called right."""
    ended = Ended(-9, 20.0, timed_out=True)
    still = seen(
        stopped="", idle=16.0 if is_still else 8.0, standing=[Standing("MainThread", 1), Standing("loader", 2)]
    )
    told = conclude(("python",), (), ended, [still], [], True, Limits(40, 20.0), has_findings=False)
    assert told.exit_code == int(is_still)
    assert (
        any("No step has ended in the last 16 of 20 seconds: MainThread at" in note for note in told.notes) is is_still
    )


def test_a_program_that_fails_is_not_called_right() -> None:
    failed = seen(error="ValueError: no more data", error_site=2)
    told = conclude(("python",), (), Ended(1, 2.0), [failed], [], True, Limits(), has_findings=False)
    assert told.exit_code == 4
    assert any("no more data" in note and f":{8})" in note for note in told.notes), told.notes
    assert conclude(("python",), (), Ended(1, 2.0), [failed], [], True, Limits()).exit_code == 0


def lives(born: range, executed: int, died: int | None, held: int = 1) -> list[list[int]]:
    """Graphs that die so many visits after their birth, or never."""
    return [[birth, executed, -1 if died is None else birth + died, held, -1] for birth in born]


NOTHING: dict[str, Any] = {"backwards": [], "optimizers": [], "keeps": [], "clearings": [], "changes": []}


@pytest.mark.parametrize("rule", VERIFIABLE)
def test_nothing_ran(rule: str) -> None:
    nothing = seen(steps=0, reached=[], anomaly=replace(ANOMALY, steps_off=0), **NOTHING)
    assert answer(rule, nothing) == "not-reached"
    assert verdict(claim(rule), []).answer is Answer.NOT_REACHED


@pytest.mark.parametrize("rule", VERIFIABLE)
def test_lines_that_were_compiled_are_not_said_to_be_unreached(rule: str) -> None:
    process = Process(1, "", "3.12.1", "2.13.0", "cpu", 3)
    nothing = seen(process=process, steps=0, reached=[], **NOTHING)
    assert answer(rule, nothing) == "inconclusive"


def test_other_rules_are_not_verifiable_yet() -> None:
    """It says so, and what to do."""
    found = verdict(claim("no-such-rule"), [seen()])
    assert found.answer is Answer.INCONCLUSIVE
    assert "no run can judge" in found.reason
    assert found.advice


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ({}, "refuted"),
        ({"stale": [[1, 19]], "first_stale": 1}, "confirmed"),
        ({"stale": [[1, 2]], "first_stale": 7}, "confirmed"),
        ({"steps": [[1, 20], [3, 20]], "stale": [[3, 19]]}, "refuted"),  # another loop's steps
        ({"steps": [[3, 20]], "stale": [[3, 19]], "added_stale": [[2, 19]]}, "refuted"),  # another loop's backward
        ({"leftover": [[1, 9]], "first_stale": 1}, "confirmed"),
        ({"stale": [[1, 1]]}, "inconclusive"),
        ({"clears": 0}, "inconclusive"),
        ({"steps": [[1, 2]]}, "inconclusive"),
        ({"steps": [[2, 20]], "added": [[1, 20]], "stale": [[2, 20]], "added_stale": [[1, 20]]}, "confirmed"),
        ({"steps": [], "added": []}, "inconclusive"),
    ],
)
def test_missing_zero_grad(optimizer: dict[str, Any], expected: str) -> None:
    assert answer("missing-zero-grad", seen(optimizers=[replace(OPTIMIZER, **optimizer)])) == expected


def test_the_optimizer_that_a_finding_is_about() -> None:
    """Not another one whose gradients the same backward adds to, as in a GAN."""
    generator = replace(OPTIMIZER, name="generator", steps=[[2, 20]], added=[[1, 20]])
    critic = replace(OPTIMIZER, name="critic", steps=[[3, 20]], added=[[1, 20], [3, 20]], stale=[[3, 19]])
    evidence = seen(optimizers=[generator, critic])
    assert answer("missing-zero-grad", evidence, lines=((5, 5), (8, 8))) == "refuted"
    assert answer("missing-zero-grad", evidence, lines=((5, 5),)) == "refuted"
    assert answer("missing-zero-grad", evidence, lines=((50, 50),), statement=(50, 50)) == "confirmed"


@pytest.mark.parametrize(
    ("rule", "optimizer", "expected"),
    [
        ("cleared-before-step", {"wiped": [[1, 19]]}, "confirmed"),
        ("cleared-before-step", {}, "refuted"),
        ("cleared-before-step", {"wiped": [[1, 1]]}, "inconclusive"),
        ("step-without-backward", {"hungry": [[1, 1]]}, "confirmed"),
        ("step-without-backward", {}, "refuted"),
        ("step-without-backward", {"moved": 0, "still": 3}, "inconclusive"),
    ],
)
def test_steps_without_gradients(rule: str, optimizer: dict[str, Any], expected: str) -> None:
    assert answer(rule, seen(optimizers=[replace(OPTIMIZER, **optimizer)])) == expected


@pytest.mark.parametrize(
    ("cleared", "optimizer", "expected"),
    [
        ({"robbed": 19, "parameters": 2, "first": 0}, {}, "confirmed"),
        ({"robbed": 1, "parameters": 2}, {}, "inconclusive"),
        ({"starved": 2}, {}, "inconclusive"),  # after another backward, but none of them ever trains
        ({}, {"lost": 9}, "refuted"),  # another line took them
        ({"visits": 0, "optimizers": []}, {"lost": 9}, "inconclusive"),  # the line could not be watched
        ({}, {"unmoved": 1}, "inconclusive"),  # who knows what the update saw
        ({}, {"moved": 0, "still": 3}, "inconclusive"),
        ({}, {"steps": [[3, 20]], "added": [[3, 20]]}, "refuted"),  # steps elsewhere, on what the line clears
    ],
)
def test_a_part_of_the_gradients_is_cleared(cleared: dict[str, Any], optimizer: dict[str, Any], expected: str) -> None:
    evidence = seen(clearings=[replace(CLEARED, **cleared)], optimizers=[replace(OPTIMIZER, **optimizer)])
    assert answer("cleared-before-step", evidence) == expected


def test_an_optimizer_whose_gradients_the_line_does_not_clear_says_nothing() -> None:
    other = replace(OPTIMIZER, name="other", wiped=[[1, 19]])
    assert answer("cleared-before-step", seen(optimizers=[OPTIMIZER, other])) == "refuted"
    cleared = replace(CLEARED, optimizers=[[1, 19]])
    assert answer("cleared-before-step", seen(optimizers=[OPTIMIZER, other], clearings=[cleared])) == "confirmed"


NO_GRAPH = "element 0 of tensors does not require grad and does not have a grad_fn"


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ({"forwards": [Forward("Encoder", 1, 20, 4, 4, ["weight"], 0)]}, "confirmed"),
        ({"forwards": [Forward("Teacher", 1, 20, 4, 0, [], 0)]}, "refuted"),
        ({"forwards": [Forward("Net", 1, 20, 4, 4, [], 4)]}, "refuted"),
        ({"forwards": [Forward("Elsewhere", 3, 20, 4, 4, ["weight"], 0)]}, "confirmed"),  # it is about a backward
        ({"forwards": [Forward("Elsewhere", 3, 20, 4, 4, [], 4)]}, "refuted"),
        ({"cuts": [Cut(3, "mu", "z", 1, 9)]}, "confirmed"),
        ({"cuts": [Cut(3, "mu", "z", 3, 9)]}, "refuted"),  # in another backward
        ({"reads": [Read(0, "self.centres", False)]}, "confirmed"),
        ({"reads": [Read(0, "self.centres", True)]}, "refuted"),
        ({"optimizers": [replace(OPTIMIZER, without_gradient=1)]}, "inconclusive"),
        (
            {
                "optimizers": [replace(OPTIMIZER, without_gradient=4)],
                "forwards": [Forward("Elsewhere", 3, 20, 4, 4, ["weight"], 0)],
            },
            "confirmed",
        ),
        ({"backwards": [Backwards(1, 1, 0, {NO_GRAPH: 1}, 0)], "steps": 0}, "confirmed"),
        ({"backwards": [Backwards(1, 1, 0, {"out of memory": 1}, 0)]}, "inconclusive"),
        ({"optimizers": [replace(OPTIMIZER, moved=0, still=3)]}, "inconclusive"),
        ({"optimizers": [replace(OPTIMIZER, steps=[[1, 1]])]}, "inconclusive"),
    ],
)
def test_training_under_no_grad(evidence: dict[str, Any], expected: str) -> None:
    assert answer("training-under-no-grad", seen(**evidence)) == expected


BY_TEN = [visit // 10 for visit in range(20)]
"""A line that runs ten times for each backward: its container lives until it is bound again."""


def passes(length: int) -> list[list[int]]:
    """Graphs that go backward at once, and are let go at the end of a pass of so many visits."""
    return [[birth, birth - 1, -(-birth // length) * length, 1, -1] for birth in range(1, 21)]


BY_FIVE = [visit // 5 for visit in range(20)]


def let_go(length: int) -> list[list[int]]:
    """Graphs that live for ever, go backward after so many visits, and are then let go by the container."""
    ends = [-(-birth // length) for birth in range(1, 21)]
    return [[birth, end - 1, -1, 1, end * length + 1] for birth, end in enumerate(ends, 1)]


CLEAN: dict[str, Any] = {"clean": 18, "graphs": 0}
TENTH = {"visits": 4, "backwards": [0, 10, 20, 30], "steps": [0, 10, 20, 30]}


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ({"lives": lives(range(1, 21), -1, None)}, "confirmed"),
        ({"lives": [[birth, birth, -1, 1, -1] for birth in range(1, 21)]}, "confirmed"),
        ({"lives": lives(range(1, 21), -1, 1)}, "refuted"),
        ({"lives": lives(range(1, 21), -1, 5)}, "refuted"),  # a deque of five
        ({"lives": [[birth, -1, 12, 1, -1] for birth in range(1, 12)]}, "confirmed"),  # dropped at the end of an epoch
        ({"lives": passes(6)}, "confirmed"),
        ({"lives": passes(3)}, "inconclusive"),  # passes too short to tell
        ({"lives": [[birth, 10 * (birth - 1), -1, 1, -1] for birth in range(1, 5)], **TENTH}, "confirmed"),
        ({"lives": [[birth, 18, 19, 1, -1] for birth in range(1, 19)]}, "refuted"),  # summed up, then backpropagated
        (
            {"lives": [[birth, birth // 10, birth + 10, 1, -1] for birth in range(1, 21)], "backwards": BY_TEN},
            "refuted",
        ),
        ({"lives": lives(range(1, 21), -1, 15), "bound": 30}, "inconclusive"),
        ({"lives": lives(range(1, 21), -1, 15), "bound": 100_000}, "confirmed"),
        ({"lives": [], "visits": 3, "backwards": [0, 1, 2], "steps": [0, 1, 2]}, "inconclusive"),
        ({"lives": [], "tensors": 0, "graphs": 0}, "inconclusive"),
        ({"lives": [], "tensors": 0, **CLEAN}, "refuted"),
        ({"lives": []}, "refuted"),
        ({"lives": lives(range(1, 21), 0, None, held=0), **CLEAN, "holder": "total"}, "refuted"),
        ({"lives": lives(range(1, 21), 0, None, held=0), **CLEAN}, "inconclusive"),  # nobody knows who holds them
        ({"lives": lives(range(1, 21), 0, None, held=0), "graphs": 0, "holder": "total"}, "inconclusive"),
        ({"lives": lives(range(1, 21), 0, None, held=0), "holder": "=meter.deep.list[...]"}, "confirmed"),
        (
            {"lives": let_go(5), "backwards": BY_FIVE, "holder": "history[...]"},
            "inconclusive",
        ),  # begins anew, and another keeps it
        ({"lives": let_go(5), "backwards": BY_FIVE, **CLEAN, "holder": "history[...]"}, "refuted"),
    ],
)
def test_undetached_accumulation(kept: dict[str, Any], expected: str) -> None:
    assert answer("undetached-accumulation", seen(keeps=[replace(KEPT, **kept)])) == expected


@pytest.mark.parametrize(
    ("holder", "named"), [("", "losses[...]"), ("meter.sum", "meter.sum"), ("=meter.losses[...]", "meter.losses[...]")]
)
def test_who_keeps_graphs_is_named(holder: str, named: str) -> None:
    kept = replace(KEPT, lives=lives(range(1, 21), -1, None), holder=holder)
    said = verdict(claim("undetached-accumulation"), [seen(keeps=[kept])])
    assert said.reason.startswith(f"`{named}` keeps the graphs of 18 earlier iterations"), said.reason


@pytest.mark.parametrize(("length", "expected"), [(5, "refuted"), (7, "refuted"), (12, "inconclusive")])
def test_a_window_that_the_loop_empties_is_no_pile(length: int, expected: str) -> None:
    window = replace(KEPT, lives=passes(length))
    assert answer("undetached-accumulation", seen(keeps=[window])) == "confirmed"
    assert answer("undetached-accumulation", seen(keeps=[replace(window, emptied=True)])) == expected


def test_what_the_loop_empties_later_is_a_pile_until_then() -> None:
    kept = replace(KEPT, lives=lives(range(1, 21), -1, None), emptied=True)
    assert answer("undetached-accumulation", seen(keeps=[kept])) == "confirmed"


def test_what_may_still_go_backward_is_no_pile_yet() -> None:
    """Where others were used late, or the last backward is not long ago, and the program was stopped."""
    late = [*[[birth, 9, 10, 1, -1] for birth in range(1, 9)], *lives(range(11, 21), -1, None)]
    kept = replace(KEPT, lives=late)
    assert answer("undetached-accumulation", seen(keeps=[kept], stopped="20 steps")) == "inconclusive"
    young = replace(KEPT, lives=lives(range(14, 21), -1, None))
    assert answer("undetached-accumulation", seen(keeps=[young], stopped="20 steps")) == "inconclusive"
    assert answer("undetached-accumulation", seen(keeps=[young])) == "confirmed"


def test_a_deque_that_is_full_is_no_pile() -> None:
    """However long it took to fill it; one that is far from full may still become a pile."""
    held = lives(range(1, 24), 0, 5)
    full = replace(KEPT, visits=24, backwards=list(range(24)), steps=list(range(24)), lives=held, bound=5)
    assert answer("undetached-accumulation", seen(keeps=[full])) == "refuted"


def test_what_one_thread_keeps_is_enough() -> None:
    piles = replace(KEPT, lives=lives(range(1, 21), 0, None))
    assert answer("undetached-accumulation", seen(keeps=[replace(KEPT, **CLEAN), piles])) == "confirmed"


def test_growth_on_a_gpu_is_told_in_bytes() -> None:
    series = [{"step": float(step), "ms": 1.0, "memory": 1e6 * step} for step in range(30)]
    process = Process(1, "", "3.12.1", "2.13.0", "NVIDIA H200", 0)
    evidence = seen(keeps=[replace(KEPT, lives=lives(range(1, 21), -1, None))], series=series, process=process)
    found = verdict(claim("undetached-accumulation"), [evidence])
    assert found.numbers["bytes_per_step"] == pytest.approx(1e6)
    assert found.device == "NVIDIA H200"


@pytest.mark.parametrize(
    ("retained", "expected"),
    [
        (Retained(1, 20, 12, 0, [9] * 12), "confirmed"),
        (Retained(1, 20, 12, 12, [9] * 12), "refuted"),
        (Retained(1, 20, 12, 6, [9] * 12), "refuted"),
        (Retained(1, 20, 12, 12, [9 * size for size in range(1, 13)]), "confirmed"),
        (Retained(1, 20, 12, 12, [90, 120, 60, 130, 70, 140]), "refuted"),
        (Retained(1, 1, 1, 0, [9]), "inconclusive"),
        (Retained(1, 20, 12, 2, [9] * 12), "inconclusive"),
    ],
)
def test_retain_graph_in_loop(retained: Retained, expected: str) -> None:
    assert answer("retain-graph-in-loop", seen(retention=[retained])) == expected


@pytest.mark.parametrize("rule", ["inplace-on-saved-tensor", "inplace-on-leaf"])
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"errors": {"a leaf Variable": 1}}, "confirmed"),
        ({"matched": {"modified by an inplace operation": 1}, "passed": 9}, "confirmed"),
        ({}, "refuted"),
        ({"bumps": 0, "share": 0.0}, "inconclusive"),
        ({"bumps": 0, "share": 0.0, "leaves": 9}, "inconclusive"),  # without `.data` PyTorch might still raise
    ],
)
def test_changes_in_place(rule: str, changed: dict[str, Any], expected: str) -> None:
    assert answer(rule, seen(changes=[replace(CHANGED, **changed)])) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"silent": {"TanhBackward0": 1}}, "confirmed"),
        ({"bumps": 0, "silent": {"TanhBackward0": 3}}, "confirmed"),
        ({"untried": 1}, "inconclusive"),
    ],
)
def test_changes_that_autograd_does_not_notice(changed: dict[str, Any], expected: str) -> None:
    assert answer("inplace-on-saved-tensor", seen(changes=[replace(CHANGED, **changed)])) == expected


def test_data_of_a_leaf_is_no_part_of_the_graph() -> None:
    about = replace(claim("inplace-on-leaf"), names=(("p", ".data"),))
    unchanged = replace(CHANGED, bumps=0, share=0.0, leaves=9)
    assert verdict(about, [seen(changes=[unchanged])]).answer.value == "refuted"


def test_a_program_that_dies_in_the_compiler_of_the_defect() -> None:
    """Not of another line, and not of another error."""
    broken = {"error": "BackendCompilerFailed: one of the variables needed, modified by an inplace operation: [8]"}
    about = claim("inplace-on-saved-tensor")
    number, line = 0, about.statement[0]
    assert verdict(about, [seen(changes=[], compiling=[[number, line]], **broken)]).answer.value == "confirmed"
    assert verdict(about, [seen(changes=[], compiling=[[number, line + 1]], **broken)]).answer.value == "not-reached"
    assert verdict(about, [seen(changes=[], compiling=[[number, line]])]).answer.value == "not-reached"


def test_an_overwritten_name_is_not_refuted_by_a_backward_that_passes() -> None:
    assert answer("inplace-on-saved-tensor", seen(), raises=False) == "confirmed"
    assert (
        answer("inplace-on-saved-tensor", seen(changes=[replace(CHANGED, share=0.0)]), raises=False) == "inconclusive"
    )


def test_another_backward_that_failed_refutes_nothing() -> None:
    failed = [Backwards(2, 5, 0, {"a variable has been modified by an inplace operation": 1}, 0)]
    assert answer("inplace-on-saved-tensor", seen(backwards=failed)) == "inconclusive"


def test_one_that_another_flagged_line_explains_is_no_obstacle() -> None:
    failed = [Backwards(2, 5, 0, {"saved tensor was modified by an inplace operation": 3}, 0)]
    other = replace(CHANGED, claim=1, matched={"modified by an inplace operation": 3})
    assert answer("inplace-on-saved-tensor", seen(backwards=failed)) == "inconclusive"
    assert answer("inplace-on-saved-tensor", seen(backwards=failed, changes=[CHANGED, other])) == "refuted"


@pytest.mark.parametrize(
    ("device", "emptied", "expected"),
    [
        ("cpu", Emptied(1, 20, 0.1, 0), "inconclusive"),
        ("cpu", Emptied(1, 2, 0.1, 0), "refuted"),
        ("NVIDIA H200", Emptied(1, 20, 0.1, 1 << 20), "confirmed"),
        ("NVIDIA H200", Emptied(1, 20, 0.1, 0), "confirmed"),
        ("NVIDIA H200", Emptied(1, 20, 0.0, 0), "inconclusive"),
    ],
)
def test_empty_cache_in_loop(device: str, emptied: Emptied, expected: str) -> None:
    process = Process(1, "", "3.12.1", "2.13.0", device, 0)
    series = [{"step": float(step), "ms": 10.0} for step in range(20)]
    assert answer("empty-cache-in-loop", seen(process=process, caches=[emptied], series=series)) == expected


@pytest.mark.parametrize(
    ("anomaly", "reached", "expected"),
    [
        ({"on_sites": [[1, 20]], "steps_on": 20, "steps_off": 0}, [0], "confirmed"),
        ({"on_sites": [[3, 20]], "steps_on": 20, "steps_off": 0}, [], "not-reached"),
        ({"off_sites": [1]}, [0], "refuted"),
        ({"on_sites": [[3, 20]], "library_sites": [3]}, [0], "confirmed"),  # an option of a library's trainer
        ({"on_sites": [[3, 20]], "library_sites": []}, [0], "refuted"),  # another line of the program
        ({"on_sites": [[1, 1]], "steps_on": 1}, [0], "refuted"),
        ({"on_sites": [[1, 5]], "steps_on": 5, "steps_off": 2}, [0], "inconclusive"),
    ],
)
def test_anomaly_detection_left_on(anomaly: dict[str, Any], reached: list[int], expected: str) -> None:
    assert answer("anomaly-detection-left-on", seen(anomaly=replace(ANOMALY, **anomaly), reached=reached)) == expected


def test_code_that_ran_in_a_worker_only() -> None:
    """It says nothing of training, unless it fails there."""
    training = seen(reached=[], changes=[replace(CHANGED, hits=0)])
    worker = replace(training, steps=0, backwards=[], optimizers=[], reached=[0])
    about = claim("inplace-on-saved-tensor")
    ran = replace(worker, changes=[replace(CHANGED, passed=0, backwards_after=0)])
    for found in (verdict(about, [training, worker]), verdict(about, [training, ran])):
        assert found.answer is Answer.INCONCLUSIVE
        assert "worker process" in found.reason
    failed = replace(ran, changes=[replace(CHANGED, errors={"a leaf Variable": 1})])
    assert verdict(about, [training, failed]).answer is Answer.CONFIRMED
    assert verdict(about, [training]).answer is Answer.NOT_REACHED
    assert verdict(about, [seen(), worker]).answer is Answer.REFUTED


def test_one_rank_that_saw_the_defect_is_enough() -> None:
    stale = replace(OPTIMIZER, stale=[[1, 19]])
    found = verdict(claim("missing-zero-grad"), [seen(), seen(optimizers=[stale]), seen(reached=[], steps=0)])
    assert found.answer is Answer.CONFIRMED


def observed(counts: dict[str, float], errors: dict[str, int] | None = None, shown: str = "") -> list[Observed]:
    return [Observed(0, counts, errors or {}, shown)]


SCALAR = "RuntimeError: grad can be implicitly created only for scalar outputs"


@pytest.mark.parametrize(
    ("counts", "errors", "backwards", "expected"),
    [
        ({"visits": 1}, {SCALAR: 1}, 0, "confirmed"),
        ({"visits": 9, "passed": 8}, {SCALAR: 1}, 8, "confirmed"),
        ({"visits": 9, "passed": 9}, {}, 9, "refuted"),
        ({"visits": 9, "passed": 9}, {}, 0, "inconclusive"),  # a method of that name, and no backward
        ({"visits": 2, "passed": 2}, {}, 2, "inconclusive"),
        ({"visits": 9, "passed": 8}, {"RuntimeError: out of memory": 1}, 8, "inconclusive"),
    ],
)
def test_a_backward_that_raises(
    counts: dict[str, float], errors: dict[str, int], backwards: int, expected: str
) -> None:
    evidence = seen(observed=observed(counts, errors), backwards=[Backwards(1, backwards, 0, {}, 0)])
    assert answer("nonscalar-backward", evidence) == expected


@pytest.mark.parametrize(
    ("errors", "shown", "expected"),
    [
        (
            {"function ScaleBackward returned an incorrect number of gradients (expected 2, got 1)": 1},
            "Scale",
            "confirmed",
        ),
        (
            {"function ScaleBackward returned an incorrect number of gradients (expected 2, got 1)": 1},
            "Shift",
            "refuted",
        ),
        ({"f.<locals>.Scale.backward() takes 2 positional arguments but 3 were given": 1}, "Scale", "confirmed"),
        ({"out of memory": 1}, "Scale", "refuted"),
        ({}, "Scale", "refuted"),
    ],
)
def test_backward_arity(errors: dict[str, int], shown: str, expected: str) -> None:
    evidence = seen(observed=observed({"visits": 9}, shown=shown), backwards=[Backwards(2, 9, 0, errors, 0)])
    assert answer("backward-arity", evidence) == expected
    assert answer("backward-arity", replace(evidence, observed=observed({"visits": 2}, shown=shown))) in (
        "confirmed",
        "inconclusive",
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"tensors": 9}, "confirmed"),
        ({}, "confirmed"),  # the object has no name to look at
        ({"tensors": 9, "changed": 1}, "inconclusive"),
        ({"others": 9}, "inconclusive"),
        ({"modules": 9}, "refuted"),
        ({"modules": 2}, "inconclusive"),
    ],
)
def test_discarded_result(counts: dict[str, float], expected: str) -> None:
    assert answer("discarded-result", seen(observed=observed({"visits": 9, "passed": 9, **counts}))) == expected


def test_a_method_that_is_not_called_does_nothing_wherever_it_is_reached() -> None:
    assert answer("uncalled-method", seen()) == "confirmed"


CLIPPED: dict[str, float] = {"calls": 9, "steps": 9, "limit": 1.0, "used": 20.0, "first": 1}


@pytest.mark.parametrize(
    ("counts", "outside", "scaled"),
    [
        ({"fresh": 9}, "confirmed", "inconclusive"),
        ({"shrunk": 9, "used": 1e-5}, "inconclusive", "confirmed"),
        ({"smaller": 9, "used": 0.5}, "inconclusive", "inconclusive"),  # the bound may be multiplied by the scale
        ({"kept": 9}, "refuted", "refuted"),
        ({"kept": 9, "fresh": 1}, "inconclusive", "inconclusive"),
        ({"kept": 2}, "inconclusive", "inconclusive"),
        ({}, "inconclusive", "inconclusive"),  # the gradients are small anyway
        ({"unbounded": 9}, "inconclusive", "inconclusive"),
        ({"kept": 9, "closures": 9}, "inconclusive", "inconclusive"),
        ({"calls": 0}, "inconclusive", "inconclusive"),  # a clipping of somebody else's
    ],
)
def test_clippings(counts: dict[str, float], outside: str, scaled: str) -> None:
    evidence = seen(observed=observed({**CLIPPED, **counts}))
    assert answer("clip-outside-step", evidence) == outside
    assert answer("clip-before-unscale", evidence) == scaled


ENDED = {"status": "finished", "stopped": ""}
STOPPED = {"status": "running", "stopped": "40 steps"}


@pytest.mark.parametrize(
    ("counts", "how", "expected"),
    [
        ({"steps": 9}, ENDED, "confirmed"),
        ({"steps": 9}, {**ENDED, "error": "ValueError: no"}, "inconclusive"),
        ({"steps": 9}, STOPPED, "inconclusive"),
        ({"steps": 9, "gone": 1}, STOPPED, "confirmed"),
        ({"steps": 2}, ENDED, "inconclusive"),
        ({"steps": 9, "moves": 1}, ENDED, "refuted"),
        ({"steps": 9, "made": 0}, ENDED, "inconclusive"),  # a schedule of another library
    ],
)
def test_scheduler_never_stepped(counts: dict[str, float], how: dict[str, str], expected: str) -> None:
    evidence = seen(observed=observed({"made": 1, **counts}), **how)
    assert answer("scheduler-never-stepped", evidence) == expected
    if expected == "inconclusive" and how == STOPPED:
        assert "--max-steps 0" in verdict(claim("scheduler-never-stepped"), [evidence]).advice


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"untrained": 1, "behind": 8}, "confirmed"),
        ({"untrained": 1, "steps": 0}, "inconclusive"),
        ({"unstepped": 1, "between": 8}, "confirmed"),
        ({"unstepped": 1, "between": 2}, "inconclusive"),
        ({"unstepped": 1, "behind": 8}, "inconclusive"),  # the loss scale has skipped the first step
        ({"unstepped": 1, "behind": 1, "between": 7}, "inconclusive"),
        ({"after": 1, "behind": 9}, "refuted"),
        ({"after": 1, "between": 9}, "refuted"),  # another optimizer's backward came between
        ({"moves": 0}, "inconclusive"),
    ],
)
def test_scheduler_before_optimizer(counts: dict[str, float], expected: str) -> None:
    evidence = seen(observed=observed({"moves": 9, "steps": 9, **counts}))
    assert answer("scheduler-before-optimizer", evidence) == expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"eval": 9, "late": 9}, "confirmed"),
        ({"eval": 9, "late": 9, "train": 9}, "confirmed"),  # train() is at the head of the epoch
        ({"eval": 9}, "inconclusive"),  # fine-tuning in eval mode
        ({"eval": 1, "late": 1, "train": 9}, "inconclusive"),
        ({"harmless": 9, "late": 1}, "refuted"),
        ({"train": 9, "late": 1}, "refuted"),
        ({"train": 2, "late": 1}, "inconclusive"),
        ({"switches": 0}, "inconclusive"),
    ],
)
def test_training_in_eval_mode(counts: dict[str, float], expected: str) -> None:
    evidence = seen(observed=observed({"switches": 2, **counts}, shown="Dropout"))
    assert answer("training-in-eval-mode", evidence) == expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"eval": 1, "drew": 1}, "confirmed"),
        ({"eval": 9}, "refuted"),
        ({"eval": 2}, "inconclusive"),
        ({"training": 9}, "inconclusive"),
        ({}, "inconclusive"),  # in no module
    ],
)
def test_dropout_ignores_mode(counts: dict[str, float], expected: str) -> None:
    assert answer("dropout-ignores-mode", seen(observed=observed({"visits": 9, **counts}))) == expected


@pytest.mark.parametrize(
    ("counts", "how", "expected"),
    [
        ({"with": 9, "unused": 9}, STOPPED, "confirmed"),
        ({"with": 9, "unused": 2}, STOPPED, "inconclusive"),
        ({"with": 9}, STOPPED, "inconclusive"),  # they are still there
        ({"with": 9}, ENDED, "confirmed"),
        ({"with": 9, "unused": 9, "training": 9}, STOPPED, "inconclusive"),
        ({"with": 9, "unused": 5, "used": 4}, STOPPED, "inconclusive"),
        ({"with": 9, "used": 9}, STOPPED, "refuted"),
        ({"without": 9, "off": 9}, STOPPED, "refuted"),
        ({"without": 9}, STOPPED, "refuted"),
        ({"calls": 2, "without": 2}, STOPPED, "inconclusive"),
        ({"calls": 0}, STOPPED, "inconclusive"),
    ],
)
def test_evaluation_with_grad(counts: dict[str, float], how: dict[str, str], expected: str) -> None:
    assert answer("evaluation-with-grad", seen(observed=observed({"calls": 9, **counts}), **how)) == expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"made": 9, "gone": 8, "alive": 1}, "confirmed"),
        ({"made": 9, "gone": 8, "alive": 1, "owned": 1}, "inconclusive"),
        ({"made": 2, "alive": 2, "since": 9}, "refuted"),
        ({"made": 2, "alive": 2, "since": 1}, "inconclusive"),
        ({"made": 2, "gone": 1, "alive": 1, "since": 9}, "inconclusive"),
        ({}, "inconclusive"),
    ],
)
def test_module_created_in_forward(counts: dict[str, float], expected: str) -> None:
    assert answer("module-created-in-forward", seen(observed=observed({"visits": 9, **counts}))) == expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"wasted": 9}, "confirmed"),
        ({"wasted": 9, "kept": 1}, "inconclusive"),
        ({"wasted": 9, "reused": 9}, "inconclusive"),
        ({"wasted": 2}, "inconclusive"),
        ({"detached": 9}, "refuted"),
        ({"detached": 8}, "inconclusive"),
        ({"calls": 0}, "inconclusive"),
    ],
)
def test_generator_graph_in_discriminator_step(counts: dict[str, float], expected: str) -> None:
    evidence = seen(observed=observed({"calls": 9, **counts}))
    assert answer("generator-graph-in-discriminator-step", evidence) == expected


@pytest.mark.parametrize(
    ("counts", "softmax", "sigmoid"),
    [
        ({"probable": 9}, "confirmed", "confirmed"),
        ({"odd": 9}, "inconclusive", "confirmed"),  # a softmax over another dimension, or a sigmoid
        ({"probable": 8, "outside": 1}, "inconclusive", "inconclusive"),
        ({"outside": 9}, "refuted", "refuted"),
        ({"outside": 8}, "inconclusive", "inconclusive"),  # one could not be looked at
        ({"calls": 2, "probable": 2}, "inconclusive", "inconclusive"),
        ({"calls": 0}, "inconclusive", "inconclusive"),
    ],
)
def test_probabilities_where_a_loss_wants_scores(counts: dict[str, float], softmax: str, sigmoid: str) -> None:
    evidence = seen(observed=observed({"calls": 9, **counts}))
    assert answer("softmax-before-cross-entropy", evidence) == softmax
    assert answer("sigmoid-before-bce-with-logits", evidence) == sigmoid


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([1, 4, 4], "confirmed"),
        ([2, 8, 8, 8, 8], "confirmed"),  # two losses
        ([4, 4, 4], "refuted"),
        ([1, 1, 1], "refuted"),  # windows of one batch
        ([5, 4, 4], "inconclusive"),  # the loss scale has skipped the first step
        ([3, 4, 4], "inconclusive"),
        ([1, 4, 8], "inconclusive"),
        ([1, 4], "inconclusive"),
        ([0, 4, 4], "inconclusive"),
        ([], "inconclusive"),
    ],
)
def test_lopsided_accumulation(windows: list[int], expected: str) -> None:
    counts: dict[str, float] = {f"0.{number}": size for number, size in enumerate(windows)}
    assert answer("lopsided-accumulation", seen(observed=observed({"visits": 9, **counts}))) == expected
    if expected != "confirmed":
        lopsided = {**counts, "1.0": 1.0, "1.1": 2.0, "1.2": 2.0}
        assert answer("lopsided-accumulation", seen(observed=observed({"visits": 9, **lopsided}))) == "confirmed"


@pytest.mark.parametrize(
    ("counts", "logarithm", "divergence"),
    [
        ({"above": 9, "outside": 9}, "confirmed", "confirmed"),
        ({"logarithms": 9, "outside": 9}, "refuted", "refuted"),
        ({"logarithms": 9, "outside": 9, "below": 9}, "refuted", "confirmed"),
        ({"above": 1, "logarithms": 8}, "inconclusive", "inconclusive"),
        ({"outside": 9}, "inconclusive", "inconclusive"),  # scores that are all below zero
        ({"binary": 9, "outside": 9}, "confirmed", "inconclusive"),
        ({"binary": 9, "odd": 9, "above": 9}, "refuted", "confirmed"),
        ({"calls": 0}, "inconclusive", "inconclusive"),
    ],
)
def test_scores_where_a_loss_wants_probabilities(counts: dict[str, float], logarithm: str, divergence: str) -> None:
    evidence = seen(observed=observed({"calls": 9, **counts}))
    assert answer("loss-without-activation", evidence) == logarithm
    assert answer("kl-div-input", evidence) == divergence


@pytest.mark.parametrize(
    ("counts", "device", "expected"),
    [
        ({"lost": 1}, "cpu", "confirmed"),
        ({"leaves": 1}, "cpu", "inconclusive"),  # a GPU would tell
        ({"leaves": 1}, "cuda:0", "refuted"),
        ({}, "", "inconclusive"),
    ],
)
def test_parameter_lost_by_move(counts: dict[str, float], device: str, expected: str) -> None:
    evidence = seen(observed=observed({"visits": 1, **counts}, shown=device))
    assert answer("parameter-lost-by-move", evidence) == expected

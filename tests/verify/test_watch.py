"""Watched programs: a comment `# seen: NAME` on a line is what must be reported there, and nothing else may be.

With `# seen: NAME (TEXT)` the report must hold the text.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.verify.nursery import Nursery
from torchlint.files.source import SourceFile
from torchlint.finding import Confidence, Finding
from torchlint.verify.folder import Folder, Limits
from torchlint.verify.launch import Ended
from torchlint.verify.reports import json as json_report
from torchlint.verify.reports import text as text_report
from torchlint.verify.reports import trace
from torchlint.verify.session import Judged, Verification
from torchlint.verify.verdict import Answer, confirmed
from torchlint.verify.watch import comparing
from torchlint.verify.watch.candidates import candidates, finding_at
from torchlint.verify.watch.catalogue import checks
from torchlint.verify.watch.session import Static, watch

WATCHED = sorted((Path(__file__).parent / "watched").glob("*.py"))
PROGRAMS = Path(__file__).parent / "programs"
KNOWN = ("distillation", "gan_cross_clear", "phases_grad_mode", "enable_grad_nested", "warmup_wrapper")
RIGHT = [*sorted((Path(__file__).parent / "right").glob("*.py")), *(PROGRAMS / f"{name}_ok.py" for name in KNOWN)]
MARKER = re.compile(r"# seen: ([\w-]+)")
TEXT = re.compile(r"# seen: ([\w-]+) \((.+)\)$")
RULES = {"inplace-on-saved-tensor"}
"""Checks that add lines to what a rule asks about anyway."""
ALL = {check.name for check in checks()}
DEFAULT = [check.name for check in checks() if check.is_on]

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="programs run in forks"), pytest.mark.halved]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def run(nursery: Nursery) -> Callable[..., Verification]:
    """Watches a program, to its end."""

    def run(
        path: Path,
        *arguments: str,
        names: list[str] = DEFAULT,
        others: Sequence[SourceFile] = (),
        findings: Sequence[Finding] = (),
        steps: int = 0,
    ) -> Verification:
        static = Static([SourceFile.read(path), *others], findings, {})
        command = [sys.executable, str(path), *arguments]
        return watch(command, static, path.parent, Limits(steps, 300), names, launcher=nursery.launch)

    return run


def reported(seen: Verification) -> list[tuple[int, str]]:
    return sorted((item.finding.span.start.line, item.finding.name) for item in seen.judged)


def marked(path: Path) -> list[tuple[int, str]]:
    lines = path.read_text("utf-8").splitlines()
    return sorted((number, name) for number, line in enumerate(lines, 1) for name in MARKER.findall(line))


@pytest.mark.parametrize("path", WATCHED, ids=lambda path: path.stem)
def test_what_is_marked_is_seen_and_nothing_else(path: Path, run: Callable[..., Verification]) -> None:
    names = [*dict.fromkeys([*DEFAULT, *(name for _, name in marked(path) if name in ALL)])]
    seen = run(path, names=names)
    if seen.ended is not None and seen.ended.timed_out:  # two ranks that wait for each other for ever: seen once
        seen = run(path, names=names)
    assert reported(seen) == marked(path), (seen.ended, seen.notes, [item.verdict.reason for item in seen.judged])
    reasons = {item.finding.span.start.line: item.verdict.reason for item in seen.judged}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        assert all(text in reasons[number] for _, text in TEXT.findall(line))
    assert not [item.trouble for item in seen.evidence if item.trouble]
    assert seen.exit_code == int(any(item.verdict.answer is Answer.CONFIRMED for item in seen.judged))


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_programs_that_are_right_are_left_alone(path: Path, run: Callable[..., Verification]) -> None:
    seen = run(path)
    assert not reported(seen), [item.verdict.reason for item in seen.judged]
    assert (seen.exit_code, seen.steps > 0) == (0, True)


def test_a_rank_that_the_budget_stops_is_not_missing(run: Callable[..., Verification]) -> None:
    """The other rank waits for it, since only one of them makes steps; and it cleans up with another call."""
    path = next(path for path in RIGHT if path.stem == "ranks_of_which_one_learns")
    seen = run(path, steps=5)
    assert not reported(seen), [item.verdict.reason for item in seen.judged]
    assert max(item.steps for item in seen.evidence) == 5


def test_a_program_that_fails_before_it_trains_was_not_seen(tmp_path: Path, run: Callable[..., Verification]) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nmodel = torch.nn.Linear(4, 1)\nhistory = []\nhistory.append(model(torch.randn(2, 4)))\n"
        "raise FileNotFoundError('no data')\n"
    )
    seen = run(script)
    assert (seen.exit_code, seen.judged) == (4, ())
    assert "failed before torchlint" in seen.notes[0]


TRAINING = """\
import torch
torch.manual_seed(0)
trunk, head, other = (torch.nn.Linear(4, 8), torch.nn.Linear(8, 1), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters(), *other.parameters()], lr=0.1)
for step in range(20):
    h = torch.tanh(trunk(torch.randn(8, 4)))
    optimizer.zero_grad()
    head(h).pow(2).mean().backward(retain_graph={retains})
    (other(h) - 1).pow(2).mean().backward()
    optimizer.step()
    {last}
"""


def test_an_error_is_named_with_its_line(tmp_path: Path, run: Callable[..., Verification]) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING.format(retains=False, last="pass"))
    seen = run(script)
    assert (reported(seen), seen.exit_code) == ([(9, "second-backward")], 1)
    script.write_text(TRAINING.format(retains=True, last="assert step < 5, 'no data'"))
    seen = run(script)
    assert (reported(seen), seen.exit_code) == ([], 4)
    assert any("AssertionError: no data" in note and "train.py:11)" in note for note in seen.notes), seen.notes
    text = text_report.render(seen, False)
    assert "no problem found" not in text
    assert "the program failed" in text.splitlines()[-1]


def test_nothing_seen_says_what_was_checked(tmp_path: Path, run: Callable[..., Verification]) -> None:
    """And what the linter says of lines that ran."""
    script = tmp_path / "train.py"
    script.write_text(TRAINING.format(retains=True, last="pass"))
    source = SourceFile.read(script)
    findings = [finding_at(source, "missing-zero-grad", 8, "TL101"), finding_at(source, "tuple-default", 5, "TL999")]
    seen = run(script, findings=findings)
    assert (reported(seen), seen.exit_code) == ([], 0)
    checked, beside = seen.notes[-2:]
    assert checked.startswith("Checked: ")
    assert "train.py:8 TL101 (refuted: none of 20 steps" in beside
    assert "train.py:5 TL999 (this run does not decide it)" in beside


def test_preview_findings_are_left_out(tmp_path: Path, nursery: Nursery) -> None:
    """The linter does not report them by default, and the run does not confirm them."""
    script = tmp_path / "train.py"
    script.write_text(TRAINING.format(retains=True, last="pass"))
    source = SourceFile.read(script)
    findings = [finding_at(source, "of-a-preview", 5, "TL998"), finding_at(source, "missing-zero-grad", 8, "TL101")]
    findings.append(replace(finding_at(source, "tuple-default", 5, "TL999"), confidence=Confidence.LOW))
    static = Static([source], findings, {}, frozenset({"of-a-preview"}))
    seen = watch([sys.executable, str(script)], static, tmp_path, Limits(0, 300), DEFAULT, launcher=nursery.launch)
    assert "TL101" in seen.notes[-1]
    assert not re.search("TL99[89]", seen.notes[-1])


RESTARTED = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(32, 8)), batch_size=8)
for step in range(12):
    (x,) = next(iter(loader))
    optimizer.zero_grad()
    net(x).pow(2).mean().backward()
    optimizer.step()
"""


def test_a_finding_is_confirmed_by_its_consequence(tmp_path: Path, run: Callable[..., Verification]) -> None:
    """The loader was made at another line; of two findings, none is known to be the cause."""
    script = tmp_path / "train.py"
    script.write_text(RESTARTED)
    source = SourceFile.read(script)
    findings = [finding_at(source, "restarted-loader", line, "TL616") for line in (8, 10)]
    assert reported(run(script)) == [(6, "samples-left-out")]
    assert reported(run(script, findings=findings[:1])) == [(8, "restarted-loader")]
    assert reported(run(script, findings=findings)) == [(6, "samples-left-out")]


SWALLOWED = """\
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    try:
        optimizer.zero_grad()
        {line}
        optimizer.step()
    except Exception:
        continue
"""
RAISING = {
    "torch.nn.BCEWithLogitsLoss()(model(torch.randn(8, 4)), torch.ones(8)).backward()": "Target size",
    "(model(torch.randn(8, 4)) * torch.ones(3, 2)).sum().backward()": "must match the size",
    "model(torch.randn(8, 4)).backward()": "can be implicitly created only for scalar outputs",
}


@pytest.mark.parametrize("line", [*RAISING, "raise KeyError"])
def test_a_program_that_ignores_errors(line: str, tmp_path: Path, run: Callable[..., Verification]) -> None:
    script = tmp_path / "train.py"
    script.write_text(SWALLOWED.format(line=line))
    seen = run(script)
    said = next((note for note in seen.notes if note.startswith("No training step was seen")), "")
    if seen.judged:  # an error of a backward has a check of its own
        assert seen.exit_code == 1
        return
    assert seen.exit_code == 3
    assert RAISING.get(line, "no optimizer took a step") in said
    assert line not in RAISING or ("8 times" in said and "train.py:7" in said)
    assert text_report.render(seen, False).splitlines()[-1].startswith("no training step was seen. 0 steps")


def test_what_a_verification_confirms_a_watched_run_sees(tmp_path: Path, run: Callable[..., Verification]) -> None:
    """A watched run finds the defects of a rule without a check of its own: a clip before the backward."""
    clip = "torch.nn.utils.clip_grad_norm_(trunk.parameters(), 1e-3)"
    script = tmp_path / "train.py"
    script.write_text(TRAINING.format(retains=True, last="pass").replace("    head(h)", f"    {clip}\n    head(h)"))
    finding = finding_at(SourceFile.read(script), "clip-outside-step", 8, "TL107")
    assert reported(run(script, findings=[finding])) == [(8, "clip-outside-step")]


ALIKE = """\
import hashlib, sys
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.BatchNorm1d(16),
                      nn.TransformerEncoderLayer(16, 2, 16, batch_first=True), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
kept, best = [], 0.0
for step in range(30):
    optimizer.zero_grad()
    loss = (model(torch.randn(16, 8)) - 1).pow(2).mean().sqrt()
    loss.backward()
    optimizer.step()
    kept.append(loss)
    model.eval()
    with torch.no_grad():
        best += model(torch.randn(16, 8)).mean()
    model.train()
digest = hashlib.sha256()
for value in (*model.state_dict().values(), best, torch.get_rng_state()):
    digest.update(value.numpy().tobytes())
open(sys.argv[1], "w").write(digest.hexdigest())
"""


_EVALUATION = """\
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
    with torch.no_grad():
        net(torch.randn(8, 4))
"""


def test_a_check_that_is_off_runs_for_a_finding(tmp_path: Path, run: Callable[..., Verification]) -> None:
    path = tmp_path / "train.py"
    path.write_text(_EVALUATION, "utf-8")
    assert not reported(run(path))
    finding = finding_at(SourceFile.read(path), "evaluation-in-training-mode", 10)
    assert reported(run(path, findings=[finding])) == [(10, "evaluation-in-training-mode")]


def test_a_watched_program_comes_out_the_same(
    tmp_path: Path, run: Callable[..., Verification], nursery: Nursery
) -> None:
    """Weights and random state to the bit, with all checks, of a model whose evaluation may take a quicker path."""
    script = tmp_path / "train.py"
    script.write_text(ALIKE)
    seen = run(script, str(tmp_path / "watched"), names=[check.name for check in checks()])
    assert reported(seen)
    assert not [item.trouble for item in seen.evidence if item.trouble]
    folder = Folder()
    nursery.launch([sys.executable, str(script), str(tmp_path / "alone")], folder, Limits(), {"TORCHLINT_VERIFY": ""})
    folder.remove()
    assert (tmp_path / "watched").read_text() == (tmp_path / "alone").read_text()


LEARNING = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(64, 16)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr={rate})
seen = set()
for _ in range(5):
    for inputs, targets in loader:
        seen.add(inputs.sum().item())
        inputs.requires_grad_()
        optimizer.zero_grad()
        loss = (model(inputs) - targets).pow(2).mean()
        loss.backward()
        optimizer.step()
        inputs.detach().zero_()
assert len(seen) == {batches}, seen
"""


SLOW = """\
import torch
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
x = torch.randn(400, 8)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
for inputs, targets in torch.utils.data.DataLoader(data, batch_size=8):
    loss = (model(inputs) - targets).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LATER = """\
import torch
torch.manual_seed(0)
first, late = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD([*first.parameters(), *late.parameters()], lr=0.01)
for step in range(60):
    out = first(torch.randn(8, 4))
    loss = (out if step < 50 else late(out)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("rate", "is_learned"), [(0.03, True), (1e-7, False)])
def test_one_batch(tmp_path: Path, run: Callable[..., Verification], rate: float, is_learned: bool) -> None:
    """The loader gives one batch, as it was, whatever the program does to it."""
    script = tmp_path / "train.py"
    script.write_text(LEARNING.format(rate=rate, batches=1))
    seen = run(script, names=[*DEFAULT, "one-batch"])
    assert seen.ended is not None and not seen.ended.code, seen.notes
    assert any("is learned" in note for note in seen.notes) is is_learned
    said = [(item.verdict.reason, item.verdict.advice) for item in seen.judged if item.finding.name == "one-batch"]
    assert bool(said) is not is_learned
    if said:
        assert "which is little" in said[0][0]
        assert "learning rate" in said[0][1]


def test_a_short_loader_decides_nothing_while_the_loss_falls(tmp_path: Path, run: Callable[..., Verification]) -> None:
    script = tmp_path / "train.py"
    script.write_text(SLOW)
    seen = run(script, names=["one-batch"])
    assert [item.verdict.answer.value for item in seen.judged] == ["inconclusive"], seen.notes
    assert "still falling" in seen.judged[0].verdict.reason
    assert "more steps" in seen.judged[0].verdict.advice
    assert seen.exit_code == 0
    assert not any("is learned" in note for note in seen.notes)


def test_parameters_may_be_trained_after_the_stop(tmp_path: Path, run: Callable[..., Verification]) -> None:
    script = tmp_path / "train.py"
    script.write_text(LATER)
    for steps, said in ((40, [(4, "inconclusive")]), (0, [])):
        seen = run(script, steps=steps)
        assert [(item.finding.span.start.line, item.verdict.answer.value) for item in seen.judged] == said
        assert seen.exit_code == 0


def test_two_runs_part(tmp_path: Path, run: Callable[..., Verification]) -> None:
    """At the first operator that gets other data; a program that is repeatable is said to be."""
    program = LEARNING.format(rate=0.03, batches=40)
    script = tmp_path / "train.py"
    script.write_text(program)
    same = run(script, names=["differing-runs"])
    assert not same.judged
    assert any("Both runs computed the same" in note for note in same.notes), same.notes
    script.write_text(program.replace("model = ", "import time; x += time.time() % 1\nmodel = "))
    parted = run(script, names=["differing-runs"])
    assert [item.finding.name for item in parted.judged] == ["differing-runs"]
    assert parted.judged[0].finding.span.start.line < 9


ADAPTERS = """\
import torch

torch.manual_seed(0)
base = torch.nn.Linear(4, 8)
down, up = torch.nn.Parameter(torch.{first}(2, 4)), torch.nn.Parameter(torch.zeros(8, 2))
optimizer = torch.optim.SGD([down, up], lr=0.1)
for step in range(40):
    x = torch.randn(16, 4)
    loss = (base(x).detach() + {scale} * (x @ down.t() @ up.t()) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "scale", "answers"),
    [("zeros", 1, [Answer.CONFIRMED]), ("randn", 0, [Answer.INCONCLUSIVE]), ("randn", 1, [])],
)
def test_two_factors_of_zero_need_no_end_of_the_run(
    tmp_path: Path, run: Callable[..., Verification], first: str, scale: int, answers: list[Answer]
) -> None:
    """A weight of a term may change later, but no later step moves a product of zeros."""
    script = tmp_path / "train.py"
    script.write_text(ADAPTERS.format(first=first, scale=scale))
    seen = run(script, names=["gradient-of-zero"], steps=20)
    assert [item.verdict.answer for item in seen.judged] == answers


def test_a_trace_of_the_run(tmp_path: Path, nursery: Nursery) -> None:
    """Data, forward, backward and step of each iteration, in this order and inside of it; findings are marks."""
    script = tmp_path / "train.py"
    script.write_text(LEARNING.format(rate=0.0, batches=40))
    static = Static([SourceFile.read(script)], [], {})
    command = [sys.executable, str(script)]
    seen = watch(command, static, tmp_path, Limits(), DEFAULT, launcher=nursery.launch, is_traced=True)
    events = json.loads(trace.render(seen))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    kinds = [event["cat"] for event in spans]
    assert [kinds.count(kind) for kind in ("iteration", "forward", "backward", "step")] == [40] * 4
    iteration = next(event for event in spans if event["name"] == "step 3")
    end = iteration["ts"] + iteration["dur"]
    within = [event for event in spans if iteration["ts"] <= event["ts"] and event["ts"] + event["dur"] <= end]
    assert [event["cat"] for event in within] == ["data", "forward", "backward", "iteration", "step"]
    marks = [event for event in events if event["ph"] == "i"]
    assert [mark["name"] for mark in marks] == ["zero-learning-rate"]
    assert marks[0]["args"]["line"] == f"{script}:8"


OUT_OF_MEMORY = """\
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(100, 4000), torch.nn.Tanh())
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
kept = []
for step in range(20):
    optimizer.zero_grad()
    loss = model(torch.randn(3000, 100)).mean()
    if {keeps}:
        kept.append(loss)
    loss.backward(retain_graph={keeps})
    optimizer.step()
    if step == 12:
        torch.empty(1 << 55)
"""


@pytest.mark.parametrize(("keeps", "said"), [(True, "the program keeps something"), (False, "it had not grown")])
def test_an_account_of_memory_that_ran_out(
    tmp_path: Path, run: Callable[..., Verification], keeps: bool, said: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(OUT_OF_MEMORY.format(keeps=keeps))
    seen = run(script)
    account = next(item for item in seen.judged if item.finding.name == "out-of-memory")
    assert account.finding.span.start.line == 15
    assert said in account.verdict.reason, account.verdict.reason
    parameters = 4 * 4000 * 101
    numbers = account.verdict.numbers
    assert numbers["parameters"] == numbers["gradients"] == parameters
    assert 2 * parameters <= numbers["optimizer_state"] <= 2 * parameters + 100
    graph = 4 * 3000 * 4000  # more than 32 MiB: the allocator gives it back at once
    assert numbers["graphs"] >= 10 * graph if keeps else numbers["graphs"] < 2 * graph
    assert numbers["grown"] > 0.9 * graph if keeps else numbers["grown"] < graph
    assert not [item.trouble for item in seen.evidence if item.trouble]


def test_sets_of_texts_have_another_order_in_the_second_run(
    tmp_path: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the user has said in which order they are."""
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    seen: list[str] = []

    def launch(command: Sequence[str], folder: Folder, limits: Limits, variables: Mapping[str, str] | None) -> Ended:
        seen.append((variables or {})["PYTHONHASHSEED"])
        ended: Ended = nursery.launch(command, folder, limits, variables)
        return ended

    static = Static([SourceFile.read(script)], [], {})
    for orders in (["0", "1"], ["5", "5"]):
        seen.clear()
        watch([sys.executable, str(script)], static, tmp_path, Limits(), ["differing-runs"], launcher=launch)
        assert seen == orders
        monkeypatch.setenv("PYTHONHASHSEED", "5")


def test_only_what_is_new_counts_beside_an_earlier_report(tmp_path: Path) -> None:
    source = SourceFile.of_text("train.py", "loss.backward()\n    scaler.update()\n")
    judged = [
        Judged(finding_at(source, rule, line), source, confirmed("was seen", {}))
        for rule, line in (("missing-zero-grad", 1), ("loss-scale-collapse", 2))
    ]
    seen = Verification((), tuple(judged), None, (), (), 1, title="torchlint watch")
    old = tmp_path / "old.json"
    old.write_text(json_report.render(replace(seen, judged=tuple(judged[:1])), False))
    new = comparing.compared(seen, comparing.read(old))
    assert [item.finding.name for item in new.judged] == ["loss-scale-collapse"]
    assert new.exit_code == 1
    assert "1 new, 1 known, 0 gone" in new.notes[-1]
    old.write_text(json_report.render(seen, False))
    assert comparing.compared(seen, comparing.read(old)).exit_code == 0
    old.write_text("[]")
    with pytest.raises(comparing.ReportError, match="is not a report"):
        comparing.read(old)


@pytest.mark.needs("torch")
def test_the_command(tmp_path: Path) -> None:
    """The linter's finding is next to the run's problem, and the exit code reports a problem."""
    script = tmp_path / "train.py"
    script.write_text((Path(__file__).parent / "watched" / "gradients_of_steps.py").read_text())
    command = [
        sys.executable,
        "-m",
        "torchlint",
        "watch",
        "--yes",
        "--format",
        "json",
        "--",
        sys.executable,
        "train.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    report = json.loads(done.stdout)
    assert done.returncode == report["exit_code"] == 1
    assert [(item["line"], item["name"]) for item in report["findings"]] == marked(script)
    assert "gradients" in report["findings"][0]["linter"]


def test_every_check_says_what_it_asks_and_where_that_is_from() -> None:
    for check in checks():
        summary, _, rest = check.documentation.partition("\n\n")
        said = " ".join(rest.split())
        assert summary.endswith("."), check.name
        assert "he check " in said, check.name
        assert "t reports a problem " in said or check.name in RULES, check.name
        assert "\nSource: " in rest, check.name
        assert re.fullmatch(r"T[LW]\d{3}", check.code), check.name
    own = [check.code for check in checks() if check.code.startswith("TW")]
    assert len(own) == len(set(own))


def test_files_that_are_no_python_are_left_out(tmp_path: Path, run: Callable[..., Verification]) -> None:
    broken = [
        SourceFile(str(tmp_path / f"{number}.py"), data) for number, data in enumerate((b"x = (", b"\0", b"\xff"))
    ]
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    seen = run(script, others=broken)
    assert (seen.exit_code, seen.judged) == (3, ())
    assert [note.partition(":")[0] for note in seen.notes] == ["No training step was seen"]


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("total += loss", ["undetached-accumulation", "inplace-on-saved-tensor"]),
        ("total = total + loss", ["undetached-accumulation"]),
        ("x = torch.cat([x, y])", ["undetached-accumulation"]),
        ("hidden = cell(x, hidden)", []),
        ("losses.append(loss)", ["undetached-accumulation"]),
        ("self.last = loss", ["undetached-accumulation"]),
        ("optimizer.zero_grad()", ["cleared-before-step"]),
        ("p.grad = None", ["cleared-before-step"]),
        ("del p.grad", ["cleared-before-step"]),
        ("p.grad = torch.zeros_like(p)", ["cleared-before-step"]),
        ("p.grad = kept", ["undetached-accumulation"]),
        ("p.grad.zero_()", ["cleared-before-step", "inplace-on-saved-tensor"]),
        ("x = F.relu(x, inplace=True)", ["inplace-on-saved-tensor"]),
        ("x[0] = 1", ["undetached-accumulation", "inplace-on-saved-tensor"]),
        ("p.requires_grad_(False)", []),
        ("loss.backward()", []),
        ("with torch.no_grad():\n    pass", ["training-under-no-grad"]),
        ("@torch.inference_mode()\ndef f():\n    pass", ["training-under-no-grad"]),
        ("torch.set_grad_enabled(False)", ["training-under-no-grad"]),
    ],
)
def test_candidates(line: str, rules: list[str]) -> None:
    source = SourceFile.of_text("train.py", f"{line}\n")
    assert [finding.name for finding in candidates(source)] == rules

"""`torchlint verify --fixed`: what the fixes do to a running program, and what they do not do to its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore]
import pytest

pytestmark = pytest.mark.halved

ROOT = Path(__file__).parent.parent.parent
SCHEMA = json.loads((ROOT / "docs" / "verify-report.schema.json").read_text("utf-8"))

MANY = """\
import torch
import parts

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.autograd.set_detect_anomaly(True)


def train(steps):
    total = 0
    for _ in range(steps):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        total += loss; torch.cuda.empty_cache()
    print("total", float(total), __file__, __spec__)


train(parts.STEPS)
"""

INPLACE = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        hidden = model(torch.randn(8, 4)).exp()
        hidden += 1
        hidden.mean().backward()
        optimizer.step()
"""

USED_AFTER_ALL = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
again = "back" + "ward"
for step in range(20):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward(retain_graph=True)
    if step == 15:
        getattr(loss, again)()
    optimizer.step()
"""

NO_FIX = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
"""

INTERRUPTED = """\
import os, signal
if os.path.exists("second"):
    os.kill(os.getppid(), signal.SIGINT)
open("second", "w").close()
"""


def fixes(report: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {item["name"]: (item["verdict"], item["fix"]["outcome"]) for item in report["findings"]}


def reasons(report: dict[str, Any]) -> list[str]:
    return [item["fix"]["reason"] for item in report["findings"]]


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_many_fixes_of_one_script(tmp_path: Path, verify: Callable[..., Any]) -> None:
    (tmp_path / "parts.py").write_text("STEPS = 20\n")
    (tmp_path / "train.py").write_text(MANY)
    before = snapshot(tmp_path)
    done = verify(MANY, "--fixed", environment={"PYTHONDONTWRITEBYTECODE": "1"})
    after = snapshot(tmp_path)
    assert {name: text for name, (text, _) in after.items()} == {name: text for name, (text, _) in before.items()}
    assert after["parts.py"] == before["parts.py"]
    jsonschema.validate(done.report, SCHEMA, jsonschema.Draft202012Validator)
    assert done.code == 1
    assert fixes(done.report) == {
        "anomaly-detection-left-on": ("confirmed", "proven"),
        "missing-zero-grad": ("confirmed", "proven"),
        "retain-graph-in-loop": ("confirmed", "proven"),
        "undetached-accumulation": ("confirmed", "proven"),
        "empty-cache-in-loop": ("inconclusive", "nothing-to-prove"),
    }
    comparison = done.report["comparison"]
    assert comparison["order"] == ["as it is", "with the fixes"]
    quantities = {item["name"]: (item["before"], item["after"]) for item in comparison["quantities"]}
    assert quantities["steps"] == (20, 20)
    assert quantities["extra live graphs per step"] == (1, 0)
    assert quantities["first loss"][0] == quantities["first loss"][1]
    assert quantities["last loss"][0] != quantities["last loss"][1]
    assert len(comparison["losses"]["before"]) == 20
    totals = [line for line in done.errors.splitlines() if line.startswith("total")]
    assert [line.split()[2:] for line in totals] == [[str(tmp_path / "train.py"), "None"]] * 2


def test_under_pytest_with_a_module_whose_bytecode_is_there(
    tmp_path: Path, verify: Callable[..., Any], training: str
) -> None:
    """Pytest has bytecode of test modules of its own; the change in place, in a module, fails a test."""
    (tmp_path / "lab.py").write_text(INPLACE)
    test = training.replace("def train(steps)", "def test_training(steps=9)")
    (tmp_path / "test_it.py").write_text(f"import lab\n{test}\n\ndef test_lab():\n    lab.train(5)\n")
    command = [sys.executable, "-m", "pytest", "-q", "test_it.py"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([*command, "--collect-only"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert len(list((tmp_path / "__pycache__").iterdir())) == 2
    before = snapshot(tmp_path)
    done = verify("", "--fixed", command=command, environment={"PYTHONDONTWRITEBYTECODE": ""})
    assert fixes(done.report) == {
        "inplace-on-saved-tensor": ("confirmed", "proven"),
        "missing-zero-grad": ("confirmed", "proven"),
    }
    codes = done.report["program"]["exit_code"], done.report["comparison"]["fixed_program"]["exit_code"]
    assert codes == (1, 0)
    after = snapshot(tmp_path)
    assert {name: after[name] for name in before} == before


def test_a_fixed_program_that_fails(verify: Callable[..., Any]) -> None:
    done = verify(USED_AFTER_ALL, "--fixed")
    assert fixes(done.report) == {"retain-graph-in-loop": ("confirmed", "not-proven")}
    assert "the program failed with the fixes: exit code 1: RuntimeError: Trying to backward" in reasons(done.report)[0]
    assert done.code == 1


def test_nothing_to_fix_runs_once(verify: Callable[..., Any]) -> None:
    done = verify(NO_FIX, "--fixed")
    assert fixes(done.report) == {"cleared-before-step": ("confirmed", "no-fix")}
    assert done.report["comparison"] is None
    assert "ran once" in " ".join(done.report["notes"])
    assert done.errors.count("writing evidence to") == 1
    jsonschema.validate(done.report, SCHEMA, jsonschema.Draft202012Validator)


def test_an_interrupted_second_run(verify: Callable[..., Any], training: str) -> None:
    done = verify(training + INTERRUPTED + "train(9)\n", "--fixed")
    assert done.code == 130
    assert fixes(done.report) == {"missing-zero-grad": ("confirmed", "not-proven")}
    assert "interrupted by SIGINT" in reasons(done.report)[0]


@pytest.mark.parametrize("other", [["--findings", "train.py"], ["--evidence", "."]])
def test_fixes_come_from_linting(tmp_path: Path, other: list[str]) -> None:
    (tmp_path / "train.py").write_text("")
    command = [sys.executable, "-m", "torchlint", "verify", "--fixed", *other, "--yes", "--", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "leave out --findings and --evidence" in done.stderr

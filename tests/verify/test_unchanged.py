"""A verified program comes out the same: weights and random state to the bit, exit code, output, and its own hooks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

PROGRAM = """\
import hashlib, random, sys
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.3), nn.Sigmoid(), nn.Linear(32, 1))
optimizer = torch.optim.{optimizer}
losses, best = [], None
for step in range(30):
    def closure():
        {clear}
        loss = (model(torch.randn(16, 8)) - 1).pow(2).mean()
        loss.backward(retain_graph=True)
        return loss
    loss = optimizer.step(closure)
    losses.append(loss)
    with torch.no_grad():
        best = model(torch.randn(16, 8)).mean()
    torch.cuda.empty_cache()
digest = hashlib.sha256()
for value in (*model.state_dict().values(), best, torch.get_rng_state()):
    digest.update(value.numpy().tobytes())
open(sys.argv[1], "w").write(digest.hexdigest() + str(random.random() * 0))
print("the end")
sys.exit(7)
"""


@pytest.mark.parametrize(
    ("optimizer", "clear"),
    [
        ("Adam(model.parameters())", "optimizer.zero_grad()"),
        ("Adam(model.parameters())", "pass"),
        ("LBFGS(model.parameters(), lr=0.1, max_iter=3)", "optimizer.zero_grad(set_to_none=False)"),
    ],
)
def test_weights_and_random_state(tmp_path: Path, verify: Callable[..., Any], optimizer: str, clear: str) -> None:
    program = PROGRAM.format(optimizer=optimizer, clear=clear)
    (tmp_path / "train.py").write_text(program)
    alone = subprocess.run([sys.executable, "train.py", "alone"], cwd=tmp_path, capture_output=True, text=True)
    command = [sys.executable, "train.py", "verified"]
    done = verify(program, "--max-steps", "0", command=command)
    assert (tmp_path / "verified").read_text() == (tmp_path / "alone").read_text()
    assert (alone.returncode, done.report["program"]["exit_code"]) == (7, 7)
    assert "the end" in done.errors
    assert done.report["findings"]
    assert {finding["verdict"] for finding in done.report["findings"]} - {"not-reached"}


def test_no_file_of_the_program_changes(tmp_path: Path, verify: Callable[..., Any], training: str) -> None:
    program = training + "train(5)\n"
    (tmp_path / "train.py").write_text(program)
    verify(program, environment={"PYTHONDONTWRITEBYTECODE": "1"})
    assert os.listdir(tmp_path) == ["train.py"]
    assert (tmp_path / "train.py").read_text() == program

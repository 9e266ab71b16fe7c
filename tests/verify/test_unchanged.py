"""A verified program comes out the same: weights and random state to the bit, exit code, output, and its own hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.needs("torch"), pytest.mark.halved]

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


WATCHED = """\
import hashlib, sys
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x):
        h = nn.LayerNorm(16)(self.body(x))  # module-created-in-forward
        return self.head(F.dropout(h, 0.3)).softmax(1)  # dropout-ignores-mode


@torch.jit.script
def distance(one, other):
    return F.cross_entropy(one, other)


net, made = Net(), nn.Linear(2, 8)
optimizer = torch.optim.Adam([*net.parameters(), *made.parameters()])
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 9)  # scheduler-never-stepped
for step in range(20):
    net.train()
    x, y = made(torch.randn(16, 2)), torch.randint(3, (16,))
    scores = net(x)  # generator-graph-in-discriminator-step
    loss = F.cross_entropy(scores, y)  # softmax-before-cross-entropy
    loss = loss + distance(scores, y)  # softmax-before-cross-entropy
    loss.detach()  # discarded-result
    optimizer.zero_grad()
    loss.backward()  # nonscalar-backward
    nn.utils.clip_grad_norm_((leaf for leaf in net.parameters()), 0.1)  # clip-outside-step
    if step % 2 == 0:  # lopsided-accumulation
        optimizer.step()
    net.eval()  # training-in-eval-mode
    mean = net(x).mean()  # evaluation-with-grad
digest = hashlib.sha256()
for value in (*net.state_dict().values(), *made.state_dict().values(), mean.detach(), torch.get_rng_state()):
    digest.update(value.numpy().tobytes())
open(sys.argv[1], "w").write(digest.hexdigest())
"""


def test_weights_and_random_state_where_much_is_watched(tmp_path: Path, verify: Callable[..., Any]) -> None:
    (tmp_path / "train.py").write_text(WATCHED)
    lines = WATCHED.splitlines()
    found = [(number, line.partition("# ")[2]) for number, line in enumerate(lines) if "# " in line]
    (tmp_path / "findings.json").write_text(json.dumps([published(tmp_path / "train.py", found)]))
    subprocess.run([sys.executable, "train.py", "alone"], cwd=tmp_path, check=True)
    options = ("--findings", "findings.json", "--max-steps", "0")
    done = verify(WATCHED, *options, command=[sys.executable, "train.py", "verified"])
    assert (tmp_path / "verified").read_text() == (tmp_path / "alone").read_text()
    assert len(done.report["findings"]) == len(found)
    assert "not-reached" not in done.verdicts
    assert not [note for note in done.report["notes"] if "problem" in note]


def published(path: Path, found: Sequence[tuple[int, str]]) -> dict[str, Any]:
    """Findings of rules on lines, from 0, as torchlint writes them."""
    diagnostics = [
        {
            "range": {"start": {"line": line, "character": 4}, "end": {"line": line, "character": 5}},
            "severity": 1,
            "code": "TL000",
            "message": "",
            "relatedInformation": [],
            "data": {"name": rule, "confidence": "high", "help": "", "fingerprint": ""},
        }
        for line, rule in found
    ]
    return {"uri": path.as_uri(), "diagnostics": diagnostics}

"""Running `torchlint verify` as a user would, on small programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_TRAINING = """\
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train(steps):
    for _ in range(steps):
        x = torch.randn(8, 4)
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
"""


@dataclass(frozen=True)
class Done:
    """The result of a run of `torchlint verify`."""

    code: int
    report: dict[str, Any]
    errors: str

    @property
    def verdicts(self) -> list[str]:
        return [finding["verdict"] for finding in self.report["findings"]]


@pytest.fixture
def training() -> str:
    """A program with a bug that `torchlint` finds: nobody clears the gradients. Nothing calls `train` yet."""
    return _TRAINING


def _start(
    folder: Path, command: Sequence[str], *options: str, environment: dict[str, str] | None = None, **keywords: Any
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "torchlint", "verify", "--yes", "--format", "json", *options, "--", *command],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", **(environment or {})},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **{"stdin": subprocess.DEVNULL, **keywords},
    )


def _finish(process: subprocess.Popen[str], text: str | None = None, timeout: float = 120) -> Done:
    output, errors = process.communicate(text, timeout=timeout)
    assert output, errors
    return Done(process.returncode, json.loads(output), errors)


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[str]]:
    """Starts `torchlint verify` in a folder, on a command, with its report as JSON."""
    return _start


@pytest.fixture
def finish() -> Callable[..., Done]:
    """Waits for the end of such a run, and reads its report."""
    return _finish


@pytest.fixture
def verify(tmp_path: Path) -> Callable[..., Done]:
    """Runs `torchlint verify` on a program that is written to `train.py` in an empty folder."""

    def verify(
        program: str, *options: str, command: Sequence[str] = (), text: str | None = None, **keywords: Any
    ) -> Done:
        (tmp_path / "train.py").write_text(program, "utf-8")
        if text is not None:
            keywords["stdin"] = subprocess.PIPE
        return _finish(_start(tmp_path, command or [sys.executable, "train.py"], *options, **keywords), text)

    return verify

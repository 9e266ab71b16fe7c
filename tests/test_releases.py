"""Rules about PyTorch's changes speak of the releases that a project asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from torchlint import SourceFile, lint, select
from torchlint.cli import cli
from torchlint.pytorch.releases import CURRENT, Release, Releases

OLD = b"import torch\nvalues = torch.symeig(torch.eye(2))\n"


def found(code: bytes, rule: str, lowest: Release, highest: Release = CURRENT) -> list[tuple[str, bool]]:
    """The names of the findings, and whether each has a fix."""
    findings = lint(SourceFile("a.py", code), select([rule], torch=Releases(lowest, highest)))
    return [(finding.name, finding.fix is not None) for finding in findings]


def test_what_the_newest_release_has_removed_is_reported() -> None:
    assert found(OLD, "removed-api", (1, 7)) == [("removed-api", False)]
    assert found(OLD, "removed-api", (1, 7), (1, 13)) == []


def test_a_fix_needs_a_replacement_in_the_lowest_release() -> None:
    code = b"import torch\nrank = torch.matrix_rank(torch.eye(2))\n"
    assert found(code, "removed-api", (1, 8)) == [("removed-api", True)]
    assert found(code, "removed-api", (1, 7)) == [("removed-api", False)]


def test_loading_is_unsafe_in_old_releases() -> None:
    code = b"import torch\nstate = torch.load(path, map_location='cpu')\n"
    assert found(code, "unsafe-load", (2, 5)) == [("unsafe-load", True)]
    assert found(code, "unsafe-load", (2, 6)) == []
    assert found(b"import torch\nstate = torch.load(path, None, pickle)\n", "unsafe-load", (2, 5)) == []


def test_schedulers_stepped_first_before_1_1() -> None:
    code = (
        b"import torch\n"
        b"def train(model, loader):\n"
        b"    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        b"    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)\n"
        b"    for epoch in range(9):\n"
        b"        scheduler.step()\n"
        b"        for x in loader:\n"
        b"            optimizer.zero_grad()\n"
        b"            model(x).mean().backward()\n"
        b"            optimizer.step()\n"
    )
    assert found(code, "scheduler-before-optimizer", (1, 0), (1, 1)) == [("scheduler-before-optimizer", False)]
    assert found(code, "scheduler-before-optimizer", (1, 0), (1, 0)) == []


def test_a_checkpoint_warns_since_2_1() -> None:
    code = b"from torch.utils.checkpoint import checkpoint\ndef forward(block, x):\n    return checkpoint(block, x%s)\n"
    assert found(code % b"", "reentrant-checkpoint", (1, 13)) == [("reentrant-checkpoint", True)]
    assert found(code % b"", "reentrant-checkpoint", (1, 13), (2, 0)) == []
    assert found(code % b", scale=2", "reentrant-checkpoint", (1, 13), (2, 0)) == [("reentrant-checkpoint", True)]
    assert found(code % b", scale=2", "reentrant-checkpoint", (1, 7), (1, 10)) == []


SCHEDULER = b"import torch\ns = torch.optim.lr_scheduler.StepLR(optimizer, 3, verbose=%s)\n"


def test_verbose_warns_from_2_2_to_2_6() -> None:
    for value in (b"True", b"False", b"args.verbose"):
        code = SCHEDULER % value
        for highest in ((2, 2), (2, 6)):
            assert found(code, "deprecated-api", (2, 0), highest) == [("deprecated-api", True)]
            assert found(code, "removed-api", (2, 0), highest) == []
        for highest in ((2, 7), CURRENT):
            assert found(code, "deprecated-api", (2, 0), highest) == []
            assert found(code, "removed-api", (2, 0), highest) == [("removed-api", True)]
        assert found(code, "deprecated-api", (1, 13), (2, 1)) == []
    assert found(SCHEDULER % b"None", "deprecated-api", (2, 2), (2, 6)) == []
    assert found(b"import torch\ns = StepLR(optimizer, 3, verbose=True)\n", "deprecated-api", (2, 2), (2, 6)) == []


MASK = b"import torch\ndef f(scores):\n    x = scores.softmax(-1)\n    %s\n    return x\n"


@pytest.mark.parametrize(
    ("statement", "highest", "rule"),
    [
        (b"x = x[(x > 0).byte()]", (1, 2), "deprecated-api"),
        (b"x = x[(x > 0).byte()]", CURRENT, "deprecated-api"),
        (b"x = x[(x > 0).byte()]", (1, 1), ""),
        (b"x[(x > 0).byte()] = 0", (1, 1), ""),
        (b"x[(x > 0).byte()] = 0", (2, 0), "deprecated-api"),
        (b"x[(x > 0).byte()] = 0", (2, 1), "removed-api"),
        (b"x[(x > 0).byte()] = -float('inf')", CURRENT, "removed-api"),
        (b"x[:, (x > 0).byte()] = torch.inf", CURRENT, "removed-api"),
        (b"x[(x > 0).byte()] = scores", CURRENT, ""),
        (b"x[(x > 0).byte()] -= 1", CURRENT, "deprecated-api"),
    ],
)
def test_masks_of_bytes(statement: bytes, highest: Release, rule: str) -> None:
    for name in ("deprecated-api", "removed-api"):
        expected = [(name, False)] if name == rule else []
        assert found(MASK % statement, name, min((1, 2), highest), highest) == expected


def test_a_project_that_runs_on_releases_without_booleans_keeps_bytes() -> None:
    assert found(MASK % b"x = x[(x > 0).byte()]", "deprecated-api", (1, 1)) == []


@pytest.mark.parametrize("argument", [".", "sub", "sub/a.py"])
def test_the_files_named_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.py").write_bytes(OLD)
    command = ["--select", "removed-api", "--output-format", "concise", argument]
    assert "TL801" in CliRunner().invoke(cli, command).output
    (tmp_path / "requirements.txt").write_text("torch==1.7.1\n")
    assert "TL801" not in CliRunner().invoke(cli, command).output
    (tmp_path / "requirements.txt").write_text("torch>=1.7.1\n")
    assert "TL801" in CliRunner().invoke(cli, command).output


def test_what_autograd_saves_is_that_of_the_release() -> None:
    code = b"""\
import torch

def train(model, x, optimizer):
    y = torch.relu(model(x))
    y += 1
    y.sum().backward()
    optimizer.step()
"""
    assert found(code, "inplace-on-saved-tensor", (1, 3), (1, 7)) == []
    assert found(code, "inplace-on-saved-tensor", (1, 3), (1, 10)) == [("inplace-on-saved-tensor", True)]


def test_full_gives_integers_since_1_7() -> None:
    code = b"""\
import torch
import torch.nn.functional as F

def loss(scores):
    return F.binary_cross_entropy(scores, torch.full((4, 1), 1))
"""
    assert found(code, "loss-target-dtype", (1, 1), (1, 1)) == []
    assert found(code, "loss-target-dtype", (1, 1), (1, 7)) == [("loss-target-dtype", False)]

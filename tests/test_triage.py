"""The coarse reading that decides whether a file is parsed for changes in place: never wrongly no, and mostly no."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from torchlint import SourceFile, lint, select, triage

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures").glob("*/*.py"))
MODULE = """\
import torch
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.act = nn.Sigmoid()
        self.drop = nn.Dropout(0.5, inplace=True)
        self.layers = nn.ModuleList([nn.Linear(dim, dim)])
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x, n: int):
{}
        return x

def bump(t):
    t += 1
"""


def in_forward(code: str) -> bytes:
    return MODULE.format(indent(code, " " * 8)).encode()


@pytest.mark.parametrize(
    "code",
    [
        "x = self.fc(x).sigmoid()\nx += 1",
        "x = torch.softmax(self.fc(x), dim=-1)\nx *= 2",
        "x = self.act(self.fc(x))\nx[0] = 0",
        "x = self.act(self.fc(x))\nx = self.drop(x)",
        "y = self.fc(x)\nz = self.fc(y)\ny.add_(z)",
        "y = self.fc(x)\nz = y * x\ny[..., 0] -= z.sum()",
        "y = self.fc(x)\nv = y.view(-1)\nx = y**2\nv += 1",
        "y = self.fc(x)\nx = F.relu(y, inplace=True)\nx = x + y",
        "for layer in self.layers:\n    y = layer(x)\n    x = y.exp()\n    x.mul_(2)",
        "x = self.layers[0](x)\ny = torch.exp(x)\nif n:\n    y -= 1\nx = y",
        "y = torch.exp(self.fc(x))\nbump(y)",
        "y = self.fc(x)\nz = y.pow(2)\ntorch.add(z, 1, out=y)",
        "y = 1 / self.fc(x)\ny += 1",
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_what_may_have_been_saved(code: str, newline: str) -> None:
    assert triage.may_change_saved_tensor(in_forward(code).replace(b"\n", newline.encode()))


@pytest.mark.parametrize(
    "code",
    [
        "x = self.fc(x)\nx += 1",
        "n += 1\nx = self.fc(x) * n",
        "out = torch.zeros(3)\nout[0] = 1\nx = self.fc(x)",
        "counts = {}\ncounts['a'] = self.fc(x)\ncounts['a'] = 2",
        "parts = [self.fc(x)]\nparts += [x]\nparts[0] = x.exp()",
        "y = self.fc(x)\ny = y + 1\ny -= 2\nx = y",
        "mask = x > 0\nmask[0] = False\nx = self.fc(x) * mask",
        "for layer in self.layers:\n    x = layer(x)\n    x = x.clone()\n    x[0] = 0",
        "nn.init.normal_(self.fc.weight)",
        "total = 0\nfor i in range(n):\n    total += i * n",
    ],
)
def test_what_cannot_have_been_saved(code: str) -> None:
    assert not triage.may_change_saved_tensor(in_forward(code))


@pytest.mark.parametrize("code", ["self.scale += 1", "self.fc.weight.mul_(2)", "self.scale[0] = 1"])
def test_leaves(code: str) -> None:
    assert triage.may_change_leaf(in_forward(code))


@pytest.mark.parametrize(
    "code",
    [
        "with torch.no_grad():\n    self.scale += 1",
        "self.scale.data += 1",
        "nn.init.zeros_(self.fc.bias)",
        "y = self.scale * 2\ny += 1",
    ],
)
def test_no_leaves(code: str) -> None:
    assert not triage.may_change_leaf(in_forward(code))


@pytest.mark.parametrize("text", ["", "x += 1", "def f(:\n    x += 1", "import torch\nnn.Linear(\n", "\0"])
def test_little_and_broken_input(text: str) -> None:
    triage.may_change_saved_tensor(text.encode())
    triage.may_change_leaf(text.encode())


def test_what_cannot_be_read_is_parsed() -> None:
    broken = in_forward("x = (self.fc(x)\nx += 1")
    assert triage.may_change_saved_tensor(broken) and triage.may_change_leaf(broken)


def test_never_wrongly_no(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the rules find in the fixtures, the coarse reading does not rule out."""
    selection = select(["TL301", "TL302"])
    for rule in selection.rules:
        monkeypatch.setattr(rule, "is_worth_a_parse", lambda data: True)
    found = 0
    for path in FIXTURES:
        source = SourceFile(str(path), path.read_bytes())
        names = {finding.code for finding in lint(source, selection)}
        steps = b"backward(" in source.code and b"step(" in source.code
        assert "TL301" not in names or steps or triage.may_change_saved_tensor(source.code), path
        assert "TL302" not in names or triage.may_change_leaf(source.code), path
        found += len(names)
    assert found > 10

"""Uses of an attribute in other files: calls change nothing, other uses may."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from torchlint.cli import cli

AGENT = """\
import copy

import torch
from torch import nn


class Agent:
    def __init__(self, gamma):
        self.gamma, self.q = gamma, nn.Linear(4, 2)
        self.target = copy.deepcopy(self.q)
        self.optimizer = torch.optim.Adam(self.q.parameters())

    def learn(self, state, reward, after):
        loss = (self.q(state) - reward - self.gamma * self.target(after).detach()).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
USES = {
    "print(Agent(0.9).target(torch.ones(4)))": True,
    "Agent(0.9).target.load_state_dict(weights)": False,
    "follow(Agent(0.9).target)": False,
    "network = Agent(0.9).target": False,
}


@pytest.mark.parametrize(("use", "is_stale"), USES.items())
def test_only_calls_elsewhere_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str, is_stale: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "play.py").write_text(f"import torch\nfrom agent import Agent\n\n{use}\n")
    arguments = ["check", ".", "--isolated", "--no-cache", "--preview", "--select", "TL342"]
    result = CliRunner().invoke(cli, [*arguments, "--output-format", "concise"])
    assert ("never-updated-average" in result.output) is is_stale

"""The help of findings: it must not ask for something that is there, or that raises."""

from __future__ import annotations

import pytest

from torchlint import Finding, SourceFile
from torchlint.engine import examination, registry
from torchlint.engine.registry import Selection


def find(rule: str, text: str) -> list[Finding]:
    """The findings of one rule in a file, those of a preview included."""
    rules = tuple(item for item in registry.rules() if item.rule_name() == rule)
    return examination.lint(SourceFile("file.py", text.encode()), Selection(rules, frozenset(), {}))


SCHEDULED = """\
import torch
from torch.optim import lr_scheduler

def made(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return optimizer, lr_scheduler.{scheduler}(optimizer)

def train(net, loader):
    {statement}
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
"""
IN_PLACE = "optimizer = torch.optim.SGD(net.parameters())\n    plan = lr_scheduler.{scheduler}(optimizer)"
HANDED_OVER = "optimizer, plan = made(net)"


@pytest.mark.parametrize("statement", [IN_PLACE, HANDED_OVER])
@pytest.mark.parametrize(
    ("scheduler", "call"), [("CosineAnnealingLR", "`plan.step()`"), ("ReduceLROnPlateau", "`plan.step(metric)`")]
)
def test_a_scheduler_that_watches_a_metric_needs_it(statement: str, scheduler: str, call: str) -> None:
    statement = statement.format(scheduler=scheduler)
    (finding,) = find("scheduler-never-stepped", SCHEDULED.format(statement=statement, scheduler=scheduler))
    assert finding.help is not None
    assert call in finding.help


UNUSED = """\
import torch
from torch import nn

def train(loader):
    encoder, head = nn.Linear(4, 4), nn.Linear(4, 1)
    of_encoder, of_head = torch.optim.Adam(encoder.parameters()), torch.optim.Adam(head.parameters())
    for x, y in loader:
        of_encoder.zero_grad()
        of_head.zero_grad()
        features = encoder(x).detach()
        loss = nn.functional.mse_loss(head(features), y)
        loss.backward()
        of_head.step()
        of_encoder.step()
"""


def test_a_loss_that_does_not_depend_on_the_parameters_went_backward() -> None:
    (finding,) = find("step-without-backward", UNUSED)
    assert "does not depend on its parameters" in finding.message
    assert [item.span.start.line for item in finding.related] == [12]
    assert finding.help is not None
    assert "on a loss that uses the parameters" in finding.help

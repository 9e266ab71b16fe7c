"""A run keeps nothing of the files that are done."""

from __future__ import annotations

import gc

from torchlint.engine.examination import lint
from torchlint.engine.registry import select
from torchlint.files.source import SourceFile
from torchlint.model.definitions import ClassInfo

CODE = """
import torch
from torch import nn


class Loss{number}(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.ones(3))

    def forward(self, x, y):
        return ((x - y) * self.weight).sum()


def train(model, loader):
    criterion = Loss{number}()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss
    return total
"""


def test_classes_of_files_that_are_done_are_let_go_of() -> None:
    for number in range(20):
        assert lint(SourceFile(f"file{number}.py", CODE.format(number=number).encode()), select())
    gc.collect()
    names = {f"Loss{number}" for number in range(20)}
    # isinstance would ask each object of the process, of which some of torch's warn when they are asked.
    alive = [item for item in gc.get_objects() if type(item) is ClassInfo and item.name in names]
    assert len(alive) <= 4

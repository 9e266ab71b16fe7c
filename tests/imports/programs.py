"""Repositories of a few files, written for a test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

BACKWARD = "def back(loss):\n    loss.backward()\n"
LOOP = """\
import torch
{imports}

def train(model, loader):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = (model(x) - y).pow(2).mean()
        {call}(loss)
        opt.step()
"""


def loop(imports: str = "from helpers import back", call: str = "back") -> str:
    """A loop that never clears; it goes backward by a call of something imported."""
    return LOOP.format(imports=imports, call=call)


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, by path; `.git` makes the folder a repository."""
    (folder / ".git").mkdir(exist_ok=True, parents=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

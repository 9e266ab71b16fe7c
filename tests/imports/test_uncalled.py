"""Code that a script defines and never calls has no cost: findings about cost are previews there."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from torchlint.cli import cli

EVALUATE = """\
import torch

def evaluate(model, loader):
    model.eval()
    right = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
    return right

"""
MAIN = 'if __name__ == "__main__":\n    main()\n'


def codes(repository: Path, script: str, **others: str) -> list[str]:
    """The codes of what is found in a script beside other files of a repository."""
    for name, text in {"script": script, **others}.items():
        (repository / f"{name}.py").write_text(text, "utf-8")
    result = CliRunner().invoke(cli, ["script.py", "--output-format", "concise", "--no-cache"])
    return [line.split()[1] for line in result.stdout.splitlines() if line.startswith("script.py")]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


CALLED = {
    "by what runs": "def main():\n    evaluate(torch.nn.Linear(2, 2), [])\n\n" + MAIN,
    "by its name in a table": "def main():\n    {'evaluate': evaluate}['evaluate'](torch.nn.Linear(2, 2), [])\n\n"
    + MAIN,
    "by a word": "def main():\n    getattr(torch, 'evaluate')\n\n" + MAIN,
    "by whoever exports it": "__all__ = ['evaluate']\n\ndef main():\n    print()\n\n" + MAIN,
    "by a command line": "import fire\n\nif __name__ == '__main__':\n    fire.Fire()\n",
    "by anybody, since nothing runs here": "def main():\n    print()\n",
    "by anybody, since what runs is a library's": "torch.manual_seed(0)\n\nclass Net:\n    pass\n\nNETS = {1: Net}\n",
}
UNCALLED = {
    "by none": "def main():\n    print()\n\n" + MAIN,
    "by what is not called either": "def test():\n    evaluate(None, [])\n\ndef main():\n    print()\n\n" + MAIN,
    "by a method of the same name": "def main():\n    torch.nn.Linear(2, 2).evaluate()\n\n" + MAIN,
    "by a comment": "def main():\n    print()  # evaluate(model, loader)\n\n" + MAIN,
    "by itself": "def again(model):\n    again(model)\n    evaluate(model, [])\n\n"
    + "def main():\n    print()\n\nmain()\n",
}


@pytest.mark.parametrize("rest", CALLED.values(), ids=CALLED)
def test_called(rest: str, repository: Path) -> None:
    assert codes(repository, EVALUATE + rest) == ["TL204"]


@pytest.mark.parametrize("rest", UNCALLED.values(), ids=UNCALLED)
def test_uncalled(rest: str, repository: Path) -> None:
    assert codes(repository, EVALUATE + rest) == []


@pytest.mark.parametrize(
    "text", ["from script import evaluate\n", "import script\n", "from lib . script import *\n", "import a, script\n"]
)
def test_a_file_that_is_imported_is_called_by_others(text: str, repository: Path) -> None:
    script = EVALUATE + UNCALLED["by none"]
    assert codes(repository, script, other=text) == ["TL204"]
    assert codes(repository, script, other="# a script\n") == []


def test_what_is_wrong_wherever_it_stands_is_reported(repository: Path) -> None:
    train = """\
import torch

def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

if __name__ == "__main__":
    print("done")
"""
    assert codes(repository, train) == ["TL101"]


CLASS = """\
import torch

class Trainer{bases}:
    def __init__(self, model):
        self.model = model

    {decorator}
    def evaluate(self, loader):
        self.model.eval()
        return sum((self.model(x).argmax(1) == y).sum().item() for x, y in loader)

    def train(self):
        print()

Trainer(torch.nn.Linear(2, 2)).{method}
"""


@pytest.mark.parametrize(
    ("bases", "decorator", "method", "is_called"),
    [
        ("", "", "evaluate(torch.load('data.pt'))", True),
        ("", "", "train()", False),
        ("", "@torch.enable_grad()", "train()", False),
        ("", "@register", "train()", True),
        ("(Framework)", "", "train()", True),
        ("(object)", "", "train()", False),
    ],
)
def test_methods(bases: str, decorator: str, method: str, is_called: bool, repository: Path) -> None:
    script = CLASS.format(bases=bases, decorator=decorator, method=method)
    assert codes(repository, script) == (["TL204"] if is_called else [])

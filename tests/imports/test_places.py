"""A finding stands in the file where it happens, if the run lints that file; else at the call that leads there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.imports.programs import write
from torchlint.cli import cli
from torchlint.files.source import SourceFile
from torchlint.project.discovery import Target
from torchlint.results import LintedFile, Outcome
from torchlint.run import places

NETS = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1)
"""
ENGINE = """\
import torch.nn.functional as F

def train(net, x, y):
    F.cross_entropy(net(x), y).backward()
"""
SCRIPT = """\
from lib.engine import train
from lib.nets import {net}

train({net}(), x, y)
"""
THERE = f"{Path('lib', 'engine.py')}:4:5: TL501"
HERE = "run.py:4:1: TL501"


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    write(tmp_path, {"lib/nets.py": NETS, "lib/engine.py": ENGINE, "run.py": SCRIPT.format(net="Net")})
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def output(*arguments: str) -> str:
    return CliRunner().invoke(cli, ["check", "--select", "TL501", "--no-cache", *arguments]).stdout


def concise(*arguments: str) -> list[str]:
    lines = output(*arguments, "--output-format", "concise").splitlines()
    return [" ".join(line.split()[:2]) for line in lines if ": " in line]


def test_it_stands_where_it_happens_if_that_file_is_linted() -> None:
    assert concise(".") == [THERE]
    assert concise("run.py", "lib") == [THERE]


def test_it_stands_at_the_call_if_not() -> None:
    assert concise("run.py") == [HERE]
    assert concise("lib") == []
    assert concise(".", "--exclude", "lib/") == [HERE]


def test_its_names_are_those_of_the_file_and_the_call_is_shown() -> None:
    text = output(".")
    assert f"{Path('lib', 'engine.py')}:4:5: error TL501 softmax-before-cross-entropy: cross-entropy expects" in text
    assert f"  {Path('lib', 'nets.py')}:5:16: the softmax is here\n  run.py:4:1: this leads to it\n" in text


def test_a_rule_that_is_off_in_the_other_file_reports_the_call() -> None:
    assert concise(".", "--per-file-ignores", "lib/engine.py:TL501") == [HERE]


@pytest.mark.parametrize(("file", "line"), [("lib/engine.py", "y).backward()"), ("run.py", "x, y)\n")])
def test_a_comment_excuses_it_at_either_place(file: str, line: str, repository: Path) -> None:
    text = (repository / file).read_text().rstrip() + "  # torchlint: ignore[TL501]\n"
    (repository / file).write_text(text)
    assert concise(".") == []
    assert concise("run.py") == []
    assert concise(".", "--ignore-noqa") == [THERE]


def test_a_baseline_knows_it_at_either_place() -> None:
    output(".", "--baseline", "known.json", "--update-baseline")
    assert concise(".", "--baseline", "known.json") == []
    assert concise("run.py", "--baseline", "known.json") == []


def test_two_causes_are_two_findings_and_one_cause_is_one(repository: Path) -> None:
    write(
        repository,
        {
            "lib/nets.py": NETS + NETS.removeprefix("import torch\n").replace("Net(", "Other("),
            "other.py": SCRIPT.format(net="Other"),
            "third.py": SCRIPT.format(net="Other"),
        },
    )
    assert concise(".") == [THERE, THERE]


def test_machines_get_the_same_place() -> None:
    (finding,) = json.loads(output(".", "--output-format", "json-flat"))
    assert (Path(finding["path"]), finding["line"]) == (Path("lib/engine.py"), 4)


def test_a_finding_with_a_fix_stays_in_the_file_that_the_fix_changes(repository: Path) -> None:
    fit = """\
import torch
from lib.helpers import back

def fit(model, loader):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        back((model(x) - y).pow(2).mean())
        opt.step()
"""
    write(repository, {"lib/helpers.py": "def back(loss):\n    loss.backward()\n", "fit.py": fit})
    assert "fit.py:7:9: TL101" in concise("fit.py", "lib/helpers.py", "--select", "TL101")


def test_a_finding_that_the_file_itself_has_is_reported_once(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreting `run.py` and `engine.py` may lead to the same finding, one of them with a fix."""
    at_causes, path = places.at_causes, str(Path("lib", "engine.py"))

    def with_own(outcome: Outcome, targets: Iterable[Target]) -> Outcome:
        (moved,) = (finding for file in at_causes(outcome, targets).files for finding in file.findings)
        own = LintedFile(SourceFile.read(Path(path), path), (replace(moved, elsewhere=()),))
        return at_causes(replace(outcome, files=(*outcome.files, own)), targets)

    monkeypatch.setattr(places, "at_causes", with_own)
    assert concise(".") == [THERE]


TERM = """\
import torch.nn.functional as F

class Agent:
    def loss(self, x):
        out = self.net(x)
        return F.mse_loss(out, x) + out.detach().abs().mean()

def run(agent, x):
    loss = agent.loss(x)
    loss.backward()
"""


def test_a_term_of_another_file_is_reported_at_the_call_that_leads_there(repository: Path) -> None:
    script = "from lib.agent import Agent, run\n\nagent = Agent()\nrun(agent, x)\nprint(agent)\nprint(x)\n"
    write(repository, {"lib/agent.py": TERM, "act.py": script})
    found = [item for item in concise("act.py", "--extend-select", "TL312") if "TL312" in item]
    assert found == ["act.py:4:1: TL312"]

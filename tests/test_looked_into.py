"""Files in which no rule can fire are not parsed: a run says how many were, and an editor parses all of them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.notebooks import notebook
from torchlint import Rule, Selection, SourceFile
from torchlint.cli import cli
from torchlint.engine import registry
from torchlint.engine.examination import examine
from torchlint.engine.looking import looking
from torchlint.outputs import Style, render
from torchlint.project.config import Configurations
from torchlint.project.discovery import Discovery
from torchlint.results import Outcome
from torchlint.run.runner import Means, run

BROKEN = "x y\n"
FILES = {"bad.py": "bad()\n", "broken.py": BROKEN, "clean.py": "x  # not bad\n", "passed.py": "x\n"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Path:
    """The working folder, with a file of each kind, none of which is suspiciously new for the cache."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    later = time.time_ns() + 10**10
    monkeypatch.setattr(time, "time_ns", lambda: later)
    return tmp_path


def last_line(*arguments: str, stdin: str = "") -> str:
    return CliRunner().invoke(cli, arguments, input=stdin).output.splitlines()[-1]


def test_the_last_line_says_how_many(folder: Path) -> None:
    assert last_line() == "1 finding (1 error) in 1 of 4 files, 2 looked into."
    assert last_line("bad.py", "clean.py") == "1 finding (1 error) in 1 of 2 files."
    assert last_line("broken.py", "clean.py", "passed.py") == "No findings in 3 files, 1 looked into."
    assert last_line("broken.py") == "No findings in 1 file, 0 looked into."
    assert last_line("-", stdin=BROKEN) == "No findings in 1 file, 0 looked into."
    assert last_line("--select", "unused-suppression") == "No findings in 4 files, 0 looked into."


@pytest.mark.slow
def test_every_way_of_running_says_the_same(folder: Path) -> None:
    expected = last_line("--no-cache")
    assert [last_line(), last_line()] == [expected] * 2, "without and with what the first has kept"
    (folder / "passed.py").touch()
    (folder / "clean.py").touch()
    assert [last_line(), last_line()] == [expected] * 2, "when only the content is known"
    assert [last_line("--no-cache", "--jobs", "2"), last_line("--no-cache", "--fix")] == [expected] * 2
    with ThreadPoolExecutor(2) as threads:
        outcome = run(Discovery(Configurations()).files([Path(".")]), means=Means(executor=threads))
    assert render("text", outcome, Style()).splitlines()[-1] == expected


def test_an_outcome_need_not_know(folder: Path) -> None:
    assert render("text", Outcome((), 3), Style()) == "No findings in 3 files.\n"
    assert "No findings in 3 files, 2 looked into." in render("html", Outcome((), 3, looked_into=2), Style())


@pytest.mark.parametrize("text", [BROKEN, "print 1\n", f"x = {'(' * 300}\n", "if x:\n\ty\n        z\n"])
def test_an_editor_is_told_of_every_syntax_error(bad_call: type[Rule], text: str) -> None:
    selection = Selection((bad_call,))
    for source in (SourceFile("a.py", text.encode()), SourceFile("a.ipynb", notebook("x", text, "y").encode())):
        assert not examine(source, selection).looked_into
        found = examine(source, selection, always_parse=True)
        assert found.looked_into
        assert [finding.name for finding in found.findings] == ["syntax-error"]


@pytest.mark.parametrize("text", ["", "x\n", "match x:\n    case _: pass\n", "x = not " + "not " * 1_000 + "y\n"])
def test_an_editor_is_told_nothing_of_what_is_right(bad_call: type[Rule], text: str) -> None:
    for source in (SourceFile("a.py", text.encode()), SourceFile("a.ipynb", notebook("x", text, "y").encode())):
        assert examine(source, Selection((bad_call,)), always_parse=True).findings == []


EVALUATION = b"def evaluate(model, loader):\n    model.eval()\n    return [model(x).argmax(1).item() for x in loader]\n"


@pytest.mark.parametrize(
    ("imports", "is_of_torch"),
    [
        (b"import torch\n", True),
        (b"import helpers\n", True),
        (b"import jax\n", False),
        (b"import jax\nimport torch\n", True),
        (b"from flax import linen as nn\n", False),
        (b"import flax\nfrom helpers import *\n", True),
        (b"import jaxtyping\n", True),
        (b"import os, sys  # import jax\n", True),
    ],
)
def test_files_of_other_frameworks_are_not_looked_into(imports: bytes, is_of_torch: bool) -> None:
    rules = looking(registry.select(["evaluation-with-grad"]).rules, imports + EVALUATION)
    assert bool(rules) is is_of_torch

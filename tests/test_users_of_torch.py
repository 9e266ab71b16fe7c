"""How many files use PyTorch; files in which no rule can fire are parsed in an editor only."""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.notebooks import markdown, notebook
from torchlint import Category, Confidence, Rule, Selection, SourceFile
from torchlint.cli import cli
from torchlint.engine import registry
from torchlint.engine.examination import examine
from torchlint.engine.gate import by_words
from torchlint.outputs import Style, render
from torchlint.project.config import Configurations
from torchlint.project.discovery import Discovery
from torchlint.results import Outcome
from torchlint.run.runner import Means, run
from torchlint.syntax.python_ast import called_name, site_of

BROKEN = "x y\n"
FILES = {
    "bad.py": "import torch\nbad()\n",
    "broken.py": BROKEN,
    "clean.py": "from lightning import Trainer  # not bad\n",
    "passed.py": "torch = 1\n",
}


class Doubted(Rule):
    """A call of `bad`, and perhaps one of `maybe`."""

    code = "XX001"
    category = Category.CORRECTNESS
    triggers = ((b"bad", b"maybe"),)

    def ask(self) -> Iterator[ast.Call]:
        return (call for call in self.model.tree.of_type(ast.Call) if called_name(call) in ("bad", "maybe"))

    def report_Call(self, call: ast.Call) -> None:
        is_sure = called_name(call) == "bad"
        self.report(site_of(call), "called", confidence=Confidence.HIGH if is_sure else Confidence.LOW)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a file of each kind, none of which is suspiciously new for the cache."""
    monkeypatch.setattr(registry, "rules", lambda: (Doubted,))
    if sys.platform == "linux":  # only forked processes know the rule
        monkeypatch.setattr("torchlint.run.process_pool.may_fork", lambda: True)
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    later = time.time_ns() + 10**10
    monkeypatch.setattr(time, "time_ns", lambda: later)
    return tmp_path


def last_line(*arguments: str, stdin: str = "") -> str:
    return CliRunner().invoke(cli, arguments, input=stdin).output.splitlines()[-1]


def test_the_last_line_says_how_many(folder: Path) -> None:
    assert last_line() == "1 finding (1 error) in 1 of 4 files; 2 files use PyTorch."
    assert last_line("bad.py", "clean.py") == "1 finding (1 error) in 1 of 2 files."
    assert last_line("broken.py", "clean.py", "passed.py") == "No findings in 3 files; 1 file uses PyTorch."
    assert last_line("broken.py") == "No findings in 1 file; no file uses PyTorch."
    assert last_line("-", stdin=BROKEN) == "No findings in 1 file; no file uses PyTorch."
    assert last_line("-", stdin="import torch\n") == "No findings in 1 file."
    assert last_line("--select", "unused-suppression") == "No findings in 4 files; 2 files use PyTorch."


def test_what_is_found_by_a_rule_uses_torch_without_an_import(folder: Path) -> None:
    (folder / "bad.py").write_text("bad()\n")
    (folder / "broken.py").write_bytes(b"\0")
    assert last_line("bad.py") == "1 finding (1 error) in 1 of 1 file."
    assert last_line("broken.py") == "1 finding (1 error) in 1 of 1 file; no file uses PyTorch."


def every_way_of_running() -> Iterator[str]:
    """The last line without a cache, with what the first run has kept, by content only, and with fixes."""
    yield last_line("--no-cache")
    yield from (last_line(), last_line())
    for name in FILES:
        Path(name).touch()
    yield from (last_line(), last_line("--no-cache", "--fix"))


def test_the_cache_knows_it(folder: Path) -> None:
    assert len(set(every_way_of_running())) == 1


@pytest.mark.slow
def test_other_processes_and_machines_know_it(folder: Path) -> None:
    (folder / "maybe.py").write_text("maybe()\n")
    expected = last_line("--no-cache")
    assert "2 files use PyTorch. --preview shows at least 1 more." in expected
    assert last_line("--no-cache", "--jobs", "2") == expected
    with ThreadPoolExecutor(2) as threads:
        outcome = run(Discovery(Configurations()).files([Path(".")]), means=Means(executor=threads))
    assert render("text", outcome, Style()).splitlines()[-1] == expected


def test_an_outcome_need_not_know(folder: Path) -> None:
    assert render("text", Outcome((), 3), Style()) == "No findings in 3 files.\n"
    assert "No findings in 3 files; 2 files use PyTorch." in render("html", Outcome((), 3, users=2), Style())


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import torch\n", True),
        ("import os, torch.nn as nn\n", True),
        ("if x:\n\tfrom torchvision.models import (\n\tresnet18)\n", True),
        ("from pytorch_lightning import Trainer\n", True),
        ("import lightning.pytorch as pl\n", True),
        ("from accelerate import Accelerator\n", True),
        ("from mylib import torch_utils\n", True),
        ("import numpy as np  # not torch\n", False),
        ("x = 'import torch'\n", False),
        ("from flashtorch import x\n", False),
        ("import accelerated\n", False),
        ("", False),
    ],
)
def test_an_import_makes_a_user(code: str, expected: bool) -> None:
    assert examine(SourceFile("a.py", code.encode()), Selection(())).tally.uses_torch is expected
    text = notebook(markdown("import torch"), "%matplotlib inline", code)
    assert examine(SourceFile("a.ipynb", text.encode()), Selection(())).tally.uses_torch is expected


@pytest.mark.parametrize("data", [b"{", b"import torch\n\0", b"\xff\xfei\x00", b"# coding: none\nimport torch\n"])
def test_a_broken_file_is_counted_without_a_crash(data: bytes) -> None:
    is_user = b"import torch" in data
    assert examine(SourceFile("a.py", data), Selection(())).tally.uses_torch is is_user
    assert examine(SourceFile("a.ipynb", data), Selection(())).tally.uses_torch is False


# -- what --preview would add ---------------------------------------------------------------------------


def test_findings_of_low_confidence_are_counted(folder: Path) -> None:
    (folder / "bad.py").write_text("import torch\nbad()\nmaybe()\nmaybe()\nmaybe()  # torchlint: ignore\n")
    said = "1 finding (1 error) in 1 of 4 files; 2 files use PyTorch. --preview shows at least 2 more."
    assert [last_line(), last_line(), last_line("--no-cache")] == [said] * 3
    assert last_line("--preview") == "3 findings (3 errors) in 1 of 4 files; 2 files use PyTorch."
    assert last_line("--select", "doubted") == "3 findings (3 errors) in 1 of 4 files; 2 files use PyTorch."


def test_nothing_is_said_of_them_where_only_new_findings_count(folder: Path) -> None:
    (folder / "bad.py").write_text("import torch\nbad()\nmaybe()\n")
    CliRunner().invoke(cli, ["--baseline", "known.json", "--update-baseline"])
    assert last_line("--baseline", "known.json") == "No new findings in 4 files; 2 files use PyTorch."


# -- editors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [BROKEN, "print 1\n", f"x = {'(' * 300}\n", "if x:\n\ty\n        z\n"])
def test_an_editor_is_told_of_every_syntax_error(bad_call: type[Rule], text: str) -> None:
    selection = Selection((bad_call,))
    for source in (SourceFile("a.py", text.encode()), SourceFile("a.ipynb", notebook("x", text, "y").encode())):
        assert examine(source, selection).findings == []
        found = examine(source, selection, always_parse=True)
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
def test_no_rule_looks_at_files_of_other_frameworks(imports: bytes, is_of_torch: bool) -> None:
    rules = by_words(registry.select(["evaluation-with-grad"]).rules, imports + EVALUATION)
    assert bool(rules) is is_of_torch

"""The command `torchlint verify`: usage, consent, where findings come from, and what it imports."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchlint.cli.verify import _linted
from torchlint.verify import counter
from torchlint.verify.folder import Folder, Limits

ROOT = Path(__file__).parents[2]


def run(folder: Path, *arguments: str, **keywords: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torchlint", "verify", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, **keywords)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either the program to run"),
        (("--evidence", ".", "--", sys.executable), "give either the program to run"),
        (("--evidence", "."), "contains no verification"),
        (("--yes", "--", "no-such-program-at-all"), "there is no such program"),
        (("--yes", "--", "train.py"), "there is no such program; did you mean `python train.py`?"),
        (("--yes", "--max-steps", "-1", "--", sys.executable), "x>=0"),
        (("--evidence", ".", "--select", "no-such-rule"), "unknown rule or category `no-such-rule`"),
        (("--yes", "--findings", "missing.json", "--", sys.executable), "does not exist"),
        (("--stop", "gently", "--", sys.executable), "gently"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stdout == ""


def test_help_teaches(tmp_path: Path) -> None:
    done = run(tmp_path, "--help")
    assert done.returncode == 0
    for word in (
        "confirmed",
        "refuted",
        "not-reached",
        "inconclusive",
        "--findings",
        "Exit codes",
        "without a sandbox",
    ):
        assert word in done.stdout


def test_without_torch_it_says_how_to_install_it(tmp_path: Path) -> None:
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0:
        pytest.skip("torch is installed")
    done = run(tmp_path, "--yes", "--", sys.executable, "train.py")
    assert done.returncode == 2
    assert 'pip install "torchlint[verify]"' in done.stderr


@pytest.mark.needs("torch")
def test_nothing_to_verify_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open('ran', 'w')\n")
    done = run(tmp_path, "--yes", "--", sys.executable, "train.py")
    assert done.returncode == 0
    assert "nothing to verify" in done.stdout
    assert not (tmp_path / "ran").exists()


def test_the_nearest_project_is_linted(tmp_path: Path, verify: Callable[..., Any], training: str) -> None:
    """From the script up to a folder that looks like a project."""
    source = tmp_path / "src"
    source.mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "elsewhere.py").write_text(training + "train(1)\n")
    (source / "script.py").write_text(training + "train(5)\n")
    done = verify("", command=[sys.executable, "src/script.py"])
    paths = [(finding["path"], finding["verdict"]) for finding in done.report["findings"]]
    assert paths == [("elsewhere.py", "not-reached"), (str(Path("src", "script.py")), "confirmed")]


@pytest.mark.parametrize(("select", "preview", "found"), [((), True, 1), (("TL304",), False, 1), ((), False, 0)])
def test_previews_are_verified_where_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, select: tuple[str, ...], preview: bool, found: int
) -> None:
    shutil.copy(ROOT / "fixtures" / "tensor_on_ctx" / "bad.py", tmp_path / "train.py")
    monkeypatch.chdir(tmp_path)
    subjects = _linted(tmp_path, select, preview, False)
    assert any(subject.finding.name == "tensor-on-ctx" for subject in subjects) == bool(found)


@pytest.mark.needs("torch")
def test_findings_of_a_file_keep_their_order_and_need_no_libcst(tmp_path: Path, training: str) -> None:
    second = training.replace("def train", "def other")
    (tmp_path / "train.py").write_text(training + "train(5)\n")
    (tmp_path / "unused.py").write_text(second)
    lint = [sys.executable, "-m", "torchlint", "--output-format", "json", "."]
    linted = json.loads(subprocess.run(lint, cwd=tmp_path, capture_output=True, text=True).stdout)
    (tmp_path / "findings.json").write_text(json.dumps(linted[::-1]))
    (tmp_path / "libcst").mkdir()
    (tmp_path / "libcst" / "__init__.py").write_text("raise ImportError('not here')\n")
    arguments = ["--yes", "--format", "json", "--findings", "findings.json", "--", sys.executable, "train.py"]
    done = run(tmp_path, *arguments, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    report = json.loads(done.stdout)
    assert [finding["path"] for finding in report["findings"]] == ["unused.py", "train.py"]
    assert [finding["verdict"] for finding in report["findings"]] == ["not-reached", "confirmed"]


@pytest.mark.needs("torch")
def test_a_stale_finding_is_said_to_be_one(tmp_path: Path, training: str) -> None:
    (tmp_path / "train.py").write_text(training + "train(5)\n")
    lint = [sys.executable, "-m", "torchlint", "--output-format", "json", "."]
    findings = subprocess.run(lint, cwd=tmp_path, capture_output=True, text=True).stdout
    (tmp_path / "findings.json").write_text(findings)
    (tmp_path / "train.py").write_text("import os\n" + training + "train(5)\n")
    done = run(tmp_path, "--yes", "--findings", "findings.json", "--", sys.executable, "train.py")
    assert "the source has changed since the finding" in done.stdout


@pytest.mark.needs("torch")
def test_the_report_alone_is_on_standard_output(tmp_path: Path, training: str) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "train.py").write_text(training + "print('from the program')\ntrain(5)\n")
    page = tmp_path / "page.html"
    done = run(tmp_path, "--yes", "--report", str(page), "--", sys.executable, "train.py")
    assert done.returncode == 1
    assert "from the program" in done.stderr
    assert "from the program" not in done.stdout
    assert done.stdout.startswith("confirmed  ")
    assert "missing-zero-grad" in page.read_text("utf-8")


@pytest.mark.needs("torch")
@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX")
@pytest.mark.parametrize(("answer", "ran"), [(b"n\n", False), (b"y\n", True)])
def test_a_terminal_is_asked(tmp_path: Path, training: str, answer: bytes, ran: bool) -> None:
    import pty

    (tmp_path / "train.py").write_text(training + "open('ran', 'w').close()\ntrain(5)\n")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "torchlint", "verify", "--", sys.executable, "train.py", "a b"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    os.write(ours, answer)
    output, errors = process.communicate(timeout=120)
    os.close(ours)
    os.close(theirs)
    assert "train.py 'a b'" in errors
    assert (tmp_path / "ran").exists() == ran
    assert ("confirmed" in output) == ran


def notebook_of(*cells: str) -> str:
    """The JSON of a notebook with these code cells, after one of text."""
    code = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells]
    text = {"cell_type": "markdown", "metadata": {}, "source": "# Training"}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [text, *code]})


CELLS = (
    "%matplotlib inline\n!pip install torch\nimport os, sys\nimport torch",
    "model = torch.nn.Linear(8, 1)\nopt = torch.optim.SGD(model.parameters(), lr=0.1)\ndisplay(model, sys.argv[1:])",
    "print(os.listdir())\nfor _ in range(100):\n    model(torch.randn(4, 8)).pow(2).mean().backward()\n    opt.step()",
)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("program", [[], [sys.executable]])
def test_watch_runs_the_cells_of_a_notebook(tmp_path: Path, program: list[str]) -> None:
    folder = tmp_path / "a project"
    folder.mkdir()
    (folder / "train.ipynb").write_text(notebook_of(*CELLS))
    line = [sys.executable, "-m", "torchlint", "watch", "-y", "--format", "json", "--", *program]
    done = subprocess.run([*line, "a project/train.ipynb", "one"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "['one']" in done.stderr
    assert "['train.ipynb']" in done.stderr  # it runs in its own folder
    report = json.loads(done.stdout)
    assert report["command"] == [*program, "a project/train.ipynb", "one"]
    found = [(item["cell"], item["line"], item["name"]) for item in report["findings"]]
    assert found == [(4, 3, "missing-zero-grad")]


@pytest.mark.needs("torch")
@pytest.mark.parametrize(("text", "said"), [("{", "train.ipynb"), (None, "there is no such file")])
def test_watch_says_why_a_notebook_does_not_run(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "train.ipynb").write_text(text)
    command = [sys.executable, "-m", "torchlint", "watch", "-y", "--", "train.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_verify_does_not_run_a_notebook(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_text("{}")
    command = [sys.executable, "-m", "torchlint", "verify", "-y", "--", sys.executable, "train.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "jupyter nbconvert --to script train.ipynb" in done.stderr


@pytest.mark.parametrize("is_live", [True, False])
def test_steps_are_counted_while_the_program_runs(is_live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return is_live

    now = [0.0]
    monkeypatch.setattr("torchlint.verify.counter.time.monotonic", lambda: now[0])
    folder, stream = Folder(), Stream()
    (folder.path / "steps-17").write_text("12")
    (folder.path / "steps-18").write_text("")
    counted = counter.Counter(folder, Limits(40), stream)
    for now[0] in (1.0, 31.0, 31.5):
        counted.update()
    counted.end()
    folder.remove()
    assert stream.getvalue().strip() == "torchlint: 12 of 40 steps in 31 s"
    assert stream.getvalue().endswith("\r" if is_live else "\n")

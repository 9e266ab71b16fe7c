"""Notices: what is said of comments without effect, on standard error, however a file comes to be linted."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.notebooks import notebook
from torchlint import Rule
from torchlint.cli import cli
from torchlint.project.config import Configurations
from torchlint.project.discovery import Discovery
from torchlint.run.runner import Means, run

FILES = {
    "bad.py": "bad()\nx = 1  # torchlint: ignore[bad-cal]\n",
    "clean.py": "x  # torchlint: ignore\ny  # torchlint: noqa: XX001\n",
    "good.py": "x = 1  # torchlint: ignore[bad-call, XX0, correctness, all]\n",
}
NOTICES = (
    "notice: bad.py:2:28: no rule is called `bad-cal`; did you mean `bad-call`?\n"
    "notice: clean.py:2:4: `noqa` suppresses nothing; did you mean `# torchlint: ignore[XX001]`?\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Path:
    """The working folder, with files none of which is suspiciously new for the cache."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    later = time.time_ns() + 10**10
    monkeypatch.setattr(time, "time_ns", lambda: later)
    return tmp_path


def torchlint(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin)


def test_they_change_no_output_and_no_exit_code(folder: Path) -> None:
    result = torchlint("--output-format", "json", ".")
    assert result.stderr == NOTICES
    assert [item["uri"][-6:] for item in json.loads(result.stdout)] == ["bad.py"]
    assert result.exit_code == 1
    alone = torchlint("clean.py")
    assert (alone.stdout, alone.exit_code) == ("No findings in 1 file; no file uses PyTorch.\n", 0)
    assert alone.stderr == NOTICES.splitlines(keepends=True)[1]


def test_quiet_is_quiet(folder: Path) -> None:
    assert torchlint("--quiet", ".").stderr == ""


def test_a_check_of_these_comments_makes_findings_of_them(folder: Path) -> None:
    result = torchlint("--extend-select", "unknown-suppression", "--output-format", "concise", "clean.py")
    assert (result.stderr, result.exit_code) == ("", 1)
    assert result.stdout.startswith("clean.py:2:4: TL005 unknown-suppression: `noqa` suppresses nothing")


def test_a_comment_can_excuse_them(folder: Path) -> None:
    for name in FILES:
        path = folder / name
        path.write_text(f"# torchlint: ignore-file[unknown-suppression]\n{path.read_text()}")
    assert torchlint().stderr == ""


@pytest.mark.parametrize("touched", [False, True])
def test_they_are_kept(folder: Path, touched: bool) -> None:
    first = torchlint()
    if touched:  # so that only the content is known
        for name in FILES:
            (folder / name).touch()
    second = torchlint()
    assert (first.stdout, first.stderr) == (second.stdout, second.stderr)
    assert second.stderr == NOTICES


def test_kept_notices_are_of_the_rules_that_there_are(folder: Path) -> None:
    torchlint()
    (folder / "bad.py").write_text("x = 1  # torchlint: ignore[bad-call]\n")
    assert torchlint().stderr == NOTICES.splitlines(keepends=True)[1]


@pytest.mark.slow
def test_every_process_gives_them(folder: Path) -> None:
    result = torchlint("--no-cache", "--jobs", "2")
    assert (result.exit_code, result.stderr) == (1, NOTICES), (result.stdout, result.exception)
    with ThreadPoolExecutor(2) as threads:
        outcome = run(Discovery(Configurations()).files([Path(".")]), means=Means(executor=threads))
    assert [file.source.path for file in outcome.noticed] == ["bad.py", "clean.py"]
    assert [file.source.path for file in outcome.files] == ["bad.py"]


def test_standard_input(folder: Path) -> None:
    result = torchlint("-", "--stdin-filename", "clean.py", stdin=FILES["clean.py"])
    assert (result.stderr, result.exit_code) == (NOTICES.splitlines(keepends=True)[1], 0)


def test_a_baseline_leaves_them(folder: Path) -> None:
    torchlint("--baseline", "known.json", "--update-baseline")
    result = torchlint("--baseline", "known.json")
    assert (result.stderr, result.exit_code) == (NOTICES, 0)


def test_a_comment_that_comes_to_name_a_rule(folder: Path) -> None:
    (folder / "bad.py").write_text("bad()  # torchlint: ignore[]\n")
    result = torchlint("--add-ignores", "bad.py")
    assert (result.stderr, result.exit_code) == ("Added 1 ignore in 1 file.\n", 0)


def test_a_place_in_a_notebook(folder: Path) -> None:
    (folder / "a.ipynb").write_text(notebook("x", "y\nz  # torchlint: disable"))
    assert torchlint("a.ipynb").stderr.startswith("notice: a.ipynb:cell 2:2:4: `disable` suppresses nothing")


def test_only_the_first_of_many_are_shown(folder: Path) -> None:
    (folder / "many.py").write_text("x  # torchlint: noqa\n" * 1_030)
    lines = torchlint("many.py").stderr.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "notice: 1,010 more are not shown"


def test_no_comment_sends_commands_to_the_terminal(folder: Path) -> None:
    (folder / "evil.py").write_text("x  # torchlint: ignore[\x1b]0;gone\x07]\n")
    assert "\x1b" not in torchlint("evil.py").stderr


def test_lines_are_those_of_the_file_that_is_there(folder: Path) -> None:
    (folder / "bad.py").write_text("# torchlint: ignore-file[bad-call]\nx\ny  # torchlint: noqa\n")
    assert "notice: bad.py:3:4:" in torchlint("--diff", "--extend-select", "unused-suppression", "bad.py").stderr
    assert "notice: bad.py:2:4:" in torchlint("--fix", "--extend-select", "unused-suppression", "bad.py").stderr
    assert (folder / "bad.py").read_text() == "x\ny  # torchlint: noqa\n"

"""`--since`: what a branch did, in real repositories, whatever Git is configured to show."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import libcst as cst
import pytest
from click.testing import CliRunner, Result

from torchlint import Category, Rule, Safety
from torchlint.cli import cli
from torchlint.engine import registry
from torchlint.syntax import edits

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("git") is None, reason="needs git")]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Path:
    """A repository with one commit on `main`, the working folder."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    settings = {"user.name": "A", "user.email": "a@example.org", "commit.gpgsign": "false", "core.autocrlf": "false"}
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
    for number, (key, value) in enumerate(settings.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    top = tmp_path / "project"
    top.mkdir()
    monkeypatch.chdir(top)
    git("init", "-q", "-b", "main")
    (top / "old.py").write_text("# the file begins here\n\nbad(1)\nbad(2)\ngood(3)\n")
    (top / "other.py").write_text("bad()\n")
    commit()
    return top


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, capture_output=True)


def commit(message: str = "x") -> None:
    git("add", "-A")
    git("commit", "-q", "-m", message, "--allow-empty")


def torchlint(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin)


def since(*arguments: str) -> list[str]:
    """Places of the findings since a revision."""
    result = torchlint("--since", *arguments, "--output-format", "concise")
    lines = result.stdout.splitlines()
    assert result.exit_code == bool(lines), result.output
    return [line.split(": ")[0] for line in lines]


def failure(*arguments: str) -> str:
    result = torchlint(*arguments)
    assert result.exit_code == 2, result.output
    return result.stderr


def test_nothing_changed(repository: Path) -> None:
    result = torchlint("--since", "HEAD")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no files have changed since HEAD\n")
    assert torchlint("--since", "HEAD", "-q").output == ""


def test_changed_lines(repository: Path) -> None:
    (repository / "old.py").write_text("# the file begins here\n\nbad(1)\nbad(2, 2)\ngood(3)\nbad(4)\n")
    assert since("HEAD") == ["old.py:4:1", "old.py:6:1"]
    git("add", "-A")
    assert since("HEAD") == ["old.py:4:1", "old.py:6:1"]
    (repository / "old.py").write_text("bad(0)\n\nbad(1)\nbad(2, 2)\ngood(3)\nbad(4)\n")
    assert since("HEAD") == ["old.py:1:1", "old.py:3:1", "old.py:4:1", "old.py:6:1"], "the first is related to all"


def test_only_changed_files_are_linted(repository: Path) -> None:
    (repository / "old.py").write_text("good()\n")
    assert torchlint("--since", "HEAD").stdout == "No new findings in 1 file; no file uses PyTorch.\n"


def test_a_moved_finding_is_not_new(repository: Path) -> None:
    (repository / "old.py").write_text("# the file begins here\n\n\n\n\nbad(1)\nbad(2)\ngood(3)\n")
    assert since("HEAD") == []


class Swaps(Rule):
    """Swaps lines: a fix changes the number of lines above other findings."""

    code = "SW001"
    category = Category.CORRECTNESS
    triggers = ((b"bad",),)

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name) and node.func.value == "bad":
            self.report(node, "bad", fix=edits.Change("repair", [edits.Replace(node, "(\n    good()\n)")], Safety.SAFE))


def test_only_what_is_new_is_fixed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that a fix adds move neither what changed nor what did not."""
    monkeypatch.setattr(registry, "rules", lambda: (Swaps,))
    (repository / "old.py").write_text("bad(0)\n\nbad(1)\nbad(2)\ngood(3)\nbad(4)\n")
    (repository / "other.py").write_text("bad()\n")
    (repository / "new.py").write_text("bad()\n")
    result = torchlint("--since", "HEAD", "--fix")
    good = "(\n    good()\n)\n"
    assert (result.exit_code, result.stderr) == (0, "Fixed 3 findings in 2 files: 3 swaps.\n")
    assert (repository / "old.py").read_text() == f"{good}\nbad(1)\nbad(2)\ngood(3)\n{good}"
    assert (repository / "new.py").read_text() == good
    assert (repository / "other.py").read_text() == "bad()\n"
    assert since("HEAD") == []


def test_the_rest_of_what_is_new_is_reported(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = (Swaps, *registry.rules())
    monkeypatch.setattr(registry, "rules", lambda: rules)
    (repository / "old.py").write_text("# the file begins here\n\nbad(1)\nbad(2)\ngood(3)\nbad(4)\n")
    result = torchlint("--since", "HEAD", "--diff", "--unfixable", "SW001")
    assert (result.exit_code, result.stdout) == (0, "")
    assert since("HEAD", "--fix", "--select", "XX001") == ["old.py:6:1"]


def test_renaming_a_file_makes_nothing_new(repository: Path) -> None:
    git("mv", "old.py", "new.py")
    assert since("HEAD") == []
    (repository / "new.py").write_text((repository / "new.py").read_text() + "bad(4)\n")
    commit()
    assert since("HEAD~1") == ["new.py:6:1"]


def test_untracked_and_ignored_files_are_new(repository: Path) -> None:
    (repository / ".gitignore").write_text("ignored.py\n")
    for name in ("untracked.py", "ignored.py"):
        (repository / name).write_text("bad()\n")
    assert since("HEAD") == ["untracked.py:1:1"]
    assert since("HEAD", "ignored.py", "old.py") == ["ignored.py:1:1"]
    git("add", "-N", "untracked.py")
    assert since("HEAD") == ["untracked.py:1:1"]


def test_a_branch_is_compared_with_where_it_left(repository: Path) -> None:
    git("checkout", "-q", "-b", "feature")
    (repository / "mine.py").write_text("bad()\n")
    commit()
    git("checkout", "-q", "main")
    (repository / "other.py").write_text("good()\n")
    commit()
    git("checkout", "-q", "feature")
    assert since("main") == ["mine.py:1:1"], "other.py was changed on main, not here"
    assert since("feature") == []
    git("tag", "-a", "v1", "-m", "x", "main")
    assert since("v1") == ["mine.py:1:1"]


STEP = """\
import torch
def train(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""


def test_a_deleted_line_can_make_an_old_one_wrong(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(repository)
    for text, found in ((STEP, []), (STEP.replace("        optimizer.zero_grad()\n", ""), ["t.py:5:9"])):
        (repository / "t.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "torchlint", "--since", "HEAD", "--output-format", "concise", "t.py"],
            capture_output=True,
            encoding="utf-8",
        )
        assert [line.split(": ")[0] for line in done.stdout.splitlines()] == found, done.stderr
        subprocess.run(["git", "add", "-A"], check=True)
        name = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *name, "commit", "-qm", "x"], check=True)


def test_what_is_wrong_with_a_changed_file_itself(repository: Path) -> None:
    (repository / "other.py").write_text("bad(\n\n\n")
    assert since("HEAD") == ["other.py:1:4"]
    commit()
    (repository / "other.py").write_text("bad(\n\n\n#")
    assert since("HEAD") == ["other.py:1:4"], "even if the line itself is old"
    (repository / "other.py").write_text("crash()")
    assert torchlint("--since", "HEAD").exit_code == 3


def test_from_a_subfolder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "sub").mkdir()
    (repository / "sub" / "a.py").write_text("bad()\n")
    git("add", "-A")
    (repository / "old.py").write_text("bad(7)\n")
    monkeypatch.chdir(repository / "sub")
    assert since("HEAD") == ["a.py:1:1"]
    assert since("HEAD", "..") == ["../old.py:1:1", "../sub/a.py:1:1"]
    assert since("HEAD", str(repository / "sub")) == [f"{repository / 'sub' / 'a.py'}:1:1"]


def test_several_repositories_and_work_trees(repository: Path) -> None:
    git("init", "-q", "-b", "main", "inner")
    (repository / "inner" / "a.py").write_text("bad()\n")
    git("-C", "inner", "add", "-A")
    git("-C", "inner", "commit", "-q", "-m", "x")
    (repository / "inner" / "b.py").write_text("bad()\n")
    git("worktree", "add", "-q", "../tree", "-b", "tree")
    (repository.parent / "tree" / "old.py").write_text("bad(8)\n")
    assert since("HEAD", ".", "../tree") == ["../tree/old.py:1:1", "inner/b.py:1:1"]
    git("-C", "inner", "tag", "only-here")
    assert "unknown revision `only-here`" in failure("--since", "only-here", ".")


def test_file_names_of_any_kind(repository: Path) -> None:
    names = ["with space.py", "b.py", "日本.py"]
    if sys.platform == "linux":
        names += [
            '"quoted".py',
            "tab\t.py",
            "new\nline.py",
            "back\\slash.py",
            " b ",
            "caf\udce9.py",
            ":(top)*.py",
            "-p.py",
        ]
    for name in names:
        (repository / name).write_text("good()\n" * 3)
    commit()
    for name in names:
        (repository / name).write_text("good()\n" * 2 + "bad()\n" + "good()\n")
    result = torchlint("--since", "HEAD", "--output-format", "concise", *(f"./{name}" for name in names))
    assert result.stdout.count(":3:1: XX001") == len(names)


def test_content_that_looks_like_a_diff(repository: Path) -> None:
    (repository / "old.py").write_text("a = '''\n-- a/x.py\n@@ -1 +1 @@\ndiff --git a/x b/x\n'''\nbad(1)\nbad(2)\n")
    commit()
    (repository / "old.py").write_text(
        "a = '''\n++ b/x.py\n@@ -1 +1,9 @@\ndiff --git a/y b/y\n'''\nbad(1)\nbad(2)\nbad(3)\n"
    )
    assert since("HEAD") == ["old.py:6:1", "old.py:7:1", "old.py:8:1"], "all of them are related to the first line"
    (repository / "old.py").write_text(
        "a = '''\n-- a/x.py\n@@ -1 +1 @@\ndiff --git a/x b/x\n'''\nbad(1)\nbad(2)\nbad(3)\n"
    )
    assert since("HEAD") == ["old.py:8:1"]


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_newlines(repository: Path, newline: str) -> None:
    (repository / "old.py").write_bytes(newline.join(["pass", "", "bad(1)", "bad(2)", ""]).encode())
    commit()
    (repository / "old.py").write_bytes(newline.join(["pass", "", "bad(1)", "bad(2)", "bad(3)", ""]).encode())
    expected = ["old.py:5:1"] if newline == "\r\n" else ["old.py:3:1", "old.py:4:1", "old.py:5:1"]
    assert since("HEAD") == expected, "to Git a file with lone CRs is one line"


def test_whatever_git_is_configured_to_show(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "diff.external": "false",
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.context": "9",
        "diff.interHunkContext": "9",
        "diff.relative": "true",
        "diff.renames": "false",
        "diff.orderFile": "nowhere",
        "diff.python.textconv": "false",
        "diff.python.command": "false",
        "color.ui": "always",
        "color.diff": "always",
        "core.pager": "false",
        "core.quotePath": "true",
    }
    (repository / ".gitattributes").write_text("*.py diff=python\n")
    (repository / "b").mkdir()
    for name in ("b/a.py", "moved.py"):
        (repository / name).write_text("pass\nbad(1)\nbad(2)\nbad(3)\n")
    commit()
    for key, value in settings.items():
        git("config", key, value)
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    monkeypatch.setenv("GIT_DIFF_OPTS", "--unified=9")
    (repository / "old.py").write_text("# the file began here\n\nbad(1)\nbad(2)\ngood(3)\nbad(4)\n")
    (repository / "b" / "a.py").write_text("pass\nbad(1)\nbad(2)  \nbad(3)\n")
    git("mv", "moved.py", "here.py")
    assert since("HEAD") == ["b/a.py:3:1", "old.py:6:1"]


def test_in_a_hook_of_another_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository.parent / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", "nothing")
    (repository / "old.py").write_text("bad(9)\n")
    assert since("HEAD") == ["old.py:1:1"]


def test_what_is_no_text_is_changed_as_a_whole(repository: Path) -> None:
    (repository / "other.py").write_text("bad()\n# \0\n")
    commit()
    (repository / "other.py").write_text("bad()\n")
    assert since("HEAD") == ["other.py:1:1"]


def test_a_file_that_was_moved_without_telling_git(repository: Path) -> None:
    (repository / "old.py").rename(repository / "new.py")
    assert since("HEAD") == []
    (repository / "new.py").write_text((repository / "new.py").read_text() + "bad(4)\n")
    assert since("HEAD") == ["new.py:6:1"]
    (repository / "copy.py").write_text((repository / "other.py").read_text())
    assert since("HEAD") == ["copy.py:1:1", "new.py:6:1"], "other.py is still there"


def test_a_checkout_with_other_newlines_is_unchanged(repository: Path) -> None:
    (repository / "old.py").write_bytes((repository / "old.py").read_bytes().replace(b"\n", b"\r\n"))
    assert "no files have changed" in torchlint("--since", "HEAD").stderr
    (repository / "old.py").write_bytes((repository / "old.py").read_bytes() + b"bad(4)\r\n")
    assert since("HEAD") == ["old.py:6:1"]


def test_a_history_that_is_cut_off(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "old.py").write_text("bad(1)\n")
    commit()
    git("clone", "-q", "--depth", "1", repository.as_uri(), "../shallow")
    monkeypatch.chdir(repository.parent / "shallow")
    Path("other.py").write_text("bad(2)\n")
    assert since("HEAD") == ["other.py:1:1"]
    assert "unknown revision `HEAD~1`" in failure("--since", "HEAD~1")


@pytest.mark.parametrize("revision", ["HEAD", "@", "main", "main~0", "@{0}", "HEAD^{commit}", "v1^{}", "main@{now}"])
def test_ways_to_name_a_revision(repository: Path, revision: str) -> None:
    git("tag", "-a", "v1", "-m", "x")
    (repository / "other.py").write_text("bad(2)\n")
    assert since(revision) == ["other.py:1:1"]


def test_objects_of_sha256(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("init", "-q", "--object-format=sha256", "../long")
    monkeypatch.chdir(repository.parent / "long")
    Path("a.py").write_text("bad(1)\n")
    Path("b.py").write_text("bad(2)\n")
    commit()
    Path("a.py").write_text("bad(1)\nbad(3)\n")
    assert since("HEAD") == ["a.py:2:1"]


def notebook(*lines: str) -> str:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": [f"{line}\n" for line in lines]}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_notebooks(repository: Path) -> None:
    (repository / "a.ipynb").write_text(notebook("import x", "bad(1)", "bad(2)"))
    commit()
    (repository / "a.ipynb").write_text(notebook("import x", "bad(1)", "", "bad(2)", "bad(3)"))
    (file,) = json.loads(torchlint("--since", "HEAD", "--output-format", "json").stdout)
    assert [found["range"]["start"]["line"] for found in file["diagnostics"]] == [4]
    (repository / "a.ipynb").write_text(notebook("import y", "bad(1)", "bad(2)"))
    (file,) = json.loads(torchlint("--since", "HEAD", "--output-format", "json").stdout)
    assert len(file["diagnostics"]) == 2, "both are related to the first line"
    git("rm", "-q", "--cached", "a.ipynb")
    assert len(since("HEAD")) == 2


def test_errors(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "unknown revision `nowhere` in the Git repository" in failure("--since", "nowhere")
    for revision in ("--output=pwned", "-p", "main..HEAD", "", "--all"):
        assert f"unknown revision `{revision}`" in failure(f"--since={revision}")
    assert not (repository / "pwned").exists()
    assert "cannot compare with `HEAD:old.py`" in failure("--since", "HEAD:old.py")
    assert "it cannot be used with `-`" in failure("--since", "HEAD", "-")
    git("checkout", "-q", "--orphan", "alone")
    commit("another")
    assert "no commit in common" in failure("--since", "main")
    (tmp_path / "loose").mkdir()
    (tmp_path / "loose" / "a.py").write_text("bad()\n")
    assert "loose is not in a Git repository" in failure("--since", "HEAD", str(tmp_path / "loose"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is not installed" in failure("--since", "HEAD")


def test_no_commit_yet(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("init", "-q", "../fresh")
    monkeypatch.chdir(tmp_path / "fresh")
    (tmp_path / "fresh" / "a.py").write_text("bad()\n")
    assert "unknown revision `HEAD`" in failure("--since", "HEAD")


def test_with_a_baseline(repository: Path) -> None:
    (repository / "old.py").write_text("bad(5)\n")
    assert torchlint("--baseline", "known.json", "--update-baseline", "old.py").exit_code == 0
    (repository / "old.py").write_text("bad(5)\nbad(6)\n")
    assert since("HEAD", "--baseline", "known.json") == ["old.py:2:1"]


def test_with_ignores(repository: Path) -> None:
    """A new comment on the first line changes a place that old findings are related to: they are excused as well."""
    (repository / "old.py").write_text("bad(0)\n\nbad(1)\nbad(2)\ngood(3)\n")
    commit()
    (repository / "old.py").write_text("bad(0)\n\nbad(1)\nbad(2)\nbad(3)\n")
    assert since("HEAD") == ["old.py:5:1"]
    result = torchlint("--since", "HEAD", "--add-ignores")
    assert (result.exit_code, result.stderr) == (0, "Added 1 ignore in 1 file.\n")
    assert since("HEAD") == []
    assert (repository / "old.py").read_text().count("ignore[bad-call]") == 1
    (repository / "old.py").write_text("bad(7)\n\nbad(1)\nbad(2)\nbad(3)\n")
    assert torchlint("--since", "HEAD", "--add-ignores").exit_code == 0
    assert since("HEAD") == []


def test_merge_conflicts(repository: Path) -> None:
    git("checkout", "-q", "-b", "feature")
    (repository / "old.py").write_text("bad(1)\n")
    commit()
    git("checkout", "-q", "main")
    (repository / "old.py").write_text("bad(2)\n")
    commit()
    subprocess.run(["git", "merge", "-q", "feature"], capture_output=True)
    assert since("HEAD") == ["old.py:1:1"]
    (repository / "old.py").write_text("bad(2)\nbad(3)\n")
    assert "old.py:2:1" in since("HEAD")

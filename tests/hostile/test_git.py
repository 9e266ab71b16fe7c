"""`--since` in a repository whose configuration, attributes, hooks and objects are hostile: nothing of it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.hostile.conftest import needs_fifos
from torchlint.adoption import git as git_module

Torchlint = Callable[..., Result]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
    pytest.mark.skipif(sys.platform == "win32", reason="its commands are shell scripts"),
]

COMMANDS = (
    *("core.fsmonitor", "core.pager", "pager.diff", "diff.external", "diff.evil.textconv", "diff.evil.command"),
    *("filter.evil.clean", "filter.evil.smudge", "filter.slow.process", "core.sshCommand", "core.editor"),
    *("core.askPass", "core.gitProxy", "core.alternateRefsCommand", "credential.helper", "gpg.program"),
    *("alias.diff", "alias.rev-parse", "alias.diff-tree", "merge.evil.driver", "uploadpack.packObjectsHook"),
)
"""Settings that hold a command."""
OTHERS = {
    "log.showSignature": "true",
    "diff.noprefix": "true",
    "diff.renames": "false",
    "core.quotePath": "false",
    "extensions.partialClone": "origin",
    "remote.origin.promisor": "true",
    "protocol.allow": "always",
    "protocol.ext.allow": "always",
}
HOOKS = ("post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc", "fsmonitor-watchman")


@pytest.fixture
def ran(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which each command of the repository `checkout` leaves a file when it is run."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    (checkout / ".git").rmdir()
    (checkout / "more.py").write_text("bad()\n")
    git("init", "-q", "-b", "main")
    git("config", "user.name", "A")
    git("config", "user.email", "a@example.org")
    git("add", "-A")
    git("commit", "-q", "-m", "x")
    (checkout.parent / "ran").mkdir()
    return checkout.parent / "ran"


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], check=True, capture_output=True, encoding="utf-8")
    return done.stdout.strip()


def script(ran: Path, name: str) -> Path:
    path = ran.parent / f"{name}.sh"
    path.write_text(f"#!/bin/sh\ntouch '{ran}/{name}'\ncat\n")
    path.chmod(0o755)
    return path


def since(torchlint: Torchlint, revision: str = "HEAD") -> list[str]:
    result = torchlint("--since", revision, "--output-format", "concise")
    assert result.exit_code < 2, result.output
    return [line.split(": ")[0] for line in result.stdout.splitlines()]


def test_nothing_of_a_repository_runs(checkout: Path, ran: Path, torchlint: Torchlint) -> None:
    for name in COMMANDS:
        git("config", name, f"{'!' if name.startswith(('alias', 'credential')) else ''}{script(ran, name)}")
    for name, value in OTHERS.items():
        git("config", name, value)
    git("config", "remote.origin.url", f"ext::{script(ran, 'remote')}")
    for name in HOOKS:
        for folder in (checkout / ".git" / "hooks", ran.parent / "hooks"):
            folder.mkdir(exist_ok=True)
            shutil.copy(script(ran, name), folder / name)
    git("config", "core.hooksPath", str(ran.parent / "hooks"))
    attributes = "bad.py diff=evil filter=evil merge=evil\nmore.py filter=slow diff=evil -text\n"
    (checkout / ".gitattributes").write_text(attributes)
    (checkout / ".git" / "info" / "attributes").write_text(attributes)
    (checkout / "bad.py").write_text("bad()\nx = 1\nbad()\n")
    os.utime(checkout / "more.py", (1_600_000_000, 1_600_000_000))
    for revision in ("HEAD", "main", "@{0}", "HEAD~0"):
        assert since(torchlint, revision) == ["bad.py:3:1"]
    assert os.listdir(ran) == []


@pytest.mark.parametrize("object", ["HEAD", "HEAD^{tree}", "HEAD:bad.py"])
@pytest.mark.parametrize("address", ["ext", "ssh"])
def test_what_is_missing_is_not_fetched(
    checkout: Path, ran: Path, torchlint: Torchlint, object: str, address: str
) -> None:
    name = git("rev-parse", object)
    (checkout / ".git" / "objects" / name[:2] / name[2:]).unlink()
    git("config", "core.repositoryformatversion", "1")
    for key, value in OTHERS.items():
        git("config", key, value)
    git("config", "remote.origin.url", f"ext::{script(ran, 'ext')}" if address == "ext" else "ssh://localhost/x")
    git("config", "core.sshCommand", str(script(ran, "ssh")))
    (checkout / "bad.py").write_text("x = 1\nbad()\n")
    for revision in ("HEAD", "main~0", name[:9]):
        assert torchlint("--since", revision).exit_code == 2
    assert os.listdir(ran) == []


def test_a_program_in_the_working_folder_is_not_git(
    checkout: Path, ran: Path, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path with `.` or nothing in it means the working folder, where Windows looks in any case."""
    shutil.copy(script(ran, "git"), checkout / "git")
    monkeypatch.setenv("PATH", os.pathsep.join([".", "", os.environ["PATH"]]))
    (checkout / "bad.py").write_text("x = 1\nbad(2)\n")
    assert since(torchlint) == ["bad.py:2:1"]
    assert os.listdir(ran) == []


def test_an_index_hides_nothing(checkout: Path, ran: Path, torchlint: Torchlint) -> None:
    git("update-index", "--assume-unchanged", "bad.py")
    git("update-index", "--skip-worktree", "more.py")
    (checkout / "bad.py").write_text("bad()\nbad(1)\n")
    (checkout / "more.py").write_text("bad()\nbad(1)\n")
    assert since(torchlint) == ["bad.py:2:1", "more.py:2:1"]
    (checkout / ".git" / "index").write_bytes(b"DIRC garbage")
    assert since(torchlint) == ["bad.py:2:1", "more.py:2:1"]


def test_a_replaced_object_hides_nothing(checkout: Path, ran: Path, torchlint: Torchlint) -> None:
    (checkout / "bad.py").write_text("bad(1)\n")
    git("replace", git("rev-parse", "HEAD:bad.py"), git("hash-object", "-w", "bad.py"))
    git("add", "-A")
    tree = git("commit-tree", "-m", "x", git("write-tree"))
    git("replace", git("rev-parse", "HEAD"), tree)
    assert since(torchlint) == ["bad.py:1:1"]


def test_attributes_hide_nothing(checkout: Path, ran: Path, torchlint: Torchlint) -> None:
    (checkout / ".gitattributes").write_text("*.py -diff -text working-tree-encoding=utf-16 ident\n")
    (checkout / "bad.py").write_text("bad()\nbad(1)\n")
    assert since(torchlint) == ["bad.py:2:1"]


def test_another_working_tree_is_not_looked_at(checkout: Path, ran: Path, private: Path, torchlint: Torchlint) -> None:
    git("config", "core.worktree", str(private))
    (checkout / "bad.py").write_text("bad()\nbad(1)\n")
    assert since(torchlint) == ["bad.py:2:1"]


def test_a_repository_elsewhere_is_read_and_no_more(
    checkout: Path, ran: Path, private: Path, torchlint: Torchlint
) -> None:
    """As a working tree of it, or a submodule, it would be elsewhere too."""
    (checkout / ".git").rename(private / "git")
    (checkout / ".git").write_text(f"gitdir: {private / 'git'}\n")
    with (private / "git" / "config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = {script(ran, 'fsmonitor')}\n")
    (checkout / "bad.py").write_text("bad()\nbad(1)\n")
    before = sorted(private.rglob("*"))
    assert since(torchlint) == ["bad.py:2:1"]
    assert sorted(private.rglob("*")) == before and os.listdir(ran) == []


def test_an_empty_repository_does_not_stand_for_the_one_around_it(
    checkout: Path, ran: Path, torchlint: Torchlint
) -> None:
    (checkout / "inner" / ".git").mkdir(parents=True)
    (checkout / "inner" / "bad.py").write_text("bad()\n")
    result = torchlint("--since", "HEAD", "inner")
    assert result.exit_code == 2 and "not a git repository" in result.stderr


def test_variables_for_another_repository_do_not_count(
    checkout: Path, ran: Path, private: Path, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_PAGER", "GIT_ASKPASS", "GIT_PROXY_COMMAND"):
        monkeypatch.setenv(name, str(script(ran, name)))
    for name in ("DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "ALTERNATE_OBJECT_DIRECTORIES", "NAMESPACE"):
        monkeypatch.setenv(f"GIT_{name}", str(private))
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")
    monkeypatch.setenv("GIT_TRACE", str(private / "trace"))
    (checkout / "bad.py").write_text("bad()\nbad(1)\n")
    assert since(torchlint) == ["bad.py:2:1"]
    assert os.listdir(ran) == [] and os.listdir(private) == ["secret.py"]


def hang(checkout: Path, kind: str) -> None:
    """Put a pipe where Git will read it."""
    folder = checkout / ".git"
    if kind == "include":
        os.mkfifo(checkout / "pipe")
        git("config", "include.path", str(checkout / "pipe"))
        return
    path = {"alternates": folder / "objects" / "info" / "alternates"}.get(kind, folder / kind)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@needs_fifos
@pytest.mark.parametrize("kind", ["config", "include", "alternates", "shallow", "packed-refs"])
def test_a_pipe_stops_git_for_a_while_only(
    checkout: Path, ran: Path, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(git_module, "PATIENCE", 0.5)
    hang(checkout, kind)
    result = torchlint("--since", "HEAD")
    assert result.exit_code == 2
    assert "took longer than 0.5 seconds" in result.stderr or "not a regular file" in result.stderr

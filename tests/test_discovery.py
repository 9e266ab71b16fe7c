"""Which files are linted: what Git would see, each once, in a stable order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchlint.files.source import Unread
from torchlint.project.config import Configurations
from torchlint.project.discovery import Discovery
from torchlint.project.settings import Overrides


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with a Git repository in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git" / "info").mkdir(parents=True)
    return tmp_path


def write(root: Path, *paths: str, text: str = "") -> None:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def ignore(root: Path, *lines: str, at: str = ".gitignore") -> None:
    write(root, at, text="".join(f"{line}\n" for line in lines))


def found(*paths: str, force: bool = False, exclude: tuple[str, ...] = ()) -> list[str]:
    discovery = Discovery(Configurations(Overrides(force_exclude=force)), exclude)
    return [target.path.as_posix() for target in discovery.files(map(Path, paths or (".",)))]


def test_python_files_in_path_order(tree: Path) -> None:
    write(tree, "b.py", "a/z.py", "a/y.pyi", "a/x.txt", "a-b.py", "a/b/c.py", "B.py")
    assert found() == ["B.py", "a/b/c.py", "a/z.py", "a-b.py", "b.py"]
    assert found("a/", "./b.py") == ["a/b/c.py", "a/z.py", "b.py"]


def test_each_file_once(tree: Path) -> None:
    write(tree, "a/b.py", "c.py")
    assert found("a", "a/b.py", ".", "./c.py", str(tree / "c.py")) == ["a/b.py", "c.py"]


def test_ignore_files_of_every_level(tree: Path) -> None:
    ignore(tree, "*_pb2.py", "/top.py", "ignored/", "!keep_pb2.py", "# comment", "")
    ignore(tree, "inner.py", "!x_pb2.py", at="src/.gitignore")
    ignore(tree, "/secret.py", at=".git/info/exclude")
    write(
        tree,
        "x_pb2.py",
        "keep_pb2.py",
        "top.py",
        "src/top.py",
        "src/ignored/a.py",
        "src/inner.py",
        "inner.py",
    )
    write(tree, "src/x_pb2.py", "src/y_pb2.py", "secret.py", "src/secret.py", "src/deep/inner.py")
    expected = ["inner.py", "keep_pb2.py", "src/secret.py", "src/top.py", "src/x_pb2.py"]
    assert found() == expected
    assert found("src") == [path for path in expected if path.startswith("src/")]


@pytest.mark.slow
def test_git_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "core.excludesFile=/dev/null"]
    try:
        subprocess.run([*git, "init", "-q"], check=True)
    except FileNotFoundError:
        pytest.skip("needs git")
    ignore(tmp_path, "*", "!*/", "!*.py", "a/**/d.py", "/b/*", "!/b/x.py", "[e-g].py", r"\!.py", "t*/ ")
    ignore(tmp_path, "!d.py", "c", at="a/b/.gitignore")
    names = ("c", "d", "e", "x", "!", "h")
    write(
        tmp_path,
        *(f"{folder}{name}.py" for folder in ("", "a/", "a/b/", "b/", "t/", "a/b/c/") for name in names),
    )
    listed = subprocess.run(
        [*git, "ls-files", "-coz", "--exclude-standard"], check=True, capture_output=True, encoding="utf-8"
    )
    expected = [path for path in listed.stdout.split("\0") if path.endswith(".py")]
    assert sorted(found()) == sorted(expected)


def test_a_folder_above_the_working_folder_counts(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ignore(tree, "skip.py", "/src/only.py")
    write(tree, "src/skip.py", "src/only.py", "src/a.py")
    monkeypatch.chdir(tree / "src")
    assert found() == ["a.py"]
    assert found("..") == ["../src/a.py"]


def test_outside_of_a_repository_ignore_files_above_do_not_count(tmp_path: Path) -> None:
    ignore(tmp_path, "a.py")
    ignore(tmp_path, "b.py", at="src/.gitignore")
    write(tmp_path, "src/a.py", "src/b.py")
    assert [Path(path).name for path in found(str(tmp_path / "src"))] == ["a.py"]


def test_a_repository_inside_another_is_its_own(tree: Path) -> None:
    ignore(tree, "a.py")
    write(tree, "sub/a.py", "sub/.git/HEAD", "a.py")
    assert found() == ["sub/a.py"]


def test_default_excludes(tree: Path) -> None:
    write(tree, *(f"x/{name}/a.py" for name in ("build", "dist", ".venv", "node_modules", "__pycache__", "env")))
    write(tree, "mine/pyvenv.cfg", "mine/lib/a.py", "build.py")
    assert found() == ["build.py", "x/env/a.py"]
    write(tree, "torchlint.toml", text="exclude = ['!build/']")
    assert found() == ["build.py", "x/build/a.py", "x/env/a.py"]


def test_what_is_named_is_linted_unless_exclusion_is_forced(tree: Path) -> None:
    ignore(tree, "gen/", "*_pb2.py")
    write(tree, "torchlint.toml", text="exclude = ['vendored']")
    write(tree, "gen/a.py", "gen/b_pb2.py", "build/a.py", "vendored/a.py", "x_pb2.py", "notes.txt")
    named = ["build/a.py", "gen/a.py", "notes.txt", "vendored/a.py", "x_pb2.py"]
    assert found(*named) == named
    assert found(*named, force=True) == ["notes.txt"]
    assert found("gen", "build", "vendored") == ["build/a.py", "gen/a.py", "vendored/a.py"]
    assert found("gen", "build", "vendored", force=True) == []


def test_exclude_of_configuration_and_command_line(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tree, "pkg/torchlint.toml", text="exclude = ['old_*.py', '/tests/']")
    write(tree, "old_a.py", "pkg/old_a.py", "pkg/tests/a.py", "pkg/sub/tests/a.py", "pkg/sub/b.py")
    assert found() == ["old_a.py", "pkg/sub/b.py", "pkg/sub/tests/a.py"]
    assert found(exclude=("pkg/sub/b.py", "old_a.py")) == ["pkg/sub/tests/a.py"]


def test_a_path_that_does_not_exist(tree: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"path does not exist: nowhere\.py"):
        found("nowhere.py")


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links(tree: Path) -> None:
    write(tree, "real/a.py", "real/z.py", "elsewhere/b.txt")
    (tree / "real" / "loop").symlink_to(tree)
    (tree / "linked").symlink_to(tree / "real")
    (tree / "alias.py").symlink_to(tree / "real" / "a.py")
    (tree / "dangling.py").symlink_to(tree / "nothing")
    (tree / "self.py").symlink_to(tree / "self.py")
    (tree / "folder.py").symlink_to(tree / "elsewhere")
    (tree / "package.py").mkdir()
    write(tree, "package.py/c.py")
    assert found() == ["dangling.py", "package.py/c.py", "real/a.py", "real/z.py", "self.py"]
    assert found("linked") == ["linked/a.py", "linked/z.py"]
    assert found("alias.py") == ["alias.py"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files there")
def test_what_is_no_file_is_left_out(tree: Path) -> None:
    os.mkfifo(tree / "pipe.py")
    assert found() == []


def test_a_folder_that_cannot_be_read_is_named(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tree, "closed/a.py", "open.py")
    scandir = os.scandir

    def failing(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    targets = Discovery(Configurations()).files([Path(".")])
    assert [(str(target.path), target.problem) for target in targets] == [
        ("closed", Unread("folder cannot be read: Permission denied")),
        ("open.py", None),
    ]


def test_a_line_that_is_no_pattern_is_left_out(tree: Path) -> None:
    ignore(tree, "!", "a.py")
    write(tree, "a.py", "b.py")
    assert found() == ["b.py"]

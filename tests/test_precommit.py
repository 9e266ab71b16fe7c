"""The hook under the real pre-commit, which installs this package into an environment of its own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.notebooks import notebook

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures" / "missing_zero_grad"
SOURCES = (
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    ".pre-commit-hooks.yaml",
    "torchlint",
    "rules",
)


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


@pytest.mark.skipif(not find_spec("pre_commit"), reason="pre-commit is not installed")
def test_try_repo(run: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "cache"))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "somebody@example.org")
    hook, project = tmp_path / "hook", tmp_path / "project"
    hook.mkdir()
    project.mkdir()
    for name in SOURCES:
        copy(ROOT / name, hook / name)
    for name, fixture in (("good.py", "good.py"), ("bad.py", "bad.py"), ("old.py", "bad.py")):
        copy(FIXTURES / fixture, project / name)
    (project / "bad.ipynb").write_text(notebook((FIXTURES / "bad.py").read_text("utf-8")), "utf-8")
    (project / "pyproject.toml").write_text('[tool.torchlint]\nexclude = ["old.py"]\n', "utf-8")
    for repository in (hook, project):
        run("git", "init", "-q", cwd=repository)
        run("git", "add", ".", cwd=repository)
        run("git", "commit", "-qm", "first", cwd=repository)
    pre_commit = (sys.executable, "-m", "pre_commit")
    output = run(*pre_commit, "try-repo", hook, "torchlint", "--all-files", cwd=project, code=1)
    assert "bad.py:" in output
    assert "bad.ipynb:cell 1:" in output
    assert "missing-zero-grad" in output
    assert "good.py:" not in output
    assert "old.py:" not in output

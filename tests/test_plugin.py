"""A third-party rule in a package of its own, the template: installed, run by the command line, tested and blessed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TORCHLINT = Path(sys.executable).with_name("torchlint")
TEMPLATE = Path(__file__).parent.parent / "docs" / "template-plugin"
BAD = Path("fixtures", "cleared_twice", "bad.py")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source tree of the plugin."""
    root = tmp_path_factory.mktemp("plugin") / "mine"
    shutil.copytree(TEMPLATE, root, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    return root


@pytest.fixture(scope="module")
def installed(run: Callable[..., str], project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the plugin is installed into."""
    target = tmp_path_factory.mktemp("site")
    pip = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
    )
    run(*pip, "--target", target, project)
    return target


def test_command_line(run: Callable[..., str], project: Path, installed: Path) -> None:
    bad = project / BAD
    found = run(TORCHLINT, "--isolated", "--output-format", "concise", bad, path=installed, code=1)
    assert found.count("MINE001") == 2
    assert "the gradients of `optimizer` are cleared again" in found
    run(TORCHLINT, "--isolated", "--ignore", "cleared-twice", bad, path=installed)
    run(TORCHLINT, "--isolated", "--ignore", "MINE", bad, path=installed)


def test_explain(run: Callable[..., str], installed: Path) -> None:
    assert "a pass over all parameters" in run(TORCHLINT, "explain", "cleared-twice", path=installed)


def test_without_the_plugin(run: Callable[..., str], project: Path) -> None:
    run(TORCHLINT, "--isolated", project / BAD)


def test_harness(run: Callable[..., str], project: Path, installed: Path) -> None:
    """Its tests pass as they are, fail when a fixture changes, and bless what the fixes make of it."""
    assert "15 passed" in run(*PYTEST, path=installed, cwd=project)
    bad, fixed = project / BAD, (project / BAD).with_suffix(".fixed.py")
    bad.write_text(bad.read_text("utf-8").replace("at_both_ends", "twice"), "utf-8")
    marked = bad.read_text("utf-8")
    bad.write_text(marked.replace("  # expect: cleared-twice\n", "\n"), "utf-8")
    report = run(*PYTEST, path=installed, cwd=project, code=1)
    assert "line of bad.fixed.py: ['def at_both_ends(" in report
    assert "cleared_twice/bad.py:21: no marker, found cleared-twice@9: the gradients of" in report
    bad.write_text(marked, "utf-8")
    run(*PYTEST, "--bless", path=installed, cwd=project)
    assert "def twice(" in fixed.read_text("utf-8")
    run(*PYTEST, path=installed, cwd=project)

"""A checkout that nobody trusts, and torchlint run in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from torchlint import Rule
from torchlint.cli import cli

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
needs_fifos = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files there")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Path:
    """The working folder, a checkout with one finding in it; beside it lies the folder `private`."""
    top = tmp_path / "checkout"
    (top / ".git").mkdir(parents=True)
    (top / "bad.py").write_text("bad()\n")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "secret.py").write_text("bad('secret')\n")
    monkeypatch.chdir(top)
    return top


@pytest.fixture
def private(checkout: Path) -> Path:
    """A folder of the user, outside of the checkout."""
    return checkout.parent / "private"


@pytest.fixture
def torchlint() -> Callable[..., Result]:
    """Runs torchlint in this process."""

    def torchlint(*arguments: str, stdin: str = "") -> Result:
        return CliRunner().invoke(cli, ["check", "--jobs", "1", *arguments], input=stdin)

    return torchlint

"""Running other programs, and this one, as a user would."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def run() -> Callable[..., str]:
    """Runs a command that must end with exit code `code`, and returns its output.

    `path` is the first folder that Python imports from.
    """

    def run(*command: str | Path, path: Path | None = None, cwd: Path | None = None, code: int = 0) -> str:
        environment = {**os.environ, "PYTHONPATH": str(path or ""), "NO_COLOR": "1"}
        done = subprocess.run(
            command, env=environment, cwd=cwd, capture_output=True, encoding="utf-8", timeout=600
        )
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    return run

"""A real editor: Neovim shows the diagnostics, applies the quick fix and saves the file."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.server.editor import SERVER

SCRIPT = Path(__file__).with_name("neovim.lua")


@pytest.mark.skipif(not shutil.which("nvim"), reason="needs Neovim")
def test_neovim(tmp_path: Path, environment: Mapping[str, str]) -> None:
    (tmp_path / "train.py").write_text("x = 1\ny = '日🔥é'; bad(y)\n", "utf-8")
    done = subprocess.run(
        ["nvim", "--headless", "--clean", "-S", SCRIPT],
        cwd=tmp_path,
        env={**environment, "SERVER": json.dumps(SERVER), "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "XX001 1:17-1:23 `bad` is bad" in output
    assert "call `good`" in output
    assert (tmp_path / "train.py").read_text("utf-8") == "x = 1\ny = '日🔥é'; good(y)\n"

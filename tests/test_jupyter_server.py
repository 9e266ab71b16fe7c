"""JupyterLab is told of the language server, or of what it needs."""

from __future__ import annotations

import logging
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.test_packaging import PROJECT
from torchlint.jupyter import language_server
from torchlint.jupyter.language_server import spec_finder
from torchlint.server.schema import SETTINGS

MANAGER = SimpleNamespace(log=logging.getLogger("jupyter"))


def test_jupyter_finds_it() -> None:
    assert PROJECT["entry-points"]["jupyter_lsp_spec_v1"] == {
        "torchlint": "torchlint.jupyter.language_server:spec_finder"
    }


def test_it_is_described() -> None:
    (spec,) = spec_finder(MANAGER).values()
    assert (spec["version"], spec["languages"]) == (2, ["python"])
    assert spec["config_schema"]["properties"].keys() == {f"torchlint.{name}" for name in SETTINGS}


def test_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(language_server, "is_installed", lambda: True)
    assert spec_finder.is_installed(MANAGER)
    assert not caplog.messages
    monkeypatch.setattr(language_server, "is_installed", lambda: False)
    assert not spec_finder.is_installed(MANAGER)
    assert caplog.messages == ['torchlint: the language server needs pygls: pip install "torchlint[lsp]"']
    assert spec_finder(MANAGER)["torchlint"]["install"] == {"pip": 'pip install "torchlint[lsp]"'}


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("pygls"), reason="the extra `lsp` is not installed")
def test_it_starts_and_imports_nothing_from_beside_the_notebooks(tmp_path: Path) -> None:
    for name in ("click", "pygls", "torchlint"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the folder of notebooks')\n", "utf-8")
    command = spec_finder(MANAGER)["torchlint"]["argv"]
    assert command[0] == sys.executable
    started = subprocess.run(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert (started.returncode, started.stdout, started.stderr) == (0, "", "")

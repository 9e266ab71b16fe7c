"""Nothing in the working folder is imported, whatever it is called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchlint.run import process_pool

NAMES = (
    *(
        "click",
        "libcst",
        "yaml",
        "torch",
        "pygls",
        "distributed",
        "pathspec",
        "tomli",
        "sitecustomize",
        "usercustomize",
    ),
    *(
        "multiprocessing",
        "concurrent",
        "json",
        "pickle",
        "hashlib",
        "secrets",
        "difflib",
        "tomllib",
        "signal",
        "socket",
    ),
)
DRIVER = """
import multiprocessing, sys
if __name__ == "__main__":
    if sys.argv[1] != "None":
        multiprocessing.set_start_method(sys.argv[1])
    del sys.argv[1]
    from torchlint.cli import main
    main()
"""
BAD = "for x in y:\n    loss = model(x)\n    loss.backward()\n    optimizer.step()\n" * 30


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, full of modules that leave a file in `ran` when they are imported; and a plugin."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "ran").mkdir()
    (tmp_path / "driver.py").write_text(DRIVER)
    for name in (*NAMES, "evil"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran' / name)!r}, 'w')\n")
    (folder / "evil.dist-info").mkdir()
    (folder / "evil.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (folder / "evil.dist-info" / "entry_points.txt").write_text("[torchlint.rules]\nevil = evil\n")
    for number in range(3):
        (folder / f"bad{number}.py").write_text(f"import torch\n{BAD}")
    monkeypatch.chdir(folder)
    for name in ("PYTHONPATH", "PYTHONSAFEPATH"):
        monkeypatch.delenv(name, raising=False)
    return folder


def check(*command: str | Path) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 1, done.stderr
    return done.stdout


@pytest.mark.slow
def test_as_a_module(folder: Path) -> None:
    assert "in 3 files" in check("-m", "torchlint", "--statistics", ".")
    assert os.listdir(folder.parent / "ran") == []


@pytest.mark.slow
@pytest.mark.parametrize("start", ["None", "spawn", "forkserver"])
def test_in_other_processes(folder: Path, start: str) -> None:
    """New interpreters look into the working folder before they are told where to look."""
    if sys.platform == "win32" and start == "forkserver":
        pytest.skip("there is none")
    driver = str(folder.parent / "driver.py")
    assert "in 3 files" in check(driver, start, "--jobs", "2", "--no-cache", "--statistics", ".")
    assert os.listdir(folder.parent / "ran") == []


def test_where_new_interpreters_cannot_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pool, "may_fork", lambda: False)
    monkeypatch.setattr(process_pool, "_may_be_told", lambda: False)
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "README", "tests"):
        (tmp_path / name).mkdir()
    assert process_pool.are_safe()
    (tmp_path / "pickle.cpython-311-x86_64-linux-gnu.so").touch()
    assert not process_pool.are_safe()


def test_the_variable_for_new_interpreters_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    for before in (None, ""):
        with process_pool._safe_path():
            assert os.environ["PYTHONSAFEPATH"] == "1"
        assert os.environ.get("PYTHONSAFEPATH") == before
        monkeypatch.setenv("PYTHONSAFEPATH", "")


@pytest.mark.slow
@pytest.mark.parametrize("flag", [["-I"], []])
def test_only_the_working_folder_is_taken_away(tmp_path: Path, flag: list[str]) -> None:
    """The rest of the path stays as it is."""
    code = "import runpy, sys; sys.argv[1:] = ['--version']\ntry: runpy.run_module('torchlint', run_name='__main__')\n"
    code += "except SystemExit: pass\nprint(*sys.path, sep='\\n')"
    done = subprocess.run([sys.executable, *flag, "-c", code], capture_output=True, encoding="utf-8", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("torchlint ") and len(lines) > 3, done.stderr
    assert "" not in lines and str(tmp_path) not in lines

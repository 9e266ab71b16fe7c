"""Files are replaced at once or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from torchlint.writing import WriteError, write


def test_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    write(path, b"old", b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_keeps_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o751)
    write(path, b"old", b"new")
    assert path.stat().st_mode & 0o777 == 0o751


def test_follows_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "a.py", tmp_path / "link.py"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write(link, b"old", b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_a_file_that_has_changed_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"newer")
    with pytest.raises(WriteError, match=r"a\.py has changed"):
        write(path, b"old", b"new")
    assert path.read_bytes() == b"newer"


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"a\.py cannot be written: No such file"):
        write(tmp_path / "a.py", b"old", b"new")


def test_a_failure_leaves_the_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(WriteError, match="No space left"):
        write(path, b"old", b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.py"]

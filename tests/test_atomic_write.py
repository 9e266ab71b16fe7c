"""Replacing files: whole or not at all, with everything about them kept but their content."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from torchlint.files.atomic_write import WriteError, write

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions and links of POSIX")


def test_content_is_replaced_to_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old\r\n")
    write(path, b"old\r\n", b"\xef\xbb\xbfnew\r\n\x00")
    assert path.read_bytes() == b"\xef\xbb\xbfnew\r\n\x00"
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "new"
    write(path, None, b"x")
    assert path.read_bytes() == b"x"
    with pytest.raises(WriteError, match="has changed"):
        write(path, None, b"y")
    (tmp_path / "usual").touch()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("now", [b"newer", None])
def test_what_somebody_else_has_saved_or_deleted_stays(tmp_path: Path, now: bytes | None) -> None:
    path = tmp_path / "a.py"
    if now is not None:
        path.write_bytes(now)
    with pytest.raises(WriteError, match=r"a\.py has changed in the meantime, so torchlint did not write it"):
        write(path, b"old", b"new")
    assert (path.read_bytes() if path.exists() else None) == now
    assert len(os.listdir(tmp_path)) == (now is not None)


@posix
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o664])
def test_permissions_are_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(mode)
    write(path, b"old", b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@posix
def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, link, second = tmp_path / "real" / "a.py", tmp_path / "link.py", tmp_path / "second.py"
    real.write_bytes(b"old")
    link.symlink_to(Path("real", "a.py"))
    second.symlink_to("link.py")
    write(second, b"old", b"new")
    assert real.read_bytes() == b"new"
    assert link.is_symlink() and second.is_symlink()
    assert os.listdir(tmp_path / "real") == ["a.py"]


def test_nothing_is_left_behind_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(WriteError, match=r"cannot write .*a\.py: No space left on device"):
        write(path, b"old", b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.py"]


def test_an_interrupt_leaves_nothing_behind_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a.py", None, b"new")
    assert os.listdir(tmp_path) == []


def test_a_file_that_may_not_be_written_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(WriteError, match="read-only"):
        write(path, b"old", b"new")
    assert path.read_bytes() == b"old"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"cannot write .*: No such file or directory"):
        write(tmp_path / "no" / "a.py", None, b"new")

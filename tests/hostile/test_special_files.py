"""Files that are not regular, or have no end, are left out or refused in the place of any file; nothing hangs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.hostile.conftest import needs_fifos, needs_links
from torchlint.adoption.baseline import Baseline, BaselineError
from torchlint.files import regular
from torchlint.project.config import ConfigError, read
from torchlint.server.configuration import Configuration

Torchlint = Callable[..., Result]
ENDLESS = Path("/dev/zero")

needs_endless = pytest.mark.skipif(not ENDLESS.exists(), reason="no such device there")


def put(kind: str, path: Path) -> None:
    """Put something that never ends in the place of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(ENDLESS)


@needs_fifos
@needs_endless
@pytest.mark.parametrize("kind", ["pipe", "link to a device"])
@pytest.mark.parametrize("name", [".gitignore", ".git/info/exclude", "sub/.gitignore"])
def test_an_ignore_file_is_left_out(checkout: Path, torchlint: Torchlint, kind: str, name: str) -> None:
    put(kind, checkout / name)
    (checkout / name).parent.joinpath("also.py").touch()
    result = torchlint("--statistics")
    assert result.stdout.startswith("     1  XX001")
    (warning,) = result.stderr.splitlines()
    assert warning.startswith("warning: ") and f"{name} is left out: " in warning
    assert torchlint("--quiet").stderr == ""


@needs_links
def test_a_linked_ignore_file_counts_no_more_than_for_git(checkout: Path, torchlint: Torchlint) -> None:
    (checkout / "list").write_text("bad.py\n")
    (checkout / ".gitignore").symlink_to("list")
    result = torchlint("--statistics")
    assert result.stdout.startswith("     1  XX001") and ".gitignore is left out: is a link" in result.stderr


def test_a_folder_of_that_name_is_none(checkout: Path, torchlint: Torchlint) -> None:
    (checkout / ".gitignore").mkdir()
    assert torchlint().stderr == ""


def test_an_ignore_file_without_end(checkout: Path, torchlint: Torchlint) -> None:
    with (checkout / ".gitignore").open("wb") as file:
        file.truncate(10**10)
    assert "is larger than the limit" in torchlint().stderr


@needs_fifos
@needs_endless
@pytest.mark.parametrize("kind", ["pipe", "link to a device"])
@pytest.mark.parametrize("name", ["torchlint.toml", "pyproject.toml"])
def test_a_configuration_is_refused(checkout: Path, torchlint: Torchlint, kind: str, name: str) -> None:
    put(kind, checkout / name)
    for arguments in ((), ("--config", name)):
        result = torchlint(*arguments)
        assert result.exit_code == 2 and f"{name}:1: cannot be read: " in result.stderr


@needs_endless
def test_a_device_that_is_named_as_configuration_or_baseline() -> None:
    with pytest.raises(ConfigError, match="not a regular file"):
        read(ENDLESS)
    with pytest.raises(BaselineError, match="not a regular file"):
        Baseline.read(ENDLESS)


@needs_fifos
@needs_endless
@pytest.mark.parametrize("kind", ["pipe", "link to a device"])
def test_a_baseline_is_refused(checkout: Path, torchlint: Torchlint, kind: str) -> None:
    put(kind, checkout / "known.json")
    for arguments in ((), ("--update-baseline",)):
        result = torchlint("--baseline", "known.json", *arguments)
        assert result.exit_code == 2 and "known.json: cannot be read: " in result.stderr


@needs_fifos
def test_a_pipe_does_not_stop_the_language_server(checkout: Path) -> None:
    os.mkfifo(checkout / ".gitignore")
    (checkout / "sub").mkdir()
    os.mkfifo(checkout / "sub" / "torchlint.toml")
    complaints: list[str] = []
    configuration = Configuration(complaints.append)
    assert configuration.selection(checkout / "bad.py") is not None
    configuration.selection(checkout / "sub" / "a.py")
    assert len(complaints) == 1 and "torchlint.toml:1: cannot be read: not a regular file" in complaints[0]


@needs_fifos
def test_a_pipe_that_comes_after_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between being looked at and being opened, a file may have been replaced."""
    innocent, pipe = tmp_path / "innocent", tmp_path / "pipe"
    innocent.touch()
    os.mkfifo(pipe)
    status = os.stat(innocent)
    monkeypatch.setattr(os, "stat", lambda path, **_: status)
    with pytest.raises(OSError, match="not a regular file"):
        regular.read(pipe, 100)


@needs_links
def test_a_link_that_comes_after_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").touch()
    (tmp_path / "link").symlink_to("secret")
    monkeypatch.setattr(os.path, "islink", lambda path: False)
    with pytest.raises(OSError, match="symbolic links"):
        regular.read(tmp_path / "link", 100, links=False)


def test_a_file_that_grows_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "growing"
    path.touch()
    status = os.stat(path)
    path.write_bytes(b"x" * 101)
    monkeypatch.setattr(os, "stat", lambda path, **_: status)
    monkeypatch.setattr(os, "fstat", lambda descriptor: status)
    assert regular.read(path, 101) == b"x" * 101
    with pytest.raises(OSError, match="file of more bytes is larger than the limit of 100"):
        regular.read(path, 100)

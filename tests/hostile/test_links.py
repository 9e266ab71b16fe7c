"""No link leads out of a checkout: neither to what is read and shown, nor to what is written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.hostile.conftest import needs_links
from torchlint.files.atomic_write import write
from torchlint.files.checkout import real_path

Torchlint = Callable[..., Result]

pytestmark = needs_links


@pytest.fixture(params=["repository", "folder"])
def either(request: pytest.FixtureRequest, checkout: Path) -> Path:
    """The checkout, which need not be a repository of Git."""
    if request.param == "folder":
        (checkout / ".git").rmdir()
    return checkout


def state(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_file_elsewhere_is_not_shown(either: Path, private: Path, torchlint: Torchlint) -> None:
    """A syntax error does not quote the file, because the text might be a password."""
    (private / "password").write_text("pa ssword\n")
    (either / "a.py").symlink_to(private / "password")
    (either / "b.py").symlink_to("../private/secret.py")
    (either / "chain").symlink_to("../private")
    (either / "c.py").symlink_to("chain/secret.py")
    for arguments in ((), ("a.py", "b.py", "c.py", "chain/secret.py"), ("chain",)):
        result = torchlint(*arguments)
        assert "ssword" not in result.output and "secret'" not in result.output
        assert result.stdout.count(f"a link leads out of {either}") == (
            1 if arguments == ("chain",) else len(arguments) or 3
        )


def test_a_file_elsewhere_is_not_fixed(either: Path, private: Path, torchlint: Torchlint) -> None:
    (either / "a.py").symlink_to(private / "secret.py")
    before = state(private)
    torchlint("--fix", "--unsafe-fixes")
    torchlint("--add-ignores")
    torchlint("--add-ignores", "a.py")
    assert state(private) == before


def test_a_link_inside_is_followed(either: Path, torchlint: Torchlint) -> None:
    (either / "sub").mkdir()
    (either / "alias.py").symlink_to("sub/../bad.py")
    (either / "folder").symlink_to("sub")
    assert "1 finding" in torchlint("alias.py").stdout
    assert torchlint("folder").exit_code == 0
    torchlint("alias.py", "--add-ignores")
    assert "ignore" in (either / "bad.py").read_text() and (either / "alias.py").is_symlink()


def test_what_the_user_has_linked_is_the_user_s_own(either: Path, private: Path, torchlint: Torchlint) -> None:
    (private / "way").symlink_to(either)
    (private / "file.py").symlink_to(either / "bad.py")
    for path in (private / "way", private / "way" / "bad.py", private / "file.py"):
        assert "XX001" in torchlint(str(path)).stdout


def test_a_tree_that_is_named_is_a_checkout(checkout: Path, private: Path, torchlint: Torchlint) -> None:
    """Even without Git and far from the working folder."""
    (private / "a.py").symlink_to(checkout / "bad.py")
    assert f"a link leads out of {private}" in torchlint(str(private)).stdout


def test_a_repository_inside_another_is_its_own(checkout: Path, torchlint: Torchlint) -> None:
    (checkout / "inner" / ".git").mkdir(parents=True)
    (checkout / "inner" / "a.py").symlink_to("../bad.py")
    assert f"a link leads out of {checkout / 'inner'}" in torchlint("inner").stdout


def test_another_checkout_is_outside_too(checkout: Path, private: Path) -> None:
    """A link is judged by where it stands, not by where it leads."""
    (private / ".git").mkdir()
    (checkout / "link").symlink_to(private)
    with pytest.raises(OSError, match="a link leads out of"):
        real_path("link/secret.py")
    (checkout.parent / "checkout-2").mkdir()
    (checkout / "near").symlink_to("../checkout-2")
    with pytest.raises(OSError, match="a link leads out of"):
        real_path("near")
    assert real_path("../private/secret.py") == str(private / "secret.py")


def test_a_link_may_lead_up_and_down_again(checkout: Path) -> None:
    """`link/..` is the folder above the one to which the link leads."""
    (checkout / "a" / "b").mkdir(parents=True)
    (checkout / "down").symlink_to("a/b")
    assert real_path("down/../../bad.py") == str(checkout / "bad.py")
    (checkout / "self").symlink_to("self")
    assert real_path("self") == str(checkout / "self")


@pytest.mark.parametrize("name", ["torchlint.toml", "pyproject.toml"])
def test_a_configuration_elsewhere_is_not_read(checkout: Path, private: Path, torchlint: Torchlint, name: str) -> None:
    """An error would name its keys."""
    (private / "credentials").write_text("[tool.torchlint]\npassword-1234 = 1\n")
    (checkout / name).symlink_to(private / "credentials")
    for arguments in ((), ("--config", name)):
        result = torchlint(*arguments)
        assert result.exit_code == 2 and "1234" not in result.output
        assert f"{name}:1: cannot be read: a link leads out of {checkout}" in result.stderr


def test_a_configuration_may_be_shared_inside(checkout: Path, torchlint: Torchlint) -> None:
    (checkout / "sub").mkdir()
    (checkout / "shared.toml").write_text("ignore = ['bad-call']\n")
    (checkout / "torchlint.toml").symlink_to("shared.toml")
    assert torchlint().exit_code == 0


def test_a_baseline_elsewhere_is_neither_read_nor_written(checkout: Path, private: Path, torchlint: Torchlint) -> None:
    (private / "notes.json").write_text(json.dumps({"version": 1, "findings": []}))
    before = state(private)
    for target in ("notes.json", "new.json"):
        (checkout / "known.json").unlink(missing_ok=True)
        (checkout / "known.json").symlink_to(private / target)
        for arguments in ((), ("--update-baseline",)):
            result = torchlint("--baseline", "known.json", *arguments)
            assert result.exit_code >= 2 and f"a link leads out of {checkout}" in result.stderr
    assert state(private) == before


@pytest.mark.parametrize("arguments", [(), ("--diff",), ("--output-format", "html"), ("--statistics",)])
def test_a_report_is_not_written_elsewhere(
    checkout: Path, private: Path, torchlint: Torchlint, arguments: tuple[str, ...]
) -> None:
    before = state(private)
    (checkout / "reports").symlink_to(private)
    for target in ("secret.py", "new"):
        (checkout / "found.txt").unlink(missing_ok=True)
        (checkout / "found.txt").symlink_to(private / target)
        for file in ("found.txt", f"reports/{target}", str(checkout / "found.txt")):
            result = torchlint("--output-file", file, *arguments)
            assert result.exit_code >= 2 and f"a link leads out of {checkout}" in result.stderr
    assert state(private) == before


def test_a_report_is_not_written_into_another_name_of_a_file(
    checkout: Path, private: Path, torchlint: Torchlint
) -> None:
    """A hard link."""
    os.link(private / "secret.py", checkout / "found.txt")
    before = state(private)
    result = torchlint("--output-file", "found.txt")
    assert result.exit_code >= 2 and "the file has another name" in result.stderr
    assert state(private) == before


def test_a_fix_is_not_written_into_another_name_of_a_file(checkout: Path, private: Path, torchlint: Torchlint) -> None:
    os.link(private / "secret.py", checkout / "a.py")
    before = state(private)
    assert torchlint("--add-ignores").exit_code == 0
    assert "ignore" in (checkout / "a.py").read_text() and state(private) == before


def test_a_baseline_asks_for_nothing_elsewhere(
    checkout: Path, private: Path, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows a path may name another machine, which is then told who the user is; elsewhere a mount does that."""
    paths = ["../private/gone.py", str(private / "gone.py"), "//elsewhere/share/a.py", "/net/elsewhere/a.py", "gone.py"]
    known = [{"path": path, "rule": "bad-call", "fingerprint": "x"} for path in paths]
    (checkout / "known.json").write_text(json.dumps({"version": 1, "findings": known}))
    asked: list[str] = []
    lexists = os.path.lexists

    def ask(path: str | Path) -> bool:
        asked.append(os.fspath(path))
        return lexists(path)

    monkeypatch.setattr(os.path, "lexists", ask)
    result = torchlint("--baseline", "known.json")
    assert result.stderr == "1 entry of the baseline no longer occurs; --update-baseline removes it\n"
    assert str(checkout / "gone.py") in asked
    assert not [path for path in asked if "elsewhere" in path or str(private) in path]


@pytest.mark.skipif(not hasattr(os, "fchown"), reason="no such owners there")
def test_permissions_are_given_to_the_file_that_was_written(
    checkout: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write the folder can put a link in the place of a name at any time."""
    (checkout / "bad.py").chmod(0o4640)
    (private / "secret.py").chmod(0o600)
    change_owner = os.fchown

    def swap(descriptor: int, user: int, group: int) -> None:
        (temporary,) = checkout.glob(".torchlint-*.tmp")
        temporary.rename(checkout / "moved")
        temporary.symlink_to(private / "secret.py")
        change_owner(descriptor, user, group)

    monkeypatch.setattr(os, "fchown", swap)
    write(checkout / "bad.py", b"bad()\n", b"good()\n")
    assert (checkout / "moved").stat().st_mode & 0o7777 == 0o640
    assert (private / "secret.py").stat().st_mode & 0o7777 == 0o600
    assert (private / "secret.py").read_text() == "bad('secret')\n"

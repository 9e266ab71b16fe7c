"""A cache that a checkout brings along is none, and whatever lies in the user's own harms nothing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.hostile.conftest import needs_fifos, needs_links
from torchlint.cli import cli
from torchlint.run.cache import folder as folders
from torchlint.run.cache import index
from torchlint.run.cache.index import _head

Torchlint = Callable[..., Result]

LONG_AGO = 1_600_000_000


def index_of(folder: Path) -> Path:
    (file,) = folder.glob("*.json")
    return file


def forge(file: Path, value: object) -> None:
    """Write entries with the digest that belongs to them."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    file.write_bytes(_head(body) + b"\n" + body)


@needs_links
def test_a_linked_folder_is_left_alone(checkout: Path, private: Path, torchlint: Torchlint) -> None:
    for number in range(30):
        (private / f"{number:032x}.json").write_text("{}")
        os.utime(private / f"{number:032x}.json", (LONG_AGO, LONG_AGO))
    before = sorted(os.listdir(private))
    (checkout / ".torchlint_cache").symlink_to(private)
    torchlint()
    CliRunner().invoke(cli, ["cache", "clear"])
    assert sorted(os.listdir(private)) == before


@needs_links
def test_links_in_a_folder_are_left_alone(checkout: Path, private: Path, torchlint: Torchlint) -> None:
    (checkout / ".torchlint_cache").mkdir()
    for name in (".gitignore", "CACHEDIR.TAG"):
        (checkout / ".torchlint_cache" / name).symlink_to(private / name)
    torchlint()
    assert os.listdir(private) == ["secret.py"]


@needs_fifos
def test_pipes_in_a_folder_are_left_alone(checkout: Path, torchlint: Torchlint) -> None:
    (checkout / ".torchlint_cache").mkdir()
    os.mkfifo(checkout / ".torchlint_cache" / "CACHEDIR.TAG")
    assert torchlint().exit_code == 1
    CliRunner().invoke(cli, ["cache", "clear"])


def test_planted_results_hide_nothing(checkout: Path, torchlint: Torchlint, cache_folder: Path) -> None:
    honest = torchlint().stdout
    file = index_of(cache_folder)
    modules, entries = json.loads(file.read_bytes().split(b"\n")[1])
    for entry in entries.values():
        entry[2] = []
    (checkout / ".torchlint_cache").mkdir()
    forge(checkout / ".torchlint_cache" / file.name, [modules, entries])
    file.unlink()
    assert torchlint().stdout == torchlint().stdout == honest


FINDING = ["bad-call", "XX001", "m", [1, 0, 1, 5], "error", "high", [], "h", "f", [], None]


@pytest.mark.parametrize(
    "value",
    [
        *([], 1, None, "x", {"bad.py": None}, {"bad.py": {}}, {"bad.py": []}, {"bad.py": "abcde"}),
        {"bad.py": [[], "digest", [], 1, [], 3]},
        {"bad.py": [1, "digest", [], 1, []]},
        {"bad.py": [[], "digest", 1, 1, []]},
        {"bad.py": [[], "digest", [], "x", []]},
        {"bad.py": [[], "digest", [], 20_000, [0]]},
        {"bad.py": [[], "digest", [], 20_000, None]},
        {"bad.py": [[], "digest", [[1, 2]], 20_000, []]},
        {"bad.py": [[], "digest", [[*FINDING[:3], [1], *FINDING[4:]]], 20_000, []]},
        {"bad.py": [[], "digest", [[*FINDING[:4], "loud", *FINDING[5:]]], 20_000, []]},
        {"bad.py": [[], "digest", [[*FINDING[:6], 5, *FINDING[7:]]], 20_000, []]},
        {"bad.py": [[], "digest", [[*FINDING[:9], [["x"]], None]], 20_000, []]},
        {"bad.py": [[], "digest", [[*FINDING[:10], ["fix"]]], 20_000, []]},
        b"[" * 100_000 + b"]" * 100_000,
        b'[[["a", "b", "file", 1, 2]], {"bad.py": [[], "digest", [], 20000, [0]]}]',
        b'[[], {"bad.py": [[], "digest", [], %s, []]}]' % (b"9" * 5_000),
        b"\xff\xfe{}",
    ],
)
def test_entries_of_another_form_are_none(
    checkout: Path, torchlint: Torchlint, cache_folder: Path, value: object
) -> None:
    honest = torchlint()
    file = index_of(cache_folder)
    _, entries = json.loads(file.read_bytes().split(b"\n")[1])
    ((_, digest, *_),) = entries.values()
    if isinstance(value, dict):
        value = [[], json.loads(json.dumps(value).replace("digest", digest))]
    forge(file, value)
    again = torchlint()
    assert (again.stdout, again.stderr, again.exit_code) == (honest.stdout, "", 1)


@needs_links
@needs_fifos
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_stands_in_the_place_of_results_is_none(
    checkout: Path, private: Path, torchlint: Torchlint, cache_folder: Path, kind: str
) -> None:
    honest = torchlint().stdout
    file = index_of(cache_folder)
    file.rename(private / "results")
    if kind == "link":
        file.symlink_to(private / "results")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    before = (private / "results").read_bytes()
    assert torchlint().stdout == honest
    assert (private / "results").read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no such owners there")
def test_a_folder_of_another_user_is_not_used(
    checkout: Path, torchlint: Torchlint, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torchlint()
    before = sorted(os.listdir(cache_folder))
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    result = torchlint()
    expected = f"warning: TORCHLINT_CACHE_DIR={cache_folder} cannot be used: belongs to another user\n"
    assert (result.exit_code, result.stderr) == (1, expected)
    assert "belongs to another user" in CliRunner().invoke(cli, ["cache", "clear"]).stderr
    assert sorted(os.listdir(cache_folder)) == before


@needs_links
def test_a_folder_in_the_checkout_is_not_led_out_of_it(
    checkout: Path, private: Path, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some services can keep only what lies in the checkout."""
    (checkout / ".cache").symlink_to(private)
    monkeypatch.setenv("TORCHLINT_CACHE_DIR", str(checkout / ".cache"))
    result = torchlint()
    assert result.exit_code == 1 and f"a link leads out of {checkout}" in result.stderr
    assert os.listdir(private) == ["secret.py"]


@pytest.mark.parametrize("place", ["relative", "/proc/version/x", ""])
def test_a_folder_that_cannot_be(
    checkout: Path, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("HOME", str(checkout / "bad.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("LOCALAPPDATA", str(checkout / "bad.py"))
    monkeypatch.setenv("TORCHLINT_CACHE_DIR", place)
    result = torchlint()
    assert result.exit_code == 1 and bool(result.stderr) == bool(place)
    assert sorted(os.listdir(checkout)) == [".git", "bad.py"]


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", "XDG_CACHE_HOME", "shared/torchlint"),
        ("linux", "", "home/.cache/torchlint"),
        ("darwin", "", "home/Library/Caches/torchlint"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="homes of POSIX")
def test_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, variable: str, expected: str
) -> None:
    for name in ("TORCHLINT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.platform", platform)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "shared"))
    assert folders.find() == folders.Place(tmp_path / expected)
    assert (tmp_path / expected).stat().st_mode & 0o777 == 0o700


@needs_links
def test_clear_deletes_what_torchlint_has_made(
    checkout: Path, private: Path, torchlint: Torchlint, cache_folder: Path
) -> None:
    torchlint()
    mine = {"notes.json", ".gitignore", f"{'a' * 32}.json", f"{'b' * 32}.json"}
    (cache_folder / "notes.json").touch()
    (cache_folder / ".gitignore").touch()
    (cache_folder / f"{'a' * 32}.json").symlink_to(private / "secret.py")
    (cache_folder / f"{'b' * 32}.json").mkdir()
    result = CliRunner().invoke(cli, ["cache", "clear"])
    assert result.stderr == f"Deleted 1 file in {cache_folder}.\n"
    assert {*os.listdir(cache_folder)} == mine and (private / "secret.py").exists()


def test_a_checkout_does_not_fill_the_disk(
    checkout: Path, torchlint: Torchlint, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MAX_BYTES", 1_000)
    for number in range(10):
        (checkout / f"{'x' * 200}{number}.py").write_text("bad()\n")
    assert torchlint("--statistics").stdout.startswith("    11  XX001")
    assert [path for path in cache_folder.iterdir() if path.suffix in (".json", ".tmp")] == []


def test_the_cache_has_a_size(
    checkout: Path, torchlint: Torchlint, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MAX_BYTES", 10_000)
    cache_folder.mkdir(parents=True)
    for number in range(5):
        path = cache_folder / f"{number:032x}.json"
        path.write_bytes(b"x" * 4_000)
        os.utime(path, (time.time() - number * 60,) * 2)
    torchlint()
    assert sorted(len(path.read_bytes()) == 4_000 for path in cache_folder.glob("*.json")) == [False, True, True]

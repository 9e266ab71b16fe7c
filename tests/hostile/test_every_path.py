"""Each key of the configuration and each option that may be a path stays inside the checkout: those to come as well."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from tests.hostile.conftest import needs_links
from torchlint.cli.check import check
from torchlint.cli.options import PathType
from torchlint.project import kinds
from torchlint.project.keys import KEYS

Torchlint = Callable[..., Result]

pytestmark = needs_links

PATHS = ("../private/secret.py", "link/secret.py", "secret", "../private", "link")
OPTIONS = [option for option in check.params if isinstance(option.type, PathType) and isinstance(option, click.Option)]

_watching: list[list[str]] = []
_FILES = ("open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink")


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    """Records files that this process opens and changes during a watch. An audit hook cannot be removed."""
    if _watching and event in _FILES:
        _watching[-1] += [os.fspath(item) for item in arguments if isinstance(item, str | os.PathLike)]


sys.addaudithook(_hook)


@contextmanager
def touched(folder: Path) -> Iterator[list[str]]:
    """The paths that are opened or changed, as they are when the block ends: those that lie in `folder`, really."""
    seen: list[str] = []
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.pop()
        seen[:] = [path for path in seen if os.path.realpath(path).startswith(f"{folder}{os.sep}")]


@pytest.fixture(autouse=True)
def links(checkout: Path, private: Path) -> None:
    (checkout / "link").symlink_to(private)
    (checkout / "secret").symlink_to(private / "secret.py")


def forms(path: str) -> list[str]:
    """The values of TOML that could mean a path."""
    text = json.dumps(path)
    return [text, f"[{text}]", f"{{{text} = ['XX001']}}", f"{{{text} = {text}}}", f"{{path = {text}}}"]


def outside(torchlint: Torchlint, checkout: Path, private: Path, key: str) -> list[str]:
    """The paths outside of the checkout that any value of a key touches."""
    found = []
    for path in (*PATHS, str(private), str(private / "secret.py")):
        for value in forms(path):
            (checkout / "torchlint.toml").write_text(f"{key} = {value}\n")
            with touched(private) as seen:
                torchlint("--no-cache", ".")
            found += seen
    return found


@pytest.mark.parametrize("key", KEYS)
def test_no_key_leads_outside(checkout: Path, private: Path, torchlint: Torchlint, key: str) -> None:
    assert outside(torchlint, checkout, private, key) == []


def test_a_key_that_did_would_be_noticed(
    checkout: Path, private: Path, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def extended(kind: kinds.Flag, value: object, place: kinds.Place) -> bool:
        return bool((place.folder / str(value)).read_text())

    monkeypatch.setattr(kinds.Flag, "read", extended)
    assert outside(torchlint, checkout, private, "preview")


def test_the_options_are_known() -> None:
    assert {option.name for option in OPTIONS} == {
        "config",
        "output_file",
        "baseline",
        "stdin_filename",
        "cache_dir",
    }, "or is a new one tried below?"


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS if option.name != "cache_dir"], ids=lambda option: str(option.name)
)
@pytest.mark.parametrize("more", [(), ("--update-baseline",)])
def test_no_option_leads_outside(
    checkout: Path, private: Path, torchlint: Torchlint, option: click.Option, more: tuple[str, ...]
) -> None:
    for path in ("secret", "link/secret.py", "link/new"):
        with touched(private) as seen:
            result = torchlint("--no-cache", option.opts[0], path, *more)
        assert result.exit_code >= 2 and seen == []


def test_no_cache_folder_leads_outside(checkout: Path, private: Path, torchlint: Torchlint) -> None:
    """A run does not fail for its cache."""
    for path in ("secret", "link", "link/new"):
        with touched(private) as seen:
            result = torchlint("--cache-dir", path)
        assert result.exit_code >= (2 if path == "secret" else 1) and seen == []
        assert path == "secret" or f"warning: --cache-dir {path} cannot be used: a link leads out of" in result.stderr


def test_what_the_user_names_is_open(checkout: Path, private: Path, torchlint: Torchlint) -> None:
    with touched(private) as seen:
        assert torchlint("--no-cache", "--output-file", "../private/found.txt", "../private/secret.py").exit_code == 1
    assert seen and (private / "found.txt").exists()

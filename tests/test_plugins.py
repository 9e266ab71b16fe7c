"""Plugins are found by what their packages declare, and at no cost where nobody declares any."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from torchlint.engine import plugins
from torchlint.engine.plugins import CORE, Plugin


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    _clear()
    yield
    _clear()


def _clear() -> None:
    plugins.plugins.cache_clear()
    plugins._metadata_folders.cache_clear()


def declare(site: Path, project: str, text: str) -> None:
    info = site / f"{project}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(text)


def test_plugins_come_after_the_core_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path, "two", "[torchlint.rules]\nzeta = zeta.rules\nalpha = alpha:Rule\n")
    declare(tmp_path, "other", "[console_scripts]\nother = other:main\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = plugins.plugins()
    assert found[0] == CORE
    assert [plugin for plugin in found if plugin.release == "two 1.0"] == [
        Plugin("alpha", "alpha:Rule", "two 1.0"),
        Plugin("zeta", "zeta.rules", "two 1.0"),
    ]


@pytest.mark.parametrize("project", ["torchlint.mine", "torchlint_mine"])
def test_a_plugin_may_be_named_after_torchlint(project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path, project, "[torchlint.rules]\nmine = mine.rules\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert Plugin("mine", "mine.rules", f"{project} 1.0") in plugins.plugins()


def test_an_archive_on_the_path_may_declare_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("packed-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: packed\nVersion: 1.0\n")
        file.writestr("packed-1.0.dist-info/entry_points.txt", "[torchlint.rules]\npacked = packed\n")
    monkeypatch.syspath_prepend(str(archive))
    assert Plugin("packed", "packed", "packed 1.0") in plugins.plugins()
    assert plugins.version_of("libcst") == version("libcst")


def test_a_value_names_a_module_or_something_in_it() -> None:
    assert Plugin("a", "os.path").load() is __import__("os").path
    assert Plugin("b", "torchlint.rule:Rule.report").load() is __import__("torchlint").Rule.report
    with pytest.raises(AttributeError):
        Plugin("c", "torchlint.rule:Nothing").load()


def test_releases_are_those_that_are_installed() -> None:
    assert plugins.version_of("libcst") == version("libcst")


@pytest.mark.slow
def test_without_plugins_nothing_slow_is_imported(tmp_path: Path) -> None:
    """`importlib.metadata` takes longer to import than a file takes to lint."""
    (tmp_path / "one.py").write_text("x = 1\n")
    code = "import sys; from torchlint.cli import cli; cli(['one.py'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert {"torchlint.rules", "torchlint.run.cache"} <= set(done.stdout.split())
    assert {"importlib.metadata", "concurrent.futures", "shutil"}.isdisjoint(done.stdout.split())

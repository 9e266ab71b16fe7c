"""The extension for Visual Studio Code: its picture, its changelog, and the check of a bundle in `bundle.py`."""

from __future__ import annotations

import importlib.util
import json
import re
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"
MANIFEST: dict[str, Any] = json.loads((EXTENSION / "package.json").read_text("utf-8"))


def bundle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bundle", EXTENSION / "bundle.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_icon_is_a_picture_of_the_size_that_the_marketplace_asks_for() -> None:
    data = (EXTENSION / MANIFEST["icon"]).read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == (128, 128)


def test_the_changelog_has_the_version() -> None:
    assert "--changelog-path CHANGELOG.md" in MANIFEST["scripts"]["package"]
    changelog = (EXTENSION / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## \[([\d.]+)\]", changelog, re.M)[0] == MANIFEST["version"]


def test_the_package_holds_nothing_that_only_builds_it() -> None:
    left_out = (EXTENSION / ".vscodeignore").read_text("utf-8").split()
    assert {path.name for path in EXTENSION.iterdir() if path.suffix in (".py", ".sh", ".mjs")} <= set(left_out)


def test_a_bundle_that_repairs_and_serves_is_accepted() -> None:
    bundle().attempt(sys.executable, "-m", "torchlint")


def test_a_bundle_that_repairs_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "start.py").write_text("import sys; sys.exit('a module is missing')")
    with pytest.raises(SystemExit, match="does not repair a file with defects\na module is missing"):
        bundle().attempt(sys.executable, str(tmp_path / "start.py"))

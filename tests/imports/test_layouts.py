"""Imports are followed as Python would follow them, whatever the layout, and nothing outside the repository is read."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from tests.imports.programs import BACKWARD, loop, write
from torchlint.engine import registry
from torchlint.engine.examination import examine
from torchlint.engine.following import Following
from torchlint.files.source import SourceFile
from torchlint.files.sources import MAX_BYTES, Sources, imports_in

LAYOUTS = {
    "beside": ("train.py", "helpers.py", loop()),
    "the module": ("train.py", "helpers.py", loop("import helpers", "helpers.back")),
    "alias": ("train.py", "helpers.py", loop("import helpers as h", "h.back")),
    "renamed": ("train.py", "helpers.py", loop("from helpers import back as go_back", "go_back")),
    "star": ("train.py", "helpers.py", loop("from helpers import *")),
    "relative": ("pkg/train.py", "pkg/helpers.py", loop("from .helpers import back")),
    "module of the package": ("pkg/train.py", "pkg/helpers.py", loop("from . import helpers", "helpers.back")),
    "sibling package": ("pkg/train.py", "pkg/utils/helpers.py", loop("from .utils.helpers import back")),
    "above": ("pkg/scripts/train.py", "pkg/helpers.py", loop("from ..helpers import back")),
    "dotted": ("train.py", "pkg/utils/helpers.py", loop("import pkg.utils.helpers", "pkg.utils.helpers.back")),
    "package from a script": ("scripts/train.py", "pkg/helpers.py", loop("from pkg.helpers import back")),
    "src": ("scripts/train.py", "src/pkg/helpers.py", loop("from pkg.helpers import back")),
    "package in itself": ("src/pkg/train.py", "src/pkg/helpers.py", loop("from pkg.helpers import back")),
    "conditional": (
        "train.py",
        "helpers.py",
        loop("try:\n    from helpers import back\nexcept ImportError:\n    from pkg.helpers import back"),
    ),
    "several in brackets": ("train.py", "helpers.py", loop("from helpers import (  # two\n    one,\n    back,\n)")),
}


def found(folder: Path, name: str, following: Following | None = None) -> list[str]:
    """The codes of what is found in a file of a repository, in its order."""
    following = following or Following(here=str(folder))
    selection = registry.select(following=following)
    return [item.code for item in examine(SourceFile.read(folder / name, name), selection).findings]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("packages", [True, False], ids=["packages", "namespaces"])
def test_imports_are_followed(layout: str, packages: bool, tmp_path: Path) -> None:
    script, module, text = LAYOUTS[layout]
    write(tmp_path, {script: text, module: BACKWARD})
    for name in (script, module):
        for folder in Path(name).parents:
            if packages and "pkg" in folder.parts:
                (tmp_path / folder / "__init__.py").touch()
    assert found(tmp_path, script) == ["TL101"]
    assert found(tmp_path, module) == []


def test_packages_hand_on_what_they_import(tmp_path: Path) -> None:
    hands_on = "from .inner import back as go\n"
    write(
        tmp_path, {"train.py": loop("from pkg import go", "go"), "pkg/__init__.py": hands_on, "pkg/inner.py": BACKWARD}
    )
    assert found(tmp_path, "train.py") == ["TL101"]
    (tmp_path / "pkg/__init__.py").write_text(hands_on + "# long\n" * 2_000)
    assert found(tmp_path, "train.py") == ["TL101"], "what is too long to be parsed is read for its imports"


def test_an_import_in_a_function(tmp_path: Path) -> None:
    text = loop("").replace("    opt = ", "    from helpers import back\n    opt = ")
    write(tmp_path, {"train.py": text, "helpers.py": BACKWARD})
    assert found(tmp_path, "train.py") == ["TL101"]


def test_modules_that_import_each_other(tmp_path: Path) -> None:
    helpers = "from train import train\nfrom again import back as other\n" + BACKWARD
    write(tmp_path, {"train.py": loop(), "helpers.py": helpers, "again.py": "from helpers import other as back\n"})
    assert found(tmp_path, "train.py") == ["TL101"]


def test_a_notebook_imports_modules(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": loop().splitlines(keepends=True), "metadata": {}, "outputs": []}
    write(tmp_path, {"train.ipynb": json.dumps({"nbformat": 4, "cells": [cell]}), "helpers.py": BACKWARD})
    assert found(tmp_path, "train.ipynb") == ["TL101"]


def test_a_root_that_is_not_guessed_is_configured(tmp_path: Path) -> None:
    write(tmp_path, {"apps/a/train.py": loop(), "vendor/python/helpers.py": BACKWARD})
    assert found(tmp_path, "apps/a/train.py") == []
    folders = (str(tmp_path / "vendor/python"),)
    assert found(tmp_path, "apps/a/train.py", Following(folders=folders, here=str(tmp_path))) == ["TL101"]


@pytest.mark.parametrize(
    "helpers",
    ["def back(loss:\n", "\0", "def other(loss):\n    loss.backward()\n", "# " + "x" * MAX_BYTES + "\n" + BACKWARD],
    ids=["no Python", "no text", "no such name", "too large"],
)
def test_what_cannot_be_known_is_unknown(helpers: str, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": loop(), "helpers.py": helpers})
    assert found(tmp_path, "train.py") == []


@pytest.mark.parametrize("name", ["torch", "random", "numpy", "lightning"])
def test_a_file_does_not_stand_for_a_library(name: str, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": loop(f"from {name} import back"), f"{name}.py": BACKWARD})
    assert found(tmp_path, "train.py") == []


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_nothing_outside_is_read(tmp_path: Path) -> None:
    inside = tmp_path / "repository"
    write(inside, {"train.py": loop(), "pkg/train.py": loop("from ...outside.helpers import back")})
    write(tmp_path / "outside", {"helpers.py": BACKWARD})
    os.symlink(tmp_path / "outside/helpers.py", inside / "helpers.py")
    assert found(inside, "train.py") == []
    assert found(inside, "pkg/train.py") == []
    folders = (str(tmp_path / "outside"),)
    (inside / "helpers.py").unlink()
    assert found(inside, "train.py", Following(folders=folders, here=str(inside))) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_no_module(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": loop()})
    os.mkfifo(tmp_path / "helpers.py")
    assert found(tmp_path, "train.py") == []


def test_a_script_goes_before_the_folders_above(tmp_path: Path) -> None:
    quiet = "def back(loss):\n    print(loss)\n"
    write(tmp_path, {"helpers.py": quiet, "scripts/train.py": loop(), "scripts/helpers.py": BACKWARD})
    assert found(tmp_path, "scripts/train.py") == ["TL101"]


def test_findings_do_not_depend_on_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"train.py": loop("from pkg.helpers import back"), "pkg/helpers.py": BACKWARD})
    monkeypatch.chdir(tmp_path / "pkg")
    assert found(tmp_path, "train.py") == ["TL101"]
    assert found(tmp_path, "train.py", Following(Sources(), here=str(tmp_path))) == ["TL101"]


QUIET = "def back(loss):\n    print(loss)\n"


def test_one_dot_is_the_own_package(tmp_path: Path) -> None:
    text = loop("from . import helpers", "helpers.back")
    write(tmp_path, {"pkg/train.py": text, "pkg/__init__.py": "", "pkg/helpers.py": QUIET, "helpers.py": BACKWARD})
    assert found(tmp_path, "pkg/train.py") == []


def test_a_module_is_the_one_that_was_imported(tmp_path: Path) -> None:
    """`engine` of `pkg.x` is that of `pkg/sub`, whatever lies beside the script."""
    files = {
        "train.py": loop("from pkg.x import engine", "engine.back"),
        "pkg/__init__.py": "",
        "pkg/x.py": "from .sub import engine\n",
        "pkg/sub/__init__.py": "",
        "pkg/sub/engine.py": BACKWARD,
        "sub/engine.py": QUIET,
    }
    write(tmp_path, files)
    assert found(tmp_path, "train.py") == ["TL101"]
    write(tmp_path, {"pkg/sub/engine.py": QUIET, "sub/engine.py": BACKWARD})
    assert found(tmp_path, "train.py") == []


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_each_repository_has_its_own_top(tmp_path: Path) -> None:
    """An inner repository does not read files that only the outer one may read, in either order."""
    write(tmp_path, {"train.py": loop("from inner.helpers import back"), "outer.py": BACKWARD, "inner/__init__.py": ""})
    write(tmp_path / "inner", {"train.py": loop()})
    os.symlink(tmp_path / "outer.py", tmp_path / "inner/helpers.py")
    for names in (["train.py", "inner/train.py"], ["inner/train.py", "train.py"]):
        following = Following(here=str(tmp_path))
        assert {name: found(tmp_path, name, following) for name in names} == {
            "train.py": ["TL101"],
            "inner/train.py": [],
        }


def test_many_modules_that_import_all_others(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(60)]
    body = "".join(f"import {name}\n" for name in names) + "\n\n" + BACKWARD + "\n\ndef go(loss):\n    back(loss)\n"
    write(tmp_path, {f"{name}.py": body for name in names} | {"train.py": loop("from m0 import go", "go")})
    start = time.process_time()
    assert found(tmp_path, "train.py") == ["TL101"]
    assert time.process_time() - start < 30


def test_imports_are_read_in_linear_time() -> None:
    """Brackets that never close, as in a text about imports."""
    start = time.process_time()
    assert len(list(imports_in(b"from a import (b\n" * 40_000))) == 40_000
    assert time.process_time() - start < 2


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_in_circles_lead_nowhere(tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "", "pkg/x.py": "from .a import x\nfrom .b import x\nfrom .a.b import x\n"})
    for name in ("a", "b"):
        os.symlink(".", tmp_path / "pkg" / name, target_is_directory=True)
    search = Following(here=str(tmp_path)).search("train.py")
    assert len(search.reachable(b"import pkg.x\n", 1_000_000)) < 20


PACKAGE = {
    "pkg/__init__.py": "from .loops import fit\nfrom .sub import back\nfrom .loose import *\nfrom . import tools\n",
    "pkg/loops.py": "",
    "pkg/loose.py": "",
    "pkg/tools/__init__.py": "from .tool import use\n",
    "pkg/tools/tool.py": "",
    "pkg/sub/__init__.py": "try:\n    from .fast import back\nexcept ImportError:\n    from .slow import back\n",
    "pkg/sub/fast.py": "",
    "pkg/sub/slow.py": "",
    "pkg/alone.py": "",
}


@pytest.mark.parametrize(
    ("written", "files"),
    [
        ("from pkg import fit", ["__init__", "loops"]),
        ("from pkg import back", ["__init__", "sub/__init__", "sub/fast", "sub/slow"]),
        ("from pkg import tools", ["__init__", "tools/__init__", "tools/tool"]),
        ("from pkg.alone import anything", ["alone"]),
        ("from pkg.sub import unknown", ["sub/__init__"]),
        (
            "from pkg import of_a_star",
            ["__init__", "loops", "loose", "sub/__init__", "sub/fast", "sub/slow", "tools/__init__"],
        ),
        ("import pkg", ["__init__", "loops", "loose", "sub/__init__", "sub/fast", "sub/slow", "tools/__init__"]),
        ("from pkg import *", ["__init__", "loops", "loose", "sub/__init__", "sub/fast", "sub/slow", "tools/__init__"]),
    ],
)
def test_what_an_import_leads_to(written: str, files: list[str], tmp_path: Path) -> None:
    """An import of a package reads only the modules that pass on the names, unless the whole package is imported."""
    write(tmp_path, PACKAGE)
    search = Following(here=str(tmp_path), top=str(tmp_path)).search("train.py")
    read = {Path(path).relative_to(tmp_path / "pkg").as_posix() for path in search.imported(f"{written}\n".encode())}
    assert read == {f"{name}.py" for name in files}


def test_names_that_are_handed_around_in_circles_lead_nowhere(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"pkg/__init__.py": "from .a import x\n", "pkg/a.py": "from .b import x\n", "pkg/b.py": "from .a import x\n"},
    )
    search = Following(here=str(tmp_path), top=str(tmp_path)).search("train.py")
    assert len(search.imported(b"from pkg import x\n")) == 3


def test_names_with_many_origins_are_looked_for_in_few(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(30)]
    body = "".join(f"from .{name} import x\n" for name in names)
    write(tmp_path, {f"pkg/{name}.py": body for name in [*names, "__init__"]})
    search = Following(here=str(tmp_path), top=str(tmp_path)).search("train.py")
    start = time.process_time()
    assert len(search.imported(b"from pkg import x\n")) == 31
    assert time.process_time() - start < 2

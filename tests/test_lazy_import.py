"""A run imports only the modules that it needs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchlint.lazy_import import late

RUN = """
import sys
from torchlint.cli import main
try:
    main()
except SystemExit as end:
    assert end.code == 0, end.code
needed_by_few = ("libcst.", "torchlint.model.", "torch.", "torchlint.project.kinds", "torchlint.files.notebook")
lazy = ("torchlint.model", "torchlint.model.queries", "torchlint.model.relations")
loaded = (name for name, module in sys.modules.items() if type(module) is type(sys))
print("LOADED", *(name for name in loaded if f"{name}.".startswith(needed_by_few) and name not in lazy))
"""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["--isolated", "a.py"]])
def test_libcst_is_for_files_that_are_parsed(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "a.py").write_text("import torch\n\ntotal = 0\nfor i in range(3):\n    total += i\n")
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=60
    )
    assert done.stdout.splitlines()[-1] == "LOADED", done.stdout + done.stderr


RULES = """
import sys
from torchlint.cli import main
try:
    main()
except SystemExit as end:
    print("RULES", *(name for name in sys.modules if name.startswith("torchlint.rules.")))
"""
"""Prints the modules of rules that a run imports; the first run in a source tree imports all and writes the table."""
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def rules_imported_for(text: str, folder: Path) -> set[str]:
    (folder / "a.py").write_text(text)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", RULES, "--isolated", "--no-cache", "a.py"],
            cwd=folder, env=ENVIRONMENT, capture_output=True, encoding="utf-8", timeout=60,
        )  # fmt: skip
    head, *names = done.stdout.splitlines()[-1].split()
    assert head == "RULES", done.stdout + done.stderr
    return {name.removeprefix("torchlint.rules.") for name in names}


@pytest.mark.slow
def test_a_rule_is_imported_where_its_words_are(tmp_path: Path) -> None:
    assert rules_imported_for("x = 1\n", tmp_path) == set()
    few = {"evaluation_in_training_mode", "retain_graph_in_loop", "second_backward", "undetached_hidden_state"}
    assert rules_imported_for("class Layer:\n    def backward(self): ...\n", tmp_path) == few
    freeing = rules_imported_for("import torch\n\ntorch.cuda.empty_cache()\n", tmp_path)
    assert "empty_cache_in_loop" in freeing and len(freeing) < 15


def test_a_late_module_is_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_import.py").write_text("print('imported')\nclass Thing: ...\nvalue = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = late("slow_to_import")
    import slow_to_import as again  # type: ignore[import-not-found]

    assert again is module and "value" not in vars(module)
    assert module.value == 3
    import slow_to_import as real

    assert real.Thing is module.Thing and late("slow_to_import") is real
    with pytest.raises(AttributeError):
        _ = module.other


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(ModuleNotFoundError):
        _ = late("no_such_module_anywhere").value


def test_no_module_replaces_a_function_of_its_package() -> None:
    """Python sets an imported module as an attribute of its package, in the place of a function of the same name."""
    for init in (Path(__file__).parent.parent / "torchlint").rglob("__init__.py"):
        defined = {node.name for node in ast.parse(init.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}
        modules = {path.stem for path in init.parent.iterdir()}
        assert defined.isdisjoint(modules), init

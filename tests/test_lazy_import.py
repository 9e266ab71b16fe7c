"""What a run does not need is not imported."""

from __future__ import annotations

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
needed_by_few = ("libcst.", "torchlint.model.", "torch.")
lazy = ("torchlint.model", "torchlint.model.queries")
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

"""A third-party rule in a package of its own: installed, run by the command line, tested by the harness."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TORCHLINT = Path(sys.executable).with_name("torchlint")

FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "torchlint-seeds"
version = "1.0"

[project.entry-points."torchlint.rules"]
seeds = "torchlint_seeds"

[tool.setuptools]
packages = ["torchlint_seeds"]
""",
    "torchlint_seeds/__init__.py": "",
    "torchlint_seeds/seed_in_loop.py": '''\
import libcst as cst

from torchlint import Category, Rule


class SeedInLoop(Rule):
    """Every iteration draws the same random numbers.

    ## What it does
    Finds `manual_seed` in a loop.

    ## Why is this bad?
    Each epoch sees the same augmentations and the same dropout masks.

    ## Example
    ```python
    import torch

    for epoch in range(10):
        torch.manual_seed(0)
    ```

    Use instead:
    ```python
    import torch

    torch.manual_seed(0)
    for epoch in range(10):
        ...
    ```
    """

    code = "SEED001"
    category = Category.SUSPICIOUS
    triggers = ((b"manual_seed",),)

    def __init__(self, *args):
        super().__init__(*args)
        self.loops = 0

    def visit_For(self, node: cst.For) -> None:
        self.loops += 1

    def leave_For(self, node: cst.For) -> None:
        self.loops -= 1

    def visit_Call(self, node: cst.Call) -> None:
        if self.loops and isinstance(node.func, cst.Attribute) and node.func.attr.value == "manual_seed":
            self.report(node, "`manual_seed` runs on every iteration")
''',
    "fixtures/seed_in_loop/bad.py": """\
import torch

for epoch in range(10):
    torch.manual_seed(0)  # expect: seed-in-loop@5 "every iteration"
    torch.cuda.manual_seed(0)  # expect: seed-in-loop
""",
    "fixtures/seed_in_loop/good.py": """\
import torch

for epoch in range(10):
    print(epoch)
torch.manual_seed(0)  # ok: seed-in-loop the loop is over
""",
    "test_rules.py": """\
from pathlib import Path

import pytest
from torchlint import testing
from torchlint_seeds.seed_in_loop import SeedInLoop


@pytest.mark.parametrize("case", testing.cases(Path(__file__).parent / "fixtures"), ids=str)
def test_fixture(case):
    assert case.problems() == []


def test_examples():
    assert testing.example_problems(SeedInLoop) == []
""",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source tree of the plugin."""
    root = tmp_path_factory.mktemp("plugin")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


@pytest.fixture(scope="module")
def installed(run: Callable[..., str], project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the plugin is installed into."""
    target = tmp_path_factory.mktemp("site")
    pip = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
    )
    run(*pip, "--target", target, project)
    return target


def test_command_line(run: Callable[..., str], project: Path, installed: Path) -> None:
    bad = project / "fixtures" / "seed_in_loop" / "bad.py"
    found = run(TORCHLINT, "--isolated", "--output-format", "concise", bad, path=installed, code=1)
    assert found.count("SEED001") == 2
    assert "`manual_seed` runs on every iteration" in found
    run(TORCHLINT, "--isolated", "--ignore", "seed-in-loop", bad, path=installed)
    run(TORCHLINT, "--isolated", "--ignore", "SEED", bad, path=installed)


def test_explain(run: Callable[..., str], installed: Path) -> None:
    assert "same dropout masks" in run(TORCHLINT, "explain", "seed-in-loop", path=installed)


def test_without_the_plugin(run: Callable[..., str], project: Path) -> None:
    run(TORCHLINT, "--isolated", project / "fixtures" / "seed_in_loop" / "bad.py")


def test_harness(run: Callable[..., str], project: Path, installed: Path, tmp_path: Path) -> None:
    pytest_command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_rules.py")
    assert "13 passed" in run(*pytest_command, path=installed, cwd=project)
    good = project / "fixtures" / "seed_in_loop" / "good.py"
    good.write_text("import torch\n\nfor epoch in range(10):\n    torch.manual_seed(0)\n", "utf-8")
    report = run(*pytest_command, path=installed, cwd=project, code=1)
    assert "seed_in_loop/good.py:4: no marker, found seed-in-loop@5: `manual_seed` runs on every" in report

"""The stored results of a file are valid while its imported modules are unchanged."""

from __future__ import annotations

import os
import pickle
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from tests.imports.programs import BACKWARD, loop, write
from torchlint.cli import cli
from torchlint.engine import registry
from torchlint.engine.following import Following
from torchlint.files.source import SourceFile
from torchlint.model.definitions import ClassInfo, Definitions
from torchlint.run import runner
from torchlint.run.cache import environment
from torchlint.syntax.reading import read

QUIET = "def back(loss):\n    print(loss)\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    repository = tmp_path / "repository"
    repository.mkdir()
    monkeypatch.chdir(repository)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return repository


def lint(*arguments: str) -> str:
    return CliRunner().invoke(cli, [".", "--output-format", "concise", "--quiet", *arguments]).stdout


def age(folder: Path) -> None:
    """Files that are older than a moment are known by what the system says of them."""
    past = time.time() - 60
    for path in folder.rglob("*.py"):
        os.utime(path, (past, past))


def test_another_body_of_what_is_imported(folder: Path) -> None:
    write(folder, {"train.py": loop(), "helpers.py": BACKWARD})
    assert "TL101" in lint()
    (folder / "helpers.py").write_text(QUIET)
    assert lint() == ""
    (folder / "helpers.py").write_text("\n\n\n" + BACKWARD)
    assert lint() == lint("--no-cache") != ""


def test_a_module_that_comes_and_goes(folder: Path) -> None:
    write(folder, {"train.py": loop()})
    assert lint() == ""
    (folder / "helpers.py").write_text(BACKWARD)
    assert "TL101" in lint()
    (folder / "helpers.py").rename(folder / "others.py")
    assert lint() == ""


SCORE = """\
def score(model, loader):
    model.eval()
    total = 0.0
    for x, y in loader:
        total += (model(x) - y).abs().mean().item()
    return total
"""
CALLER = "import torch\nfrom metrics import score\n\n@torch.no_grad()\ndef report(model, loader):\n    print({call})\n"


def test_a_caller_that_switches_gradients_off(folder: Path) -> None:
    """It lies in another file, which is written and changed after the one that is called was linted."""
    write(folder, {"metrics.py": SCORE, "pkg/other.py": "x = 1\n"})
    age(folder)
    assert "TL204" in lint()
    (folder / "pkg" / "other.py").write_text(CALLER.format(call="score(model, loader)"))
    assert lint() == ""
    (folder / "pkg" / "other.py").write_text(CALLER.format(call="loader"))
    assert "TL204" in lint()
    (folder / "report.py").write_text(CALLER.format(call="score(model, loader)"))
    assert lint() == ""


def test_warm_equals_cold_whatever_is_edited(folder: Path) -> None:
    """Files are written, moved and deleted at random, now and then as if they were old."""
    random = Random(0)
    switching = CALLER.format(call="score(model, loader)").replace("metrics", "other")
    texts = [
        BACKWARD,
        QUIET,
        SCORE,
        switching,
        "from helpers import back\n",
        "def back(",
        loop(),
        loop("from pkg.inner import back"),
    ]
    names = ["train.py", "helpers.py", "pkg/__init__.py", "pkg/inner.py", "pkg/helpers.py", "other.py"]
    for _ in range(60):
        path = folder / random.choice(names)
        if path.exists() and random.random() < 0.3:
            path.unlink()
        else:
            write(folder, {str(path.relative_to(folder)): random.choice(texts)})
        if random.random() < 0.5:
            age(folder)
        assert lint() == lint("--no-cache"), sorted(map(str, folder.rglob("*.py")))


def test_the_same_is_found_where_there_is_no_disk(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "pkg/train.py": loop("from .utils import back"),
        "pkg/utils/__init__.py": "from .inner import back\n",
        "pkg/utils/inner.py": BACKWARD,
        "pkg/__init__.py": "",
    }
    write(folder, files)
    selection = registry.select(following=Following(here=str(folder)))
    path = Path("pkg/train.py")
    job = runner.Job(path, selection, source=SourceFile(str(path), (folder / path).read_bytes()))
    expected = runner._lint(job)
    shipped = runner._shipped(job)
    for name in files:
        (folder / name).unlink()
    monkeypatch.chdir(tmp_path)
    (done,) = runner.lint_shipped(environment.environment(), pickle.dumps([shipped]))
    assert done.linted is not None
    assert expected.linted is not None
    assert [item.code for item in done.linted.findings] == ["TL101"]
    assert done.linted.findings == expected.linted.findings


@pytest.mark.slow
def test_processes_find_the_same(folder: Path) -> None:
    files = {f"train{number}.py": loop() for number in range(4)}
    write(folder, {**files, "helpers.py": BACKWARD})
    assert lint("--no-cache", "--jobs", "2") == lint("--no-cache", "--jobs", "1") != ""


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, capture_output=True)


def since(files: Mapping[str, str], folder: Path) -> str:
    """The findings since the commit before these files were written."""
    for name, text in files.items():
        (folder / name).write_text(text)
    return lint("--since", "HEAD", "--no-cache")


@pytest.mark.slow
def test_a_change_in_another_file_makes_a_finding_new(folder: Path) -> None:
    (folder / "train.py").write_text(loop())
    (folder / "helpers.py").write_text(QUIET)
    (folder / "other.py").write_text("x = 1\n")
    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "x")
    assert since({"other.py": "x = 2\n"}, folder) == ""
    assert "train.py:8:9: TL101" in since({"helpers.py": BACKWARD}, folder)
    git("add", ".")
    git("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "x")
    assert since({"helpers.py": "\n" + BACKWARD}, folder) == "", "it was there before"


def test_what_fixing_looked_for_is_remembered(folder: Path) -> None:
    clears = "def back(loss, opt):\n    opt.zero_grad()\n    loss.backward()\n"
    write(folder, {"train.py": loop(call="back").replace("back(loss)", "back(loss, opt)"), "helpers.py": clears})
    assert lint("--fix") == ""
    (folder / "helpers.py").write_text(clears.replace("    opt.zero_grad()\n", ""))
    assert "TL101" in lint()


@pytest.mark.parametrize("added", ["src/helpers.py", "pkg/helpers.py"])
def test_where_is_looked_for_modules_is_remembered(added: str, folder: Path) -> None:
    write(folder, {"pkg/train.py": loop()})
    assert lint() == ""
    write(folder, {added: BACKWARD})
    assert lint() == lint("--no-cache") != ""


def test_another_top_is_another_answer(folder: Path, tmp_path: Path) -> None:
    (folder / "pkg").mkdir()
    (folder / "pkg/train.py").write_text(loop())
    (folder / "helpers.py").write_text(BACKWARD)
    assert lint() == ""
    (folder / ".git").mkdir()
    assert lint() == lint("--no-cache") != ""


@pytest.mark.slow
def test_a_change_beside_what_is_named(folder: Path) -> None:
    (folder / "scripts").mkdir()
    (folder / "scripts/train.py").write_text(loop())
    (folder / "helpers.py").write_text(QUIET)
    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "x")
    (folder / "helpers.py").write_text(BACKWARD)
    (folder / "new.py").write_text(BACKWARD)
    done = CliRunner().invoke(cli, ["scripts", "--since", "HEAD", "--no-cache", "--output-format", "concise"])
    assert "train.py:8:9: TL101" in done.stdout


class Others:
    """The modules that a module imports: each name means a class of one of them."""

    def __init__(self, module: Definitions) -> None:
        self.module = module

    def defined(self, qualified: str, importer: Definitions) -> ClassInfo | None:
        return self.module.class_names.get(qualified.rpartition(".")[2])


def test_a_class_forgets_the_methods_of_bases_whose_module_is_gone() -> None:
    """The trees of a long run are shared and dropped one by one."""
    base = "class Base:\n    def back(self, loss):\n        loss.backward()\n"
    first, second = (Definitions(read(SourceFile("base.py", base.encode()))) for _ in range(2))
    middle = Definitions(read(SourceFile("middle.py", b"from base import Base\nclass Middle(Base):\n    pass\n")))
    for module in (first, second):
        middle.follow(Others(module))  # type: ignore[arg-type]
        assert middle.class_names["Middle"].method("back") is module.class_names["Base"].methods["back"]

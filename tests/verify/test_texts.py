"""Other texts run in place of files, however Python gets at them, and no file notices."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchlint.verify.folder import Conditions, Folder, Limits
from torchlint.verify.launch import BOOT

SCRIPT = """\
import sys
from sibling import name
from package import inner

WHERE = (__file__, __spec__ and __spec__.name, sys.argv, sys.path[0])


def work(number):
    return number, "as it is"


if __name__ == "__main__":
    print(work(1), name, inner.TEXT, WHERE)
"""
SPAWN = """\
import multiprocessing

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [2]))
"""
TRACEBACK = "def fail():\n    raise ValueError(1)  # as it is\n\n\nimport traceback\ntry:\n    fail()\n"
TRACEBACK += "except ValueError:\n    print(traceback.format_exc())\n"


@pytest.fixture
def folder() -> Iterator[Folder]:
    made = Folder()
    yield made
    made.remove()


def fixed(text: str) -> bytes:
    return text.replace("as it is", "fixed").encode()


def python(project: Path, folder: Folder, *arguments: str, **texts: bytes) -> str:
    """The output of Python with these texts, by the name of the file that they replace."""
    paths = {name.replace("__", "/") + ".py": text for name, text in texts.items()}
    conditions = Conditions(7, {str((project / path).resolve()): text for path, text in paths.items()})
    folder.write_plan([], project, Limits(), conditions)
    environment = {**os.environ, "PYTHONPATH": str(BOOT), "TORCHLINT_VERIFY": str(folder.path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=project, env=environment, capture_output=True, text=True, timeout=60
    )
    assert not done.stderr
    assert folder.replaced(conditions) == frozenset(conditions.texts)
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "sibling.py").write_text("name = 'sibling'\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "inner.py").write_text("TEXT = 'as it is'\n")
    (tmp_path / "script.py").write_text(SCRIPT + SPAWN)
    return tmp_path


def test_a_script_is_run_as_python_runs_it(project: Path, folder: Folder) -> None:
    alone = subprocess.run([sys.executable, "script.py", "-x"], cwd=project, capture_output=True, text=True).stdout
    text = python(project, folder, "script.py", "-x", script=fixed(SCRIPT + SPAWN))
    first, second = text.splitlines()
    assert first == alone.splitlines()[0].replace("as it is", "fixed", 1)
    assert second == "[(2, 'fixed')]"


def test_a_module_and_what_it_imports(project: Path, folder: Folder) -> None:
    """Bytecode of the files is there, and is neither used nor written anew."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", "."], cwd=project, check=True)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in project.rglob("*.*") if path.is_file()}
    text = python(project, folder, "-m", "script", script=fixed(SCRIPT), package__inner=b"TEXT = 'fixed'\n")
    assert text.startswith("(1, 'fixed') sibling fixed ")
    assert "'script'" in text
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before


def test_bytecode_of_a_text_is_not_left_behind(project: Path, folder: Folder) -> None:
    python(project, folder, "-c", "import package.inner", package__inner=b"TEXT = 'fixed'\n")
    assert not list(project.rglob("inner.*.pyc"))


def test_run_path(project: Path, folder: Folder) -> None:
    command = "import runpy, sys; print(runpy.run_path('script.py')['work'](3)); print('script.py' in sys.path)"
    text = python(project, folder, "-c", command, script=fixed(SCRIPT))
    assert text == "(3, 'fixed')\nFalse\n"


def test_a_link_to_a_script(project: Path, folder: Folder) -> None:
    (project / "bin").mkdir()
    try:
        (project / "bin" / "run.py").symlink_to(project / "script.py")
    except OSError:
        pytest.skip("no links here")
    text = python(project, folder, "bin/run.py", script=fixed(SCRIPT))
    assert text.startswith("(1, 'fixed') sibling as it is")


def test_tracebacks_show_the_text_that_runs(project: Path, folder: Folder) -> None:
    (project / "fails.py").write_text(TRACEBACK)
    text = python(project, folder, "fails.py", fails=b"\n" + fixed(TRACEBACK))
    assert "raise ValueError(1)  # fixed" in text
    assert f'"{project / "fails.py"}", line 3' in text


def test_random_numbers_are_seeded(project: Path, folder: Folder) -> None:
    command = "import random, package.inner; print(random.random())"
    texts = {"package__inner": b""}
    assert python(project, folder, "-c", command, **texts) == python(project, folder, "-c", command, **texts)

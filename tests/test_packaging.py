"""The distribution contains every rule, the type marker and the entry points, and nothing else."""

from __future__ import annotations

import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]


def modules() -> set[str]:
    """The files of the package as they lie in a wheel."""
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "torchlint").rglob("*.py")}
    return package | {f"torchlint/rules/{path.name}" for path in (ROOT / "rules").glob("*.py")}


@pytest.fixture(scope="module")
def built(run: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist, and a wheel that was built from it."""
    source = tmp_path_factory.mktemp("source")
    for name in ("torchlint", "rules", "tests", "fixtures", "docs", "editors", ".ci", ".github"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for file in filter(Path.is_file, ROOT.iterdir()):
        shutil.copy(file, source)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", source / "dist", source)
    return source / "dist"


def test_packages_are_the_folders() -> None:
    folders = {name.rpartition("/")[0].replace("/", ".") for name in modules()}
    assert set(PYPROJECT["tool"]["setuptools"]["packages"]) == folders


def test_wheel(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == modules() | {"torchlint/py.typed", "torchlint/rules/rule_table.json"}


def test_sdist(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {f"rules/{path.name}" for path in (ROOT / "rules").glob("*.py")} <= names
    assert {"torchlint/py.typed", "LICENSE", "README.md", "pyproject.toml", "CHANGELOG.md", "mkdocs.yml"} <= names
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    assert (
        tests | {".ci/run", "docs/architecture.md", "fixtures/missing_zero_grad/bad.py", "editors/vscode/README.md"}
        <= names
    )
    assert not [name for name in names if "__pycache__" in name]


def test_sdist_can_be_tested(run: Callable[..., str], built: Path, tmp_path: Path) -> None:
    """Its tests pass on what is installed from it, without a repository around them."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    installed = tmp_path / "installed"
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(installed)
    few = [unpacked / "tests" / f"test_{name}.py" for name in ("globs", "recipes", "edits", "rule_docs")]
    options = (
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        "--rootdir",
        unpacked,
        "-c",
        unpacked / "pyproject.toml",
    )
    assert " passed" in run(sys.executable, "-m", "pytest", *options, *few, path=unpacked, cwd=installed)


def test_installed_wheel(run: Callable[..., str], built: Path, tmp_path: Path) -> None:
    wheel = next(built.glob("*.whl"))
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, "--target", tmp_path, wheel)
    script = shutil.which("torchlint", path=tmp_path / "bin")
    assert script
    assert PROJECT["version"] in run(script, "--version", path=tmp_path)
    code = "from torchlint.engine import registry; print(registry.__file__, len(registry.rules()))"
    imported = "; import sys; print(*(name for name in sys.modules if name.startswith('torchlint.rules.')))"
    home, count, *rules = run(sys.executable, "-c", code + imported, path=tmp_path, cwd=tmp_path).split()
    assert home == str(tmp_path / "torchlint" / "engine" / "registry.py")
    assert int(count) == len(list((ROOT / "rules").glob("[!_]*.py"))) and rules == []
    next(tmp_path.glob("*.dist-info")).rename(tmp_path / "torchlint-0.0.1.dist-info")
    assert (
        run(sys.executable, "-c", code + imported, path=tmp_path, cwd=tmp_path).split()[2:] != []
    )  # of another version


def test_metadata() -> None:
    found = metadata.metadata("torchlint")
    assert found["Version"] == PROJECT["version"]
    assert found["Requires-Python"] == PROJECT["requires-python"]
    scripts = metadata.entry_points(group="console_scripts", name="torchlint")
    assert {point.value for point in scripts} == {"torchlint.cli:start"}
    rules = metadata.entry_points(group="torchlint.rules", name="core")
    assert {point.value for point in rules} == {"torchlint.rules"}


def test_import_is_light(run: Callable[..., str]) -> None:
    code = "import sys, torchlint; print(torchlint.Severity.ERROR.value, 'libcst' in sys.modules)"
    assert run(sys.executable, "-c", code).split() == ["error", "False"]

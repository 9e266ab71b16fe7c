"""The steps of the GitHub action, run as a runner does, with programs that write down how they are called."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ACTION = Path(__file__).parent.parent / "action.yml"
NOTE = """\
#!{python} -I
import json, os, sys
with open(os.environ["CALLS"], "a") as calls:
    print(json.dumps([os.path.relpath(sys.argv[0], os.environ["RUNNER_TEMP"]), *sys.argv[1:]]), file=calls)
sys.exit(int(os.environ.get("CODE", 0)))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32" or shutil.which("bash") is None, reason="runs the steps with bash"),
]


@dataclass(frozen=True)
class Runner:
    """A machine that runs steps: a folder for what is temporary, and the checkout that is linted."""

    temporary: Path
    checkout: Path
    action: Path

    def run(self, step: int, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run one of the steps that are scripts."""
        environment = {
            "PATH": os.environ["PATH"],
            "CALLS": str(self.temporary / "calls"),
            "GITHUB_ACTION_PATH": str(self.action),
            "GITHUB_ENV": str(self.temporary / "env"),
            "RUNNER_OS": "Linux",
            "RUNNER_TEMP": str(self.temporary),
        }
        script = self.temporary / "script.sh"
        script.write_text(scripts()[step])
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        return subprocess.run(
            command, cwd=self.checkout, env=environment | variables, capture_output=True, text=True, timeout=60
        )

    def calls(self) -> list[list[str]]:
        """The calls of programs so far: the path of each from the temporary folder, and its arguments."""
        return [json.loads(line) for line in (self.temporary / "calls").read_text().splitlines()]

    def program(self, name: str) -> str:
        """A program that writes down how it is called."""
        path = self.temporary / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NOTE.format(python=sys.executable))
        path.chmod(0o755)
        return str(path)

    def lint(self, paths: str = ".", arguments: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the step that lints, with these inputs."""
        return self.run(
            1,
            PYTHON=sys.executable,
            TORCHLINT_PROGRAM=self.program("linter"),
            PATHS=paths,
            ARGUMENTS=arguments,
            OUTPUT_FORMAT="github",
            CODE=str(code),
        )


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    folders = [tmp_path / name for name in ("temporary files", "checkout", "action at v1")]
    for folder in folders:
        folder.mkdir()
    return Runner(*folders)


def scripts() -> list[str]:
    yaml: Any = pytest.importorskip("yaml")
    steps = yaml.safe_load(ACTION.read_text("utf-8"))["runs"]["steps"]
    return [step["run"] for step in steps if "run" in step]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (".", ["."]),
        ("", []),
        (" \n\n", []),
        ("src train.py", ["src", "train.py"]),
        ("src\ntrain.py\n", ["src", "train.py"]),
        ("src tests\r\ntrain.py\r\n", ["src", "tests", "train.py"]),
        ("'my code'/train.py \"other code\"\n", ["my code/train.py", "other code"]),
        ("src\\train.py", ["src\\train.py"]),
        ("a#b.py # c.py", ["a#b.py", "#", "c.py"]),
        ("modèle.py", ["modèle.py"]),
        (
            "$(touch ran) `touch ran` ; touch ran && *",
            ["$(touch", "ran)", "`touch", "ran`", ";", "touch", "ran", "&&", "*"],
        ),
        ("--fix", ["--fix"]),
    ],
)
def test_paths(runner: Runner, paths: str, expected: list[str]) -> None:
    assert runner.lint(paths).returncode == 0
    assert runner.calls() == [["linter", "--output-format", "github", "--", *expected]]
    assert not any(runner.checkout.iterdir())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--select TL1 --preview", ["--select", "TL1", "--preview"]),
        ('--select "TL1, TL2"', ["--select", "TL1, TL2"]),
        ("--config='my settings.toml'\n--exit-zero\n", ["--config=my settings.toml", "--exit-zero"]),
        ('--exclude ""', ["--exclude", ""]),
    ],
)
def test_arguments(runner: Runner, arguments: str, expected: list[str]) -> None:
    assert runner.lint(arguments=arguments).returncode == 0
    assert runner.calls() == [["linter", "--output-format", "github", *expected, "--", "."]]


@pytest.mark.parametrize("code", [1, 2, 3])
def test_the_step_ends_as_torchlint_does(runner: Runner, code: int) -> None:
    assert runner.lint(code=code).returncode == code


def test_a_quote_that_is_not_closed_is_named(runner: Runner) -> None:
    result = runner.lint("src\nit's.py")
    assert result.returncode == 2
    assert result.stderr == "error: the input `paths`: No closing quotation\n"
    assert not (runner.temporary / "calls").exists()


@pytest.mark.parametrize(
    ("version", "wanted"), [("", "{action}"), ("0.2.0", "torchlint==0.2.0"), ("0.2.*", "torchlint==0.2.*")]
)
def test_the_action_installs_itself_unless_a_version_is_named(runner: Runner, version: str, wanted: str) -> None:
    runner.program("torchlint/bin/python")
    result = runner.run(0, PYTHON=runner.program("python"), VERSION=version)
    assert result.returncode == 0, result.stderr
    environment, wanted = str(runner.temporary / "torchlint"), wanted.format(action=runner.action)
    assert runner.calls() == [
        ["python", "-I", "-m", "venv", environment],
        ["torchlint/bin/python", "-I", "-m", "pip", "install", "--quiet", wanted],
    ]
    assert (runner.temporary / "env").read_text() == f"TORCHLINT_PROGRAM={environment}/bin/torchlint\n"


def test_the_action_runs_no_module_of_the_checkout(runner: Runner) -> None:
    for name in ("shlex", "subprocess", "venv", "pip", "ensurepip"):
        (runner.checkout / f"{name}.py").write_text("import sys; sys.exit('a module of the checkout ran')")
    runner.program("torchlint/bin/python")
    installed = runner.run(0, PYTHON=runner.program("python"), VERSION="")
    assert installed.returncode == 0
    assert all("-I" in call for call in runner.calls())
    linted = runner.lint()
    assert (linted.returncode, linted.stderr) == (0, "")


def test_a_failed_installation_ends_the_step(runner: Runner) -> None:
    runner.program("torchlint/bin/python")
    assert runner.run(0, PYTHON=runner.program("python"), VERSION="", CODE="1").returncode == 1

"""The README says what the program does: its commands, outputs and rule table are real.

`python tests/test_readme.py` writes outputs and table anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from torchlint import Rule
from torchlint.engine import registry
from torchlint.outputs import FORMATS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TORCHLINT = Path(sys.executable).with_name("torchlint")
TABLE = re.compile(r"(?<=\| --- \| --- \| --- \| --- \|\n)(\|.*\n)*")
CONSOLE = re.compile(r"^```console\n\$ torchlint (.*)\n((?:.*\n)*?)```$", re.M)
EXAMPLE = re.compile(r"^```python\n# (\w+\.py)\n((?:.*\n)*?)```$", re.M)


def torchlint(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TORCHLINT, *arguments], cwd=cwd, capture_output=True, encoding="utf-8", timeout=60)


def rendered(readme: str) -> str:
    """The README with the rule table and the output of every `$ torchlint ...` as they are now."""
    table = "".join(map(row, registry.rules()))
    with tempfile.TemporaryDirectory() as folder:
        for name, code in EXAMPLE.findall(readme):
            Path(folder, name).write_text(f"# {name}\n{code}", "utf-8")

        def console(match: re.Match[str]) -> str:
            done = torchlint(*match[1].split(), cwd=Path(folder))
            assert not done.stderr, done.stderr
            return f"```console\n$ torchlint {match[1]}\n{done.stdout}```"

        return CONSOLE.sub(console, TABLE.sub(lambda _: table, readme))


def row(rule: type[Rule]) -> str:
    """A built-in rule's line of the table."""
    meta = rule.meta()
    category = meta.category.value + ", preview" * meta.preview
    line = f"| {meta.code} | `{meta.name}` | {category} | {meta.summary} |\n"
    return line if rule.__module__.startswith("torchlint.rules.") else ""


def commands() -> list[str]:
    """The blocks of shell commands, the first two of which set everything up."""
    return re.findall(r"^```sh\n(.*?)\n```$", README.read_text("utf-8"), re.M | re.S)


@pytest.mark.slow
def test_outputs_and_table_are_real() -> None:
    readme = README.read_text("utf-8")
    assert len(CONSOLE.findall(readme)) >= 2
    assert readme == rendered(readme), "run `python tests/test_readme.py`"


def test_two_commands_are_the_ones_in_use() -> None:
    lint, test = commands()[:2]
    script = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    assert [line for line in script if lint in line]
    assert test in script
    assert f"```sh\n{test}\n```" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert all("\n" not in command for command in (lint, test))


@pytest.mark.slow
def test_lint_command_finds_something() -> None:
    program, *arguments = commands()[0].rpartition("&& ")[2].split()
    assert program == ".venv/bin/torchlint"
    done = torchlint(*arguments, cwd=ROOT)
    assert done.returncode == 1, done.stderr
    assert "missing-zero-grad" in done.stdout


@pytest.mark.slow
def test_other_commands_and_configuration(tmp_path: Path) -> None:
    """With the README's configuration, each line of its third block of commands runs."""
    readme = README.read_text("utf-8")
    configuration = re.search(r"^```toml\n(.*?)^```$", readme, re.M | re.S)
    assert configuration
    (tmp_path / "pyproject.toml").write_text(configuration[1], "utf-8")
    (tmp_path / "src").mkdir()
    (tmp_path / "train.py").write_text("loss.backward()\n", "utf-8")
    environment = {**os.environ, "PATH": os.pathsep.join([str(TORCHLINT.parent), os.environ["PATH"]])}
    for line in commands()[2].splitlines():
        done = subprocess.run(
            line, shell=True, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=60
        )
        assert (done.returncode, done.stderr.replace("Fixed no findings.\n", "")) == (0, ""), line


def test_all_formats_are_listed() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", README.read_text("utf-8").partition("### Output formats")[2], re.M)
    assert listed[: len(FORMATS)] == list(FORMATS)


@pytest.mark.slow
def test_torchlint_is_clean() -> None:
    done = torchlint("torchlint", "rules", "tests", cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_changelog() -> None:
    """Keep a Changelog: known headings, one line for each change."""
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
    assert lines[0] == "# Changelog"
    versions = [line for line in lines if line.startswith("## ")]
    assert versions
    assert all(re.fullmatch(r"## \[(Unreleased|\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d)\]?", line) for line in versions)
    for line in lines[lines.index(versions[0]) :]:
        change = line.startswith("- ") and line.endswith(".") and len(line) <= 120
        kind = line in {f"### {name}" for name in ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")}
        assert not line or change or kind or line in versions or line.startswith("["), line


if __name__ == "__main__":
    README.write_text(rendered(README.read_text("utf-8")), "utf-8")

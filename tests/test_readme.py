"""The README and the guides say what the program does: commands, outputs, tables and links are real.

`python tests/test_readme.py` writes the outputs anew.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from torchlint import addresses
from torchlint.engine import registry
from torchlint.engine.documentation import TOPICS, topic
from torchlint.outputs import FORMATS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TORCHLINT = Path(sys.executable).with_name("torchlint")
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
CONSOLE = re.compile(r"^```console\n\$ torchlint (.*)\n((?:.*\n)*?)```$", re.M)
EXAMPLE = re.compile(r"^```python\n# (\w+\.py)\n((?:.*\n)*?)```$", re.M)


def torchlint(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TORCHLINT, *arguments], cwd=cwd, capture_output=True, encoding="utf-8", timeout=600)


def rendered(text: str) -> str:
    """A document with the output of every `$ torchlint ...` as it is now; its examples are those of all documents."""
    with tempfile.TemporaryDirectory() as folder:
        for document in (README, *GUIDES):
            for name, code in EXAMPLE.findall(document.read_text("utf-8")):
                Path(folder, name).write_text(f"# {name}\n{code}", "utf-8")

        def console(match: re.Match[str]) -> str:
            done = torchlint(*match[1].split(), cwd=Path(folder))
            assert not done.stderr, done.stderr
            return f"```console\n$ torchlint {match[1]}\n{done.stdout}```"

        return CONSOLE.sub(console, text)


def guide(name: str) -> str:
    return (ROOT / "docs" / "guides" / f"{name}.md").read_text("utf-8")


def commands(text: str) -> list[str]:
    """The blocks of shell commands of a document."""
    return re.findall(r"^```sh\n(.*?)\n```$", text, re.M | re.S)


@pytest.mark.slow
def test_outputs_are_real() -> None:
    assert sum(len(CONSOLE.findall(path.read_text("utf-8"))) for path in GUIDES) >= 4
    for path in GUIDES:
        text = path.read_text("utf-8")
        assert not CONSOLE.search(text) or text == rendered(text), f"{path.name}: run `python tests/test_readme.py`"


def test_topics_are_those_of_the_rules() -> None:
    table = README.read_text("utf-8").partition("| Topic |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\w[^|]*) \|", table, re.M) == [
        title for title in TOPICS.values() if title != TOPICS["TL0"]
    ]
    own = [meta for meta in registry.metas() if registry.address(meta.name) == addresses.rule_page(meta.name)]
    assert {topic(meta) for meta in own} == set(TOPICS.values())


def test_links_of_the_readme_work_everywhere() -> None:
    """On the package index there is no folder that they could be relative to."""
    readme = README.read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)|(?:src|srcset)=\"([^\"]+)\"", readme)
    raw = f"{addresses.REPOSITORY.replace('https://github.com/', 'https://raw.githubusercontent.com/')}/main/"
    made = {"rules/", "changelog/", "contributing/"}
    for link in (first or second for first, second in links):
        assert link.startswith("https://"), link
        if link.startswith(f"{addresses.SITE}/"):
            page = link.removeprefix(f"{addresses.SITE}/")
            assert page in made or (ROOT / "docs" / f"{page.rstrip('/')}.md").is_file(), link
        for home in (raw, f"{addresses.REPOSITORY}/blob/main/"):
            assert not link.startswith(home) or (ROOT / link.removeprefix(home)).is_file(), link


def test_figures_are_those_of_the_guides() -> None:
    """Who finds how many bugs, and in what time."""
    rows = re.findall(r"^\| (\w.*?) \| (.*) \|$", README.read_text("utf-8").partition("## How it compares")[2], re.M)
    reported = (ROOT / "docs" / "reported.md").read_text("utf-8")
    total, torchlint, _, ruff, torchfix, ty = re.findall(r"\d+", reported.rstrip().splitlines()[-1])
    assert rows[0] == (
        f"bugs found, of [{total} from public bug reports]({addresses.SITE}/reported/)",
        f"{torchlint} (43 before tuning) | {ruff} | {torchfix} | {ty}",
    )
    first_runs = re.findall(r"^\| \d+ \w+ \d{4}[^|]*\| (\d+) of (\d+) \|", reported, re.M)
    found, of_all = (sum(map(int, column)) for column in zip(*first_runs, strict=True))
    assert f"torchlint has found {found} of {of_all}." in README.read_text("utf-8")
    speed = guide("speed")
    for label, figures in rows[1:3]:
        table = speed.partition("the 68 files")[2] if "68 files" in label else speed
        cpu = dict(re.findall(r"^\| (torchlint|ruff|TorchFix) \| ([\d.]+) \|", table, re.M)[::-1])
        assert [figure.strip() for figure in figures.split("|")][:2] == [cpu["torchlint"], cpu["ruff"]], label


def test_two_commands_are_the_ones_in_use() -> None:
    """Continuous integration reads both from the README."""
    lint, test = commands(README.read_text("utf-8"))
    assert all("\n" not in command for command in (lint, test))
    assert commands((ROOT / "CONTRIBUTING.md").read_text("utf-8"))[0] == test
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "README.md" in script and lint not in script and test not in script


@pytest.mark.slow
def test_lint_command_finds_something() -> None:
    program, *arguments = commands(README.read_text("utf-8"))[0].rpartition("&& ")[2].split()
    assert program == ".venv/bin/torchlint"
    done = torchlint(*arguments, cwd=ROOT)
    assert done.returncode == 1, done.stderr
    assert "missing-zero-grad" in done.stdout


def test_all_formats_are_listed() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \|", guide("ci").partition("## Output formats")[2], re.M)
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
    for path in GUIDES:
        path.write_text(rendered(path.read_text("utf-8")), "utf-8")

"""The shell commands that the README, CONTRIBUTING, the guides and the extension's page show: each runs here, or is in
`EXCEPTIONS` with its reason. Commands shown with their output run in tests/test_readme.py, which compares it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebooks import notebook
from tests.test_readme import CONSOLE, EXAMPLE, GUIDES, README, ROOT, guide
from tests.test_releasing import switched
from torchlint import addresses
from torchlint.cli import cli

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in (README, CONTRIBUTING, ROOT / "editors" / "vscode" / "README.md", *GUIDES)
}
PROGRAMS = set("cat code git mkdocs mypy npm pip pytest python python3 ruff torchlint".split())
SCRIPTS = {".ci/run"}
"""Commands of one word."""
EXCEPTIONS = {
    ".ci/run runs it in an empty environment": [
        "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/torchlint fixtures/missing_zero_grad/bad.py",
        "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/pytest",
    ],
    ".ci/run runs it": [".ci/run", 'pytest -m "not slow"', "pytest -m needs", "mypy --strict"],
    "needs the network": [
        "pip install torch==2.13.0",
        "pip install -e '.[docs]'",
        "pip install '.[test]'",
        'pip install "./torchlint[verify]"',
        "python tests/benchmarks/edits.py --write",
        "python tests/benchmarks/speed.py",
        "python tests/benchmarks/speed.py --only torchlint,ruff,parse,torchfix",
        "python tests/benchmarks/start.py --write",
        "python tests/benchmarks/compared.py --write",
        "python tests/golden/compare.py traces --against tests/golden/corpus.txt",
    ],
    "needs the repository or the package index to be public": [
        f"git clone {addresses.REPOSITORY}",
        "pip install ./torchlint",
        f"pip install git+{addresses.REPOSITORY}",
        f'pip install "torchlint[verify] @ git+{addresses.REPOSITORY}"',
        f'pip install "torchlint[lsp] @ git+{addresses.REPOSITORY}"',
        "pip install torchlint",
        'pip install "torchlint[lsp]"',
        'pip install "torchlint[verify]"',
    ],
    "needs Node.js and the network": [
        "npm ci",
        "npm test",
        "npm run package",
        "npm run package -- --target linux-x64",
        "python bundle.py",
        "python bundle.py win32-x64",
        "python icon.py",
    ],
    "needs Visual Studio Code": ["code --install-extension torchlint-0.2.0.vsix"],
    "needs a GPU": ["TORCHLINT_DEVICE=cuda pytest -rP tests/verify/test_programs.py"],
    "needs a Dask scheduler; tests/test_dask.py starts one": ["torchlint --executor dask://HOST:PORT"],
    "runs until it is stopped; tests/test_watching.py runs it": ["torchlint --watch ."],
    "runs until it is stopped; tests/test_site.py builds the site": ["mkdocs serve"],
    "measures for minutes": [
        "python tests/benchmarks/edits.py",
        "python tests/benchmarks/latency.py",
        "python tests/benchmarks/start.py",
        "python tests/benchmarks/verify_overhead.py",
    ],
    "takes minutes; tests/test_spellings.py runs fewer programs": ["python -m tests.spellings 10000"],
    "tests/test_changes.py runs it": ["python tests/probe_changes.py"],
    "tests/test_pictures.py makes the same pictures": ["python docs/site/pictures.py --verify"],
    "without the option a test compares what it writes": [
        "pytest tests/test_fixtures.py --bless",
        "pytest tests/test_golden.py --bless",
    ],
}
PLACEHOLDERS = {
    "PATH/TO/YOUR/CODE": ".",
    "FOLDER": "fixtures/missing_zero_grad",
    "FILE": "train.py",
    "PATH": "train.py",
    "RULE": "missing-zero-grad",
    "name_of_the_rule": "unsafe_load",
    "name-of-the-rule": "unsafe-load",
}
TRAINING = """\
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
total = 0
for step in range(5):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
    total += loss
"""
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.M | re.S)
_INLINE = re.compile(r"`([^`]+)`")
_RUNS = re.compile(r" -- (?:(?:python|pytest|torchrun)\b|\S+\.ipynb)")


def is_command(code: str) -> bool:
    """Whether code in a text is a command, and not just the name of a program."""
    words = [word for word in code.split() if not re.match(r"[A-Z_]+=", word)]
    return code in SCRIPTS or (len(words) > 1 and words[0] in PROGRAMS)


def without_comment(line: str) -> str:
    return re.sub(r"\s+# .*", "", line.strip())


def in_block(language: str, code: str) -> list[str]:
    """The commands of a block of code."""
    lines = code.splitlines()
    if language == "sh":
        return [without_comment(line) for line in lines]
    if language == "console":
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    if language == "yaml":
        steps = (re.sub(r"^ *- (run: )?", "", line) for line in lines)
        return [step for step in steps if is_command(step)]
    return []


def shown(page: str) -> Iterator[tuple[str, ...]]:
    """The commands of a page: those of a block together, those in the text and in comments one by one."""
    text = []
    for block in _BLOCK.finditer(page):
        if lines := in_block(block[2], block[3]):
            yield tuple(lines)
        text += re.findall(r" # .*", block[3]) if block[2] == "sh" else []
    for code in _INLINE.findall("\n".join([_BLOCK.sub("", page), *text])):
        if is_command(command := " ".join(code.split())):
            yield (command,)


EXCUSED = {command for commands in EXCEPTIONS.values() for command in commands}
COMPARED = {f"torchlint {arguments}" for page in PAGES.values() for arguments, _ in CONSOLE.findall(page)}
SHOWN = {
    group: name
    for name, page in reversed(PAGES.items())
    for is_released in (True, False)
    for group in shown(switched(page, is_released))
}
"""Commands that stand together, before or after the first release, and the first page that shows them."""


def cases() -> Iterator[object]:
    """Commands that run, with those of the same block, which may need what the ones before them wrote."""
    in_blocks = {line for group in SHOWN if len(group) > 1 for line in group}
    for group, name in SHOWN.items():
        if len(group) == 1 and group[0] in in_blocks:
            continue
        if lines := tuple(line for line in group if line not in EXCUSED | COMPARED):
            marks = [pytest.mark.needs("torch")] if any(map(_RUNS.search, lines)) else []
            yield pytest.param(name, lines, marks=marks, id=f"{name}: {lines[0]}")


def test_exceptions_are_shown() -> None:
    everything = {line for group in SHOWN for line in group}
    assert everything >= EXCUSED, f"no page shows {sorted(EXCUSED - everything)}"
    assert len(EXCUSED) == sum(map(len, EXCEPTIONS.values()))


def test_commands_are_recognized() -> None:
    page = "Run `FOO=bar pytest\n  -x`, not `pytest`.\n\n```sh\npip install x  # or `git status -s`\n```\n"
    assert list(shown(page)) == [("pip install x",), ("FOO=bar pytest -x",), ("git status -s",)]
    assert list(shown("```yaml\n  - uses: a@b\n  - run: pip install x\n  - torchlint .\n```\n")) == [
        ("pip install x", "torchlint .")
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with all that the commands of the guides name, and the configuration that the guide shows."""
    configuration = re.search(r"^```toml\n(.*?)^```$", guide("configuration"), re.M | re.S)
    assert configuration
    files = {name: code for page in PAGES.values() for name, code in EXAMPLE.findall(page)}
    files |= {"train.py": TRAINING, "src/train.py": TRAINING, "ci.toml": "preview = true\n"}
    files |= {"explore.ipynb": notebook(TRAINING), "notebooks/explore.ipynb": notebook(TRAINING)}
    files |= {"tests/test_training.py": "import runpy\n\n\ndef test_training():\n    runpy.run_path('train.py')\n"}
    for name, text in {**files, "pyproject.toml": configuration[1]}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    commit(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this repository, for commands that write in it."""
    folder = tmp_path_factory.mktemp("repository")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, encoding="utf-8")
    for name in filter(None, tracked.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["checkout", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "All"]):
        subprocess.run([*git, *arguments], cwd=folder, check=True)


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as in a terminal whose user says yes to all questions."""
    import pty

    for placeholder, meant in PLACEHOLDERS.items():
        line = re.sub(rf"\b{re.escape(placeholder)}\b", meant, line)
    if (words := line.split())[0] == "torchlint" and len(words) == 2 and words[1] in cli.commands:
        line = f"{line} --help"  # the text names the command
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    ours, theirs = pty.openpty()
    os.write(ours, b"y\ny\n")
    try:
        return subprocess.run(
            line,
            shell=True,
            cwd=folder,
            env=environment,
            stdin=theirs,
            capture_output=True,
            encoding="utf-8",
            timeout=600,
        )
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "lines"), [*cases()])
def test_commands_run(page: str, lines: tuple[str, ...], request: pytest.FixtureRequest) -> None:
    """Without an error; torchlint may find something."""
    is_about_torchlint = page == "CONTRIBUTING.md" and not lines[0].startswith("torchlint ")
    folder = request.getfixturevalue("repository" if is_about_torchlint else "project")
    for line in lines:
        done = run(line, folder)
        accepted = (0, 1) if re.search(r"\btorchlint\b", line) else (0,)
        assert done.returncode in accepted, f"{line}\n{done.stdout}{done.stderr}"
        assert not re.search(r"^error:", done.stderr, re.M), f"{line}\n{done.stderr}"
    if is_about_torchlint:
        changed = subprocess.run(["git", "diff", "--stat"], cwd=folder, capture_output=True, encoding="utf-8")
        assert not changed.stdout

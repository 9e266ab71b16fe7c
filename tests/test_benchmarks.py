"""The parts of `tests/benchmarks/speed.py`, on a tree of three files and without the network."""

from __future__ import annotations

import ast
import asyncio
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks import corpus, costs, edits, linters, speed, start, training
from tests.benchmarks.costs import Command, Cost
from torchlint import SourceFile, lint, select

FILES = {
    "train.py": "import torch\n\noptimizer = torch.optim.SGD(p)\nloss.backward()\noptimizer.step()\n",
    "sub/cache.py": "import torch\nfor x in data:\n    torch.cuda.empty_cache(model(x))\n",
    "other.py": "print(1)\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, code in FILES.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, "utf-8")
    return tmp_path / "tree"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def cells(markdown: str) -> Iterator[list[str]]:
    """The rows of tables, heads included, rules left out."""
    for line in markdown.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield line.strip("| ").split(" | ")


@pytest.mark.slow
def test_a_run_is_measured(tree: Path, work: Path) -> None:
    """With real processes: costs are positive, and the rules' table counts files and lines."""
    sections = speed.Benchmark(tree, "tree", work, work, frozenset({"torchlint", "parse", "rules"}), 1).sections()
    assert list(sections) == ["tree", "rules"]
    head, *rows = cells(sections["tree"])
    assert head[0] == "3 files, 9 lines"
    assert {row[0] for row in rows} >= {speed.TORCHLINT, speed.PARSE, speed.LINT}
    assert all(float(figure.replace(",", "")) > 0 for row in rows for figure in row[1:])
    counted = {row[0]: row[1:] for row in cells(sections["rules"])}
    assert counted["empty-cache-in-loop"] == ["1", "3", "1", "3"]
    assert counted["missing-zero-grad"] == ["1", "5", "0", "0"]
    assert counted["any of them"][:2] == ["2", "8"]


@pytest.mark.slow
@pytest.mark.parametrize("has_cache", [True, False])
def test_every_part_has_its_table(tree: Path, work: Path, monkeypatch: pytest.MonkeyPatch, has_cache: bool) -> None:
    """Nothing is run: what a command line is made of, and where its costs go."""
    triage = linters.Triage(("one", "two"), 3, 9, ((tree / "train.py", 5, ("one", "two")),))
    monkeypatch.setattr(linters, "triage", lambda files, work: triage)
    monkeypatch.setattr(linters, "has_cache", lambda: has_cache)
    monkeypatch.setattr(linters, "torchfix", lambda tree, *_: Command(["torchfix", tree], work))
    monkeypatch.setattr(linters, "ruff", lambda tree, work: Command(["ruff", tree], work))
    monkeypatch.setattr(linters, "ty", lambda tree, work: Command(["ty", tree], work))
    monkeypatch.setattr(costs, "run", lambda command: Cost(1.0, 2.0, 3e6, 0.5))
    sections = speed.Benchmark(tree, "tree", work, work, lines=(100, 1000)).sections()
    assert list(sections) == ["tree", "subset", "files", "lines", "rules"]
    rows = [row[0] for row in cells(sections["tree"])]
    assert rows[1:] == [speed.TORCHLINT, *[speed.WARM] * has_cache, speed.RUFF, speed.TY, speed.PARSE, speed.LINT]
    assert [speed.TORCHFIX, "1.00", "2.00", "3", "1.00", "1.00"] in list(cells(sections["subset"]))
    assert [row[0] for row in cells(sections["files"])] == ["torchlint", "1 files", "10 files"]
    longer = [row for row in cells(sections["lines"]) if row[0].endswith(" lines")]
    assert [row[1:] for row in longer] == [["0.50", "0.50", "1.00", "3", "3"]] * 2


def test_without_the_others(tree: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No ruff and no ty, no network to have TorchFix from: what is missing is said, the rest is measured."""

    def no_pip(*arguments: str | Path, python: str | Path = "") -> None:
        raise corpus.Unavailable("no network")

    said: list[str] = []
    monkeypatch.setattr(linters, "pip", no_pip)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(linters, "_program", lambda name: None)
    monkeypatch.setattr(linters, "triage", lambda files, work: linters.Triage((), 3, 9, ()))
    monkeypatch.setattr(linters, "has_cache", lambda: False)
    monkeypatch.setattr(costs, "run", lambda command: Cost(1.0, 1.0, 1e6))
    parts = frozenset({"torchlint", "ruff", "ty", "torchfix"})
    sections = speed.Benchmark(tree, "tree", work, work / "cache", parts, 1, say=said.append).sections()
    assert list(sections) == ["tree"]
    assert [text for text in said if "ruff is left out" in text]
    assert [text for text in said if "ty is left out" in text]
    assert [text for text in said if "TorchFix is left out" in text and "no network" in text]


@pytest.mark.slow
def test_costs() -> None:
    here = Path.cwd()
    with pytest.raises(costs.Failed, match=r"exit code 7.*\n.*why"):
        costs.run(Command([sys.executable, "-c", "import sys; print('why', file=sys.stderr); sys.exit(7)"], here))
    printed = Command([sys.executable, "-c", "print(0.25)"], here, prints_cost=True)
    said: list[str] = []
    measured = costs.side_by_side({"a": printed, "b": printed}, 2, said.append)
    assert measured["a"].work == 0.25
    assert measured["a"].peak > 1e6
    assert [text.split(": ")[1] for text in said] == ["a", "b", "a", "b"], "in turn"
    assert costs.median([Cost(1, 9, 2), Cost(3, 1, 1), Cost(2, 5, 3)]) == Cost(2, 5, 2)
    assert [costs.seconds(value) for value in (0.1234, 12.34, 123.4)] == ["0.12", "12.3", "123"]
    assert [costs.ratio(3, other) for other in (2, 1000, 0)] == ["1.50", "0.003", costs.MISSING]


def test_wheels_are_unpacked_once(tmp_path: Path) -> None:
    wheel = tmp_path / "wheels" / "some_package-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some_package/code.py", "x = 1\n")
        archive.writestr("some_package/data.bin", "x")
    unpacked = corpus.fetched(tmp_path, ["some-package==1.0"])
    assert corpus.python_files(unpacked) == [unpacked / "some-package-1.0" / "some_package" / "code.py"]
    assert not list(unpacked.rglob("data.bin"))
    wheel.unlink()
    assert corpus.fetched(tmp_path, ["some-package==1.0"]) == unpacked


def test_parts_of_a_tree(tree: Path, tmp_path: Path) -> None:
    files = corpus.python_files(tree)
    assert corpus.training(files) == [tree / "train.py"]
    copy = corpus.copied(files, tree, tmp_path / "copy")
    assert {path.relative_to(copy).as_posix() for path in corpus.python_files(copy)} == set(FILES)
    assert len(corpus.sample([tree] * 21)) == 3


@pytest.mark.parametrize("lines", [500, 2000])
def test_long_files(lines: int) -> None:
    """They are Python, about as long as they should be, and define no name twice."""
    text = corpus.long_file(lines)
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert abs(text.count("\n") - lines) < 250
    assert len(names) == len(set(names)) > 10
    assert re.search(r"\.backward\(\)", text)


def test_one_file_is_clean_and_the_other_is_not(tmp_path: Path) -> None:
    made = start.commands(tmp_path, ["torchlint"])
    paths = [command.line[-1] for command in made.values()]
    assert paths == [start.CLICK, "0.py", "0.py", "1.py", "1.py", "2.py", "2.py"], "without a cache, and with one"
    found = [len(lint(SourceFile.read(tmp_path / f"{number}.py"), select())) for number in range(3)]
    assert found[:2] == [0, 0] < found[2:]


def test_tables_are_written_between_the_markers(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- speed -->\nold\n<!-- /speed -->\nb\n", "utf-8")
    costs.write(readme, "speed", "new\\1\n")
    assert readme.read_text("utf-8") == "a\n<!-- speed -->\nnew\\1\n<!-- /speed -->\nb\n"
    readme.write_text("a\n", "utf-8")
    with pytest.raises(SystemExit, match="needs one"):
        costs.write(readme, "speed", "new\n")


@pytest.mark.parametrize("part", ["speed", "edits", "start"])
def test_the_guide_has_a_place_for_each_table(part: str) -> None:
    page = costs.PAGE.read_text("utf-8")
    assert page.count(f"<!-- {part} -->\n") == page.count(f"<!-- /{part} -->\n") == 1


@pytest.mark.slow
def test_an_edit_is_measured() -> None:
    """In a server of its own; the file has a finding, whose fix is asked for."""
    cost = asyncio.run(edits.measured("untitled:train.py", training.file(100) + training.BUG, 2))
    assert len(cost.edits) == len(cost.fixes) == 2
    assert min(*cost.edits, *cost.fixes, cost.parser) > 0


def test_the_edit_stands_in_a_function() -> None:
    place = edits.middle("a = 1\ndef f():\n    x = 1\n    y = 2\n    z = (\n        3)\n")
    assert (place.line, place.character) == (3, 9)


def test_parts_are_chosen_by_name() -> None:
    assert speed.parsed(["--only", "torchlint,ruff"]).only == ("torchlint", "ruff")
    with pytest.raises(SystemExit):
        speed.parsed(["--only", "torchlit"])

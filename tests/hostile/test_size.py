"""Input that is absurdly long, deep or repetitive takes time in proportion to its size, or is refused."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import pytest
from click.testing import Result

from torchlint import Rule, Selection, SourceFile, lint
from torchlint.files.line_diff import opcodes
from torchlint.finding import Finding, Position, Related, Severity, Span
from torchlint.outputs import Style, render
from torchlint.results import LintedFile, Outcome

Torchlint = Callable[..., Result]


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """CPU time; an attack takes minutes."""
    started = time.process_time()
    yield
    assert time.process_time() - started < seconds


def test_a_pattern_of_many_stars_in_an_ignore_file(checkout: Path, torchlint: Torchlint) -> None:
    (checkout / ("a" * 200 + ".py")).write_text("bad()\n")
    (checkout / ".gitignore").write_text("*a" * 40 + "b\n")
    with at_most(5):
        assert torchlint("--statistics").stdout.startswith("     2  XX001")


def test_a_pattern_of_many_stars_in_the_configuration(checkout: Path, torchlint: Torchlint) -> None:
    (checkout / ("a" * 200 + ".py")).write_text("bad()\n")
    pattern = "*a" * 40 + "b"
    (checkout / "torchlint.toml").write_text(f"exclude = ['{pattern}']\n[per-file-ignores]\n'{pattern}' = ['XX001']\n")
    with at_most(5):
        assert torchlint("--statistics").stdout.startswith("     2  XX001")


@pytest.mark.slow
def test_many_patterns(checkout: Path, torchlint: Torchlint) -> None:
    (checkout / ".gitignore").write_text("".join(f"[a-k]*x{number}*?[!b]\n" for number in range(20_000)))
    with at_most(3):
        assert torchlint("--statistics").stdout.startswith("     1  XX001")


def test_many_excludes(checkout: Path, torchlint: Torchlint) -> None:
    (checkout / "torchlint.toml").write_text("exclude = [" + "'x', " * 60_000 + "]")
    with at_most(3):
        assert torchlint("--statistics").stdout.startswith("     1  XX001")


def test_many_selectors(checkout: Path, torchlint: Torchlint) -> None:
    names = "".join(f"'{number}' = ['XX001']\n" for number in range(5_000))
    (checkout / "torchlint.toml").write_text("select = [" + "'XX001', " * 5_000 + f"]\n[per-file-ignores]\n{names}")
    with at_most(3):
        assert torchlint("--statistics").stdout.startswith("     1  XX001")


@pytest.mark.parametrize("form", ["{} = 1", "[{}]", "[[{}]]", "x = [{{{} = 1}}]", '{}."a"=1'])
def test_a_key_of_many_parts(checkout: Path, torchlint: Torchlint, form: str) -> None:
    (checkout / "pyproject.toml").write_text(f"[tool.torchlint]\n{form.format('.'.join('a' * 20_000))}\n")
    with at_most(5):
        result = torchlint()
    assert result.exit_code == 2
    assert "pyproject.toml:2: a key has more than 100 parts" in result.stderr


def test_a_number_of_many_digits(checkout: Path, torchlint: Torchlint) -> None:
    (checkout / "torchlint.toml").write_text(f"preview = {'9' * 5_000}")
    result = torchlint()
    assert result.exit_code == 2 and "torchlint.toml:1: " in result.stderr


@pytest.mark.parametrize("encoding", ["punycode", "PunyCode", "idna"])
def test_an_encoding_that_takes_the_square(checkout: Path, torchlint: Torchlint, encoding: str) -> None:
    text = f"# coding: {encoding}\n{'ab' * 100_000}-{'9a' * 100_000}\n"
    (checkout / "bad.py").write_text(text)
    with at_most(3):
        assert f"encoding {encoding} is for the names of domains" in torchlint().stdout


@pytest.mark.parametrize("text", ['{"cells": [], "nbformat": %s}', '{"cells": [{"cell_type": "code", "x": %s}]}'])
def test_a_notebook_with_a_number_of_many_digits(checkout: Path, torchlint: Torchlint, text: str) -> None:
    (checkout / "a.ipynb").write_text(text % ("9" * 5_000))
    result = torchlint("--output-format", "concise")
    assert "a.ipynb:1:1: TL002 unreadable-file: is not a notebook" in result.stdout and "bad.py:1:1" in result.stdout


@pytest.mark.parametrize("text", ['{"version": %s}', '{"version": 1, "findings": [%s]}', '{\n"version": 1,\n%s}'])
def test_a_baseline_with_a_number_of_many_digits(checkout: Path, torchlint: Torchlint, text: str) -> None:
    (checkout / "known.json").write_text(text % ("9" * 5_000))
    result = torchlint("--baseline", "known.json")
    assert result.exit_code == 2 and "known.json:" in result.stderr and "is not a baseline" in result.stderr


def test_a_notebook_of_many_cells(bad_call: type[Rule]) -> None:
    cells = [{"cell_type": "code", "source": "bad()"}] * 3_000
    source = SourceFile("a.ipynb", json.dumps({"cells": cells, "nbformat": 4}).encode())
    with at_most(5):
        findings = lint(source, Selection((bad_call,)))
        text = render("concise", Outcome((LintedFile(source, tuple(findings)),), 1), Style())
    assert text.count("\n") == 3_000


@pytest.mark.parametrize("lines", [["x"], [f"x{number}" for number in range(100)], ["x", *map(str, range(5_000))]])
def test_a_diff_of_texts_that_repeat_themselves(lines: list[str]) -> None:
    old = list(islice(cycle(lines), 30_000))
    new = [*old[:10], "y", *old[11:-10], "z", *old[-9:]]
    with at_most(3):
        for other in (new, old[::-1], ["z", *old, "z"], [f"{line} " for line in old]):
            codes = opcodes(old, other)
            assert [line for _, _, _, start, end in codes for line in other[start:end]] == other


def test_a_notebook_that_unfolds_in_memory(checkout: Path, torchlint: Torchlint) -> None:
    (checkout / "a.ipynb").write_text('{"cells": [' + "[]," * 5_000_001 + "]}")
    with at_most(5):
        result = torchlint("--output-format", "concise")
    assert "a.ipynb:1:1: TL002 unreadable-file: is not a notebook: JSON of more than 5,000,000 lists" in result.stdout


@pytest.mark.parametrize("form", ["text", "html"])
def test_findings_on_a_line_without_end(bad_call: type[Rule], form: str) -> None:
    source = SourceFile("a.py", b"bad();" * 300 + b"# " + b"x" * 5_000_000)
    place = Span(Position(1, 6), Position(1, 11))
    finding = Finding("a.py", "bad-call", "XX001", "m", place, Severity.ERROR, related=(Related(place, "here"),))
    with at_most(5):
        text = render(form, Outcome((LintedFile(source, (finding,) * 300),), 1), Style())
    assert len(text) < 3_000_000 and text.count("here<" if form == "html" else "here") == 300


@pytest.mark.parametrize("column", [0, 6, 2_000, 4_000])
def test_the_place_on_a_long_line_is_underlined(column: int) -> None:
    text = f"{'x' * column}bad(){'y' * 4_000}"
    finding = Finding("a.py", "n", "XX001", "m", Span(Position(1, column), Position(1, column + 5)), Severity.ERROR)
    shown = render("text", Outcome((LintedFile(SourceFile("a.py", text.encode()), (finding,)),), 1), Style())
    line, marks = shown.splitlines()[2:4]
    assert len(line) < 130 and line[marks.index("^") : marks.rindex("^") + 1] == "bad()"
    page = render("html", Outcome((LintedFile(SourceFile("a.py", text.encode()), (finding,)),), 1), Style())
    assert "<mark>bad()</mark>" in page and len(page) < 20_000


@pytest.fixture
def deep(checkout: Path) -> Iterator[Path]:
    """A file in more folders than Python may call functions, from the working folder; taken down one by one."""
    if os.name == "nt":
        pytest.skip("paths are shorter there")
    place = os.open(".", os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(os.open("bad.py", os.O_CREAT, dir_fd=place))
    os.close(place)
    yield Path(*["d"] * 1_100, "bad.py")
    while Path("d", "d").exists():
        os.rename(Path("d", "d"), "inner")
        os.rmdir("d")
        os.rename("inner", "d")


@pytest.mark.slow
def test_folders_in_folders(checkout: Path, torchlint: Torchlint, deep: Path) -> None:
    with at_most(10):
        assert torchlint(str(deep), "--no-cache").exit_code == 0
        assert torchlint(".", "--no-cache", "--statistics").stdout.startswith("     1  XX001")

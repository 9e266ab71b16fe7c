"""Patterns match what Git says they match, in time that no pattern can blow up."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from torchlint.project.globs import Glob
from torchlint.project.patterns import Patterns

PATTERNS = (
    *("a", "*", "*.py", "a*", "*a*b*", "?", "a?", "[ab]", "[!a]b", "[^a]b", "[a-c]x", "[c-a]", "[a-]", "[]a]", "[a"),
    *("[[:alpha:]]", "[[:digit:]-b]", "[[:nonsense:]]", r"\a", r"\*", r"[\]a]", "a\\", "]", "[a-b-c]", "a/b", "/a"),
    *(
        "a/*",
        "a/**",
        "**/a",
        "a/**/b",
        "**",
        "/**",
        "**/*",
        "a**",
        "a/**b",
        "***/a",
        "a/**/**/b",
        "*/a",
        "a/*/b",
        "[/]",
    ),
)
LETTERS = "abcx1-*]."


def spoken_of(pattern: str, path: str) -> bool:
    return Patterns(Path(), [pattern]).cover(path)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_agrees(tmp_path: Path) -> None:
    """One folder for each pattern, so that Git need be asked only once."""
    chance = random.Random(7)
    names = ["".join(chance.choices(LETTERS, k=chance.randint(1, 3))) for _ in range(40)]
    names = [name for name in names if name.strip(".")] + ["a", "b", "ab", "cx", "a.py", "*", "]"]
    paths = ["/".join(chance.choices(names, k=chance.randint(1, 4))) for _ in range(60)] + names
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for number, pattern in enumerate(PATTERNS):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / ".gitignore").write_text(f"{pattern}\n")
    asked = "\0".join(f"{number}/{path}" for number in range(len(PATTERNS)) for path in paths)
    command = ["git", "-C", str(tmp_path), "-c", "core.excludesFile=", "check-ignore", "--no-index", "-z", "--stdin"]
    said = subprocess.run(command, input=asked, capture_output=True, encoding="utf-8")
    expected = {*said.stdout.split("\0")} - {""}
    ours = {f"{number}/{path}" for number, pattern in enumerate(PATTERNS) for path in paths if spoken_of(pattern, path)}
    assert len(expected) > 500
    assert ours == expected


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 40 + "b", "a" * 250),
        ("*a" * 40 + "b", "a" * 250 + "b"),
        ("*?" * 100 + "b", "a" * 250),
        ("*[a-b]a" * 40 + "c", "a" * 250),
        ("**/" * 60 + "x", "/".join("d" * 100)),
        ("**/*a*a*a" * 20 + "/x", "/".join(["a" * 50] * 50)),
        ("*" * 100_000 + "x", "a" * 250),
        ("[[:" * 20_000, "a"),
        ("[" + "a-" * 20_000, "a"),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    started = time.process_time()
    Glob(pattern).matches(path)
    assert time.process_time() - started < 1


def test_many_patterns() -> None:
    """Patterns without wildcards cost nothing to match; the others cost little to parse."""
    started = time.process_time()
    names = Patterns(Path(), ["x"] * 30_000 + [f"name{number}" for number in range(30_000)])
    wild = Patterns(Path(), [f"[a-k]*x{number}*?[!b]" for number in range(5_000)])
    for number in range(500):
        assert names.verdict(f"some/where/{number}.py", False) is None
    assert names.verdict("x", True) and names.verdict("some/name7", False)
    assert wild.verdict("ax7cc", False) and not wild.verdict("a.py", False)
    assert time.process_time() - started < 5


def test_spaces_at_the_end_of_a_line() -> None:
    for line, name, expected in [
        ("a  ", "a", True),
        (r"a\ ", "a ", True),
        (r"a\  ", "a ", True),
        (r"a\\ ", "a\\", True),
    ]:
        assert spoken_of(line, name) is expected

"""Input that is absurdly long, deep or repetitive takes time in proportion to its size, or is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result

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

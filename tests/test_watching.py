"""`--watch`: what is changed is linted again, whatever it is that has changed; waiting shows that time passes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from torchlint import Rule
from torchlint.cli import cli
from torchlint.run import scheduler
from torchlint.run.scheduler import Crew, dispatched

Step = Callable[[], object]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("bad()\n")
    return tmp_path


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs `--watch`, does one step each time that it waits, and then presses Ctrl-C."""

    def run(*steps: Step, arguments: tuple[str, ...] = ()) -> Result:
        left: Iterator[Step] = iter(steps)

        def sleep(seconds: float) -> None:
            assert seconds >= 0.5
            step = next(left, None)
            if step is None:
                raise KeyboardInterrupt
            step()

        monkeypatch.setattr(time, "sleep", sleep)
        return CliRunner().invoke(cli, ["--watch", "--output-format", "concise", *arguments])

    return run


def test_a_changed_file_is_linted_again(folder: Path, watched: Callable[..., Result]) -> None:
    result = watched(
        lambda: None,
        lambda: (folder / "a.py").write_text("\n\nbad()\n"),
        lambda: (folder / "new.py").write_text("bad()\n"),
        lambda: (folder / "a.py").unlink(),
    )
    assert [line.split(": ")[0] for line in result.stdout.splitlines()] == [
        *("a.py:1:1", "a.py:3:1"),
        *("a.py:3:1", "new.py:1:1"),
        "new.py:1:1",
    ]
    assert result.stderr.splitlines()[0] == "watching 1 file; Ctrl-C ends" and result.exit_code == 1


def test_a_changed_configuration_is_read_again(folder: Path, watched: Callable[..., Result]) -> None:
    path = folder / "torchlint.toml"
    result = watched(
        lambda: path.write_text("ignore = ['XX001']\n"),
        lambda: path.write_text("selct = 1\n"),
        lambda: path.write_text("extend = 'base.toml'\n"),
        lambda: (folder / "base.toml").write_text("exclude = ['b.py']\n"),
        lambda: (folder / "base.toml").write_text("ignore = ['XX']\n"),
    )
    assert result.stdout.count("a.py:1:1") == 2
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 2 and "selct: unknown key" in errors[0] and "there is no file base.toml" in errors[1]
    assert result.exit_code == 0


def test_what_a_file_imports_and_the_baseline_count(folder: Path, watched: Callable[..., Result]) -> None:
    (folder / "known.json").write_text('{"version": 1, "findings": []}')
    result = watched(
        lambda: (folder / "other.py").write_text("x = 1\n"),
        lambda: (folder / "known.json").write_text('{"version": 1, "findings": []}\n'),
        arguments=("a.py", "--baseline", "known.json"),
    )
    assert result.stdout.count("a.py:1:1") == 3


@pytest.mark.parametrize("option", ["-", "--fix", "--diff", "--add-ignores", "--update-baseline", "--show-files"])
def test_what_is_done_once_only(folder: Path, option: str) -> None:
    result = CliRunner().invoke(cli, ["--watch", option])
    assert result.exit_code == 2 and "--watch cannot be used with" in result.stderr


def test_who_waits_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the work is done, which it is as soon as that was said."""
    monkeypatch.setattr(scheduler, "_INTERVAL", 0.001)
    said = threading.Event()

    def work(chunk: list[int]) -> list[int]:
        assert said.wait(30)
        return chunk

    def refused(chunk: object) -> list[int]:
        raise AssertionError

    with ThreadPoolExecutor(1) as executor:
        crew: Crew[int, int] = Crew(
            lambda: nullcontext(executor), lambda pool, chunk: pool.submit(work, list(chunk)), refused, refused, 1
        )
        assert list(dispatched([[1], [2]], crew, said.set)) == [([1], [1]), ([2], [2])]
    assert said.is_set()

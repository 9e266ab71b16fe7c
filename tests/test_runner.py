"""Many processes find what one finds, in the same order, and end when they should."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from torchlint import Rule, Selection, SourceFile
from torchlint.engine import examination
from torchlint.outputs import Style, render
from torchlint.project.config import Configurations
from torchlint.project.discovery import Discovery
from torchlint.results import Outcome
from torchlint.run.cache.environment import environment
from torchlint.run.process_pool import processes_that_pay, usable_cpus
from torchlint.run.runner import Means, lint_shipped, run
from torchlint.run.scheduler import Refused, chunks

Driver = Callable[..., subprocess.Popen[str]]

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

DRIVER = """\
import multiprocessing, os, signal, sys, time

def examine(source, selection):
    with open(f"pid-{os.getpid()}", "w"):
        pass
    time.sleep(60)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background
    start_method, *sys.argv[1:] = sys.argv[1:]
    if start_method != "usual":
        multiprocessing.set_start_method(start_method)
    if "slow.py" in os.listdir():
        from torchlint.engine import examination
        examination.examine = examine
    from torchlint.cli import main
    main()
"""
"""torchlint with another way to start processes; beside a file slow.py linting takes for ever."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "driver.txt").write_text(DRIVER)
    return tmp_path


def write(folder: Path, count: int, text: str = "bad()\n") -> None:
    for number in range(count):
        file = folder / f"{number % 7}" / f"m{number}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text * (number % 3) + "x = 1\n" * (number * 37 % 101))


ALONE = Means()


def outcome(means: Means = ALONE) -> Outcome:
    return run(Discovery(Configurations()).files([Path(".")]), means=means)


def text(means: Means = ALONE) -> str:
    return render("text", outcome(means), Style())


@pytest.fixture
def driver(folder: Path) -> Iterator[Driver]:
    """Starts the driver; whatever the test does, no process of it is left."""
    with ExitStack() as stack:

        def driver(*arguments: str) -> subprocess.Popen[str]:
            command, pipe = (sys.executable, "driver.txt", *arguments), subprocess.PIPE
            process = subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
            stack.callback(end, process)
            return process

        yield driver


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process and all that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
    process.communicate(timeout=20)


def pids(folder: Path, count: int) -> list[int]:
    """The processes that lint, when there are so many."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if len(found := [int(path.name[4:]) for path in folder.glob("pid-*")]) >= count:
            return found
        time.sleep(0.02)
    raise AssertionError("no process has started to lint")


def is_gone(pid: int) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat")
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
                return True  # nobody is there to bury it
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.slow
def test_any_number_of_processes_finds_the_same(folder: Path, bad_call: type[Rule]) -> None:
    write(folder, 100)
    expected = text()
    assert expected.count("bad-call") == 99
    for jobs in (2, 4):
        assert text(Means(jobs)) == expected
    counts: list[tuple[int, int, float]] = []
    run(Discovery(Configurations()).files([Path(".")]), lambda *count: counts.append(count), means=Means(3))
    steps = dict.fromkeys(count[:2] for count in counts if count[0])  # said again while nothing ends
    assert list(steps) == [(number, 100) for number in range(1, 101)]
    shares = [share for *_, share in counts]
    assert shares == sorted(shares) and shares[-1] == 1


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["spawn", "forkserver", "fork"])
def test_any_way_to_start_processes_finds_the_same(folder: Path, driver: Driver, start_method: str) -> None:
    if sys.platform == "win32" and start_method != "spawn":
        pytest.skip("Windows can only spawn")
    loop = "import torch\nfor x in y:\n    x.backward()\n    torch.cuda.empty_cache()\n"
    write(folder, 6, loop)
    found = []
    for jobs in ("1", "2"):
        process = driver(start_method, "--no-cache", "--jobs", jobs)
        found.append((*process.communicate(timeout=60), process.returncode))
    assert found[0] == found[1]
    assert "empty-cache-in-loop" in found[0][0]
    assert found[0][1:] == ("", 1)


@pytest.mark.slow
@posix
def test_an_interrupt_ends_all_processes_without_a_word(folder: Path, driver: Driver) -> None:
    for name in ("slow.py", "a.py"):
        (folder / name).write_text("x = 1\n")
    process = driver("usual", "--jobs", "2")
    workers = pids(folder, 2)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=20)
    assert (output, errors.strip()) == ("", "error: interrupted")
    assert process.returncode == 130
    assert all(is_gone(pid) for pid in workers)


@pytest.mark.slow
@posix
def test_processes_do_not_outlive_one_that_is_killed(folder: Path, driver: Driver) -> None:
    for name in ("slow.py", "a.py"):
        (folder / name).write_text("x = 1\n")
    process = driver("usual", "--jobs", "2")
    workers = pids(folder, 2)
    process.kill()
    process.communicate(timeout=20)
    assert all(is_gone(pid) for pid in workers)


@pytest.fixture
def deadly(folder: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Iterator[Path]:
    """Whoever lints a file that says `die` is killed, unless it is this process; only once if the file is there."""
    if sys.platform != "linux":
        pytest.skip("the rules of a test reach copies of its process only")
    parent, examine = os.getpid(), examination.examine
    once = folder / "once"

    def dying(source: SourceFile, selection: Selection) -> examination.Examination:
        if b"die" in source.data and os.getpid() != parent and not (once.exists() and once.read_text()):
            if once.exists():
                once.write_text("done")
            os.kill(os.getpid(), signal.SIGKILL)
        return examine(source, selection)

    monkeypatch.setattr(examination, "examine", dying)
    yield once


@pytest.mark.slow
def test_what_a_dead_process_had_is_linted_again(deadly: Path, folder: Path) -> None:
    write(folder, 200)
    (folder / "3" / "m3.py").write_text("bad()  # die\n")
    expected = text()
    deadly.touch()
    assert text(Means(2)) == expected
    assert deadly.read_text() == "done"


@pytest.mark.slow
def test_a_file_that_kills_whoever_lints_it_is_named(deadly: Path, folder: Path) -> None:
    write(folder, 30)
    (folder / "die.py").write_text("bad()  # die\n")
    found = outcome(Means(2))
    (finding,) = [finding for finding in found.findings if finding.path == "die.py"]
    assert finding.message == "the process that linted this file died twice, perhaps because memory ran out"
    assert finding.name == "internal-error"  # the exit code is 3
    assert len(found.findings) == len(outcome().findings)


class Broken(Executor):
    """Has never worked."""

    def submit(self, *_: object, **__: object) -> Future[object]:  # type: ignore[override]
        raise BrokenExecutor


@pytest.mark.slow
def test_any_executor_will_do(folder: Path, bad_call: type[Rule]) -> None:
    write(folder, 40)
    expected = text()
    with ThreadPoolExecutor(3) as threads:
        assert text(Means(executor=threads)) == expected
    if sys.platform == "linux":
        assert text(Means(executor=Broken())) == expected


def test_another_torchlint_does_no_work() -> None:
    with pytest.raises(Refused, match=r"a worker has another torchlint: torchlint: .* instead of 0\.0"):
        lint_shipped({**environment(), "torchlint": "0.0"}, b"")


def test_large_files_come_first_and_neighbours_together() -> None:
    sizes = {"a": 10, "b": 200_000, "c": 90_000, "d": 60_000, "e": 20, "f": 300_000}
    assert list(chunks(sizes.items(), 1)) == [["f"], ["b"], ["a", "c", "d", "e"]]
    assert list(chunks(sizes.items(), 6)) == [["f"], ["b"], ["a"], ["c"], ["d"], ["e"]]
    shares = list(chunks(((number, 1) for number in range(3_000)), 6))
    assert [number for share in shares for number in share] == list(range(3_000))
    lengths = [len(share) for share in shares]
    assert lengths == sorted(lengths, reverse=True) and lengths[0] > 400 > 20 > lengths[-2]
    assert max(map(len, chunks(((number, 1_000_000 // 10) for number in range(9_000)), 6))) < 50
    assert list(chunks([], 6)) == []


def test_a_handful_of_files_is_not_worth_a_process() -> None:
    assert processes_that_pay(3, 10_000_000) == processes_that_pay(1_000, 100_000) == processes_that_pay(0, 0) == 1
    assert processes_that_pay(10_000, 100_000_000) == usable_cpus()

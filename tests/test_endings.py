"""How a run ends when something is missing: streams, room on the disk, descriptors, threads. Never with a traceback."""

from __future__ import annotations

import errno
import gc
import io
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import libcst as cst
import pytest
from click.testing import CliRunner, Result

from torchlint import Rule, Safety
from torchlint.cli import cli, main
from torchlint.files import atomic_write, regular
from torchlint.run import runner
from torchlint.syntax import edits
from torchlint.verify import reports, session
from torchlint.verify.reports import html

TORCHLINT = (sys.executable, "-m", "torchlint")
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a shell of POSIX")
FOUND = "bad.py:1:1: XX001 bad-call: `bad` is bad\n"
CONCISE = ("--output-format", "concise", "--no-cache")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Path:
    """The working folder, with one good file and one bad; only the rules of the tests exist."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text("bad()\n")
    (tmp_path / "good.py").write_text("good()\n")
    return tmp_path


@pytest.fixture
def fixes(bad_call: type[Rule], monkeypatch: pytest.MonkeyPatch) -> None:
    """The bad file can be fixed."""

    def visit(self: Rule, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name) and node.func.value == "bad":
            change = edits.Change("call `good`", [edits.Replace(node.func, "good")], Safety.SAFE)
            self.report(node, "`bad` is bad", fix=change)

    monkeypatch.setattr(bad_call, "visit_Call", visit)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Runs the entry point in this process; its exit code."""

    def ended(*arguments: str) -> object:
        monkeypatch.setattr(sys, "argv", ["torchlint", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        return caught.value.code

    return ended


def torchlint(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def in_shell(folder: Path, redirected: str) -> tuple[int, str, str]:
    """Exit code, output and errors of `torchlint` in a shell, whose built-in rules find nothing in the folder."""
    command = redirected.replace("torchlint", f"'{sys.executable}' -m torchlint")
    done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, encoding="utf-8", timeout=60)
    return done.returncode, done.stdout, done.stderr


# -- standard output ------------------------------------------------------------------------------------


@needs_full
@pytest.mark.parametrize("arguments", [("bad.py", *CONCISE), ("good.py", "--no-cache"), ("--help",), ("explain",)])
def test_full_standard_output(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ended: Callable[..., object],
    arguments: tuple[str, ...],
) -> None:
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert ended(*arguments) == 3
    errors = capsys.readouterr().err
    assert errors.endswith("No space left on device\n")
    assert "Traceback" not in errors
    assert ("bad.py" in arguments) == errors.startswith(FOUND), "findings are printed where they can be"


@needs_full
def test_fixed_standard_input_that_cannot_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ended: Callable[..., object]
) -> None:
    with FULL.open("w") as full, (folder / "bad.py").open() as source:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(sys, "stdin", source)
        assert ended("-", "--fix") == 3
    assert "bad()" not in capsys.readouterr().err, "code is not printed among messages"


@posix
def test_a_reader_that_has_gone_is_not_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ended: Callable[..., object]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with io.TextIOWrapper(open(writer, "wb", buffering=0), write_through=True) as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert ended("bad.py", "--no-cache") == 3
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@posix
@pytest.mark.parametrize(
    ("command", "code", "output", "errors"),
    [
        ("torchlint . --no-cache >&-", 3, "", "error: cannot write to standard output: Bad file descriptor\n"),
        ("torchlint . --no-cache 2>&-", 0, "No findings in 1 file; no file uses PyTorch.\n", ""),
        ("torchlint nowhere 2>&-", 2, "", ""),
        ("torchlint - <&-", 2, "", "error: cannot read standard input: Bad file descriptor\n"),
        ("torchlint . <&- >&- 2>&-", 3, "", ""),
    ],
)
def test_closed_streams(tmp_path: Path, command: str, code: int, output: str, errors: str) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    found = in_shell(tmp_path, command)
    assert (found[0], found[1], found[2][-len(errors) :]) == (
        code,
        output,
        errors,
    )
    assert "Traceback" not in found[2]


@needs_full
def test_messages_that_cannot_be_written_are_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ended: Callable[..., object]
) -> None:
    (folder / "empty").mkdir()
    with io.TextIOWrapper(FULL.open("wb", buffering=0), write_through=True) as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert ended("empty", *CONCISE) == 0  # and there is a warning
        assert ended("nowhere") == 2
        assert ended("bad.py", *CONCISE) == 1
        monkeypatch.setattr(sys, "stderr", None)
    assert capsys.readouterr().out == FOUND


# -- what cannot be written -----------------------------------------------------------------------------


@needs_full
def test_an_output_file_that_cannot_be_written(folder: Path) -> None:
    result = torchlint("bad.py", "--output-file", "/dev/full", *CONCISE)
    assert (result.exit_code, result.stdout) == (3, FOUND)
    assert result.stderr == "error: cannot write /dev/full: No space left on device\n"


@needs_full
def test_a_page_of_the_verifier_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(session, "judge", lambda *_: SimpleNamespace(exit_code=1))
    monkeypatch.setattr(reports, "render", lambda *_: "1 confirmed\n")
    monkeypatch.setattr(html, "render", lambda *_: "page")
    result = torchlint("verify", "--evidence", ".", "--report", "/dev/full")
    assert (result.exit_code, result.stdout) == (3, "1 confirmed\n")
    assert result.stderr == "error: cannot write /dev/full: No space left on device\n"


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (("--fix",), FOUND),
        (("--fix-only",), ""),
        (("--add-ignores",), FOUND),
        (("--baseline", "known.json", "--update-baseline"), ""),
    ],
)
def test_files_that_cannot_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fixes: None, options: tuple[str, ...], output: str
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_write, "_replace", refused)
    result = torchlint(*options, "--exit-zero", *CONCISE)
    assert (result.exit_code, result.stdout) == (3, output)
    assert "cannot write " in result.stderr and "No space left on device" in result.stderr
    assert (folder / "bad.py").read_text() == "bad()\n"


def test_a_folder_that_is_not_there_is_told_before_anything_is_linted(folder: Path) -> None:
    for options in (("--output-file",), ("--update-baseline", "--baseline")):
        result = torchlint(*options, "nowhere/found.json")
        assert result.exit_code == 2
        assert "cannot write nowhere/found.json: there is no folder nowhere" in result.stderr.replace("\\", "/")


# -- what makes no sense --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--isolated", "--config", "torchlint.toml"), "leave one out"),
        (("bad.py", "--stdin-filename", "a.py"), "--stdin-filename needs `-`"),
        (("--select", ""), "'--select': the list has an empty item"),
        (("--select=TL1,,TL2",), "'--select': the list has an empty item"),
        (("--extend-select", " "), "'--extend-select': the list has an empty item"),
        (("--ignore", ","), "'--ignore': the list has an empty item"),
        (("--exclude", ""), "'--exclude' / '--extend-exclude': the list has an empty item"),
        (("",), "the path is empty"),
        (("-", "--stdin-filename", ""), "'--stdin-filename': the path is empty"),
        (("--baseline", ""), "'--baseline': the path is empty"),
        (("--output-file=",), "'--output-file': the path is empty"),
        (("--config=",), "'--config': the path is empty"),
        (("explain", ""), "the name of a rule is empty"),
        (("--config", "empty.toml"), "empty.toml:1: select: the name of a rule is empty"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(folder: Path, arguments: tuple[str, ...], reason: str) -> None:
    (folder / "torchlint.toml").write_text("")
    (folder / "empty.toml").write_text("select = ['']")
    result = torchlint(*arguments)
    assert result.exit_code == 2
    assert reason in result.stderr


# -- what the machine has too little of -----------------------------------------------------------------


def refuse_threads(monkeypatch: pytest.MonkeyPatch, is_refused: Callable[[], bool]) -> None:
    start = threading.Thread.start

    def refusing(self: threading.Thread) -> None:
        if is_refused():
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refusing)


@pytest.mark.slow
@pytest.mark.parametrize(("largest", "depth"), [(-1, 20), (100_000_000, 400)], ids=["none", "small ones only"])
def test_threads_that_cannot_start(folder: Path, monkeypatch: pytest.MonkeyPatch, largest: int, depth: int) -> None:
    refuse_threads(monkeypatch, lambda: threading.stack_size() > largest)
    (folder / "deep.py").write_text(f"bad({'-' * depth}1)\n")
    for jobs in ("1", "2"):
        result = torchlint("--jobs", jobs, *CONCISE)
        assert (result.exit_code, result.stdout) == (1, FOUND + FOUND.replace("bad.py", "deep.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fork", "pipe"])
def test_processes_that_cannot_start(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """None at all, or not as many as were asked for: then this one lints, and leaves none behind."""
    if sys.platform != "linux":
        pytest.skip("the rules of a test reach copies of its process only")
    real, calls = getattr(os, name), iter(range(100))

    def refused() -> object:
        if next(calls) >= 2:
            raise OSError(errno.EMFILE, "Too many open files")
        return real()

    monkeypatch.setattr(os, name, refused)
    before = os.listdir("/proc/self/fd")
    result = torchlint("--jobs", "4", *CONCISE)
    assert (result.exit_code, result.output) == (1, FOUND)
    assert multiprocessing.active_children() == []
    end = time.monotonic() + 10
    while len(os.listdir("/proc/self/fd")) > len(before) and time.monotonic() < end:
        time.sleep(0.05)  # a pool closes its pipes in a thread of its own, or when it is collected
        gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= len(before)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENAMETOOLONG])
def test_a_file_that_the_machine_cannot_open_is_no_finding(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """There is nothing wrong with it; but it was not linted."""
    read = regular.read

    def refused(path: str | Path, *limit: int, **how: bool) -> bytes:
        if Path(path).name == "good.py":
            raise OSError(number, os.strerror(number))
        return read(path, *limit, **how)

    monkeypatch.setattr(regular, "read", refused)
    result = torchlint("--exit-zero", *CONCISE)
    assert (result.exit_code, result.stdout) == (
        3,
        f"{FOUND}good.py:1:1: TL003 internal-error: {os.strerror(number)}\n",
    )


@posix
def test_a_folder_with_a_path_too_long(folder: Path) -> None:
    deep = os.path.join("d" * 200, "")
    depth, limit = 0, os.pathconf(folder, "PC_PATH_MAX")
    while depth * len(deep) < limit:
        os.mkdir(deep)
        os.chdir(deep)
        depth += 1
    os.chdir(folder)
    result = torchlint(*CONCISE)
    first, second = result.stdout.splitlines(keepends=True)
    assert (result.exit_code, first) == (3, FOUND)
    assert second.endswith(": TL003 internal-error: folder cannot be read: File name too long\n")


def test_names_too_long(folder: Path) -> None:
    name = "n" * 5_000
    assert torchlint(name).exit_code == 2
    assert torchlint("--baseline", name).exit_code == 2
    assert torchlint("--output-file", name).exit_code == 3
    assert torchlint("-", "--stdin-filename", f"{name}/a.py").exit_code == 0


def test_a_working_folder_that_is_gone(folder: Path) -> None:
    gone = folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    try:
        gone.rmdir()
    except OSError:
        pytest.skip("a working folder cannot go")
    result = torchlint("--no-cache", ".")
    assert result.exit_code == 2
    assert "error: the current folder does not exist any more\n" in result.stderr


# -- input that is nested too deeply --------------------------------------------------------------------


@pytest.mark.parametrize("value", ["[" * 50_000, "{a=" * 50_000])
def test_configuration_nested_too_deeply(folder: Path, value: str) -> None:
    (folder / "torchlint.toml").write_text(f"select = {value}")
    result = torchlint()
    assert result.exit_code == 2
    assert "torchlint.toml:1: is nested too deeply" in result.stderr


@pytest.mark.needs("torch")
@pytest.mark.parametrize("text", ["[" * 50_000, "{}", "[1]", "null", '[{"uri": 1, "diagnostics": 1}]'])
def test_findings_of_another_shape(folder: Path, text: str) -> None:
    (folder / "found.json").write_text(text)
    result = torchlint("verify", "--findings", "found.json", "--yes", "--", sys.executable)
    assert result.exit_code == 2
    assert "error: found.json is " in result.stderr


def test_evidence_nested_too_deeply(folder: Path) -> None:
    (folder / "plan.json").write_text("[" * 50_000)
    result = torchlint("verify", "--evidence", ".")
    assert result.exit_code == 2
    assert "error: . contains no verification: " in result.stderr


# -- what nobody has expected ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ZeroDivisionError("so deep"), "torchlint crashed, please report it: ZeroDivisionError: so deep (failing, "),
        (OSError(errno.EIO, "Input/output error", "a.py"), "Input/output error: a.py\n"),
        (MemoryError(), "torchlint crashed, please report it: MemoryError:  (failing, "),
    ],
)
def test_any_other_error(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ended: Callable[..., object],
    error: Exception,
    message: str,
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(runner, "run", failing)
    assert ended("bad.py") == 3
    errors = capsys.readouterr().err
    assert errors.startswith(f"error: {message}") and errors.count("\n") == 1

"""The command line, from arguments to exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from torchlint import Rule
from torchlint.cli import cli, main
from torchlint.engine import examination, run_rules
from torchlint.run.progress import Progress

TORCHLINT = (sys.executable, "-m", "torchlint")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Path:
    """The working folder, with one good file and one bad; only the rules of the tests exist."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bad.py").write_text("bad()\n")
    (tmp_path / "good.py").write_text("good()\n")
    return tmp_path


def torchlint(*arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin)


def concise(*arguments: str) -> list[str]:
    return torchlint("--output-format", "concise", *arguments).stdout.splitlines()


def test_check_is_the_default_command(folder: Path) -> None:
    found = ["bad.py:1:1: XX001 bad-call: `bad` is bad"]
    assert concise() == concise(".") == concise("bad.py", "good.py") == found
    assert torchlint("bad.py").stdout == torchlint("check", "bad.py").stdout
    for name in ("check", "explain"):
        (folder / name).mkdir()
        (folder / name / "a.py").write_text("bad()")
        assert concise(f"./{name}") == [f"{name}/a.py:1:1: XX001 bad-call: `bad` is bad"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("good.py",), 0),
        (("bad.py",), 1),
        (("bad.py", "--exit-zero"), 0),
        (("--ignore", "XX001"), 0),
        (("--ignore", "perf,bad-call"), 2),
        (("--select", "suspicious"), 0),
        (("--select", "suspicious,correctness"), 1),
        (("--select", "suspicious", "--extend-select", "xx001"), 1),
        (("--select", "XX", "--ignore", "correctness"), 0),
        (("--exclude", "b*.py,x"), 0),
        (("bad.py", "--exclude", "b*.py"), 1),
        (("bad.py", "--exclude", "b*.py", "--force-exclude"), 0),
        (("nowhere",), 2),
        (("--select", "bad-cal"), 2),
        (("--output-format", "yaml"), 2),
        (("--config", "nowhere.toml"), 2),
        (("--statistics", "--output-format", "sarif"), 2),
        (("-", "good.py"), 2),
        (("--output-file", "no/such/folder"), 2),
        (("explain", "bad-cal"), 2),
        (("explain", "bad-call"), 0),
    ],
)
def test_exit_codes(folder: Path, arguments: tuple[str, ...], code: int) -> None:
    assert torchlint(*arguments).exit_code == code


def test_errors_say_what_was_meant(folder: Path) -> None:
    assert "unknown rule or category `bad-cal`; did you mean `bad-call`?" in torchlint("--select", "bad-cal").stderr
    assert "path does not exist: nowhere" in torchlint("bad.py", "nowhere").stderr
    (folder / "torchlint.toml").write_text("\nselct = []\n")
    result = torchlint()
    assert result.exit_code == 2
    assert "torchlint.toml:2: selct: unknown key; did you mean `select`?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message", "usage"),
    [
        (("--no-such-option",), "no such option", "torchlint check [OPTIONS] [PATH]..."),
        (("--jobs", "0"), "invalid value for '-j' / '--jobs': 0 is", "torchlint check [OPTIONS] [PATH]..."),
        (("-", "good.py"), "`-` cannot be combined with other paths\n", "torchlint check [OPTIONS] [PATH]..."),
        (("cache", "clean"), "no such command 'clean'", "torchlint cache [OPTIONS] COMMAND [ARGS]..."),
        (("explan", "x"), "there is neither a command nor a path `explan`; did you mean `explain`?\n", ""),
        (("nowhere",), "path does not exist: nowhere\n", ""),
        (("--select", "bad-cal"), "unknown rule or category `bad-cal`; did you mean `bad-call`?\n", ""),
    ],
)
def test_errors_have_one_voice(folder: Path, arguments: tuple[str, ...], message: str, usage: str) -> None:
    """How a command is used is said only where that was wrong."""
    result = CliRunner().invoke(cli, arguments, prog_name="torchlint")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {message}")
    assert result.stderr.splitlines()[1:] == (
        [f"usage: {usage}", f"help:  {usage.split(' [')[0]} --help"] * bool(usage)
    )


def test_a_crash_is_named_and_the_rest_is_linted(folder: Path) -> None:
    (folder / "crash.py").write_text("crash()\n")
    result = torchlint("--output-format", "concise")
    assert result.exit_code == 3
    assert torchlint("--exit-zero").exit_code == 3
    lines = result.stdout.splitlines()
    assert lines[0] == "bad.py:1:1: XX001 bad-call: `bad` is bad"
    assert lines[1].startswith("crash.py:1:1: TL003 internal-error: rule crash crashed: ValueError: no reason")


def test_no_python_files(folder: Path) -> None:
    (folder / "empty").mkdir()
    result = torchlint("empty", "--output-format", "json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])
    assert result.stderr == "warning: no Python files found under the given paths\n"
    assert torchlint("empty", "--quiet").stderr == ""


def test_configuration(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.torchlint]\nignore = ['bad-call']\n")
    (folder / "other.toml").write_text("select = ['pedantic']\n")
    assert concise() == []
    assert len(concise("--isolated")) == 1
    assert len(concise("--select", "bad-call")) == 1
    assert concise("--isolated", "--config", "other.toml") == []
    (folder / "bad.py").write_text("x  # torchlint: ignore[nonsense]\n")
    assert concise("--config", "other.toml")[0].startswith("bad.py:1:24: TL005 unknown-suppression:")


def test_options_of_a_rule(folder: Path) -> None:
    (folder / "torchlint.toml").write_text("[rules.bad-call]\nnames = ['good']\n")
    (folder / "good.py").write_text("good()  # bad\n")
    assert concise() == ["good.py:1:1: XX001 bad-call: `bad` is bad"]


def test_standard_input(folder: Path) -> None:
    result = torchlint("-", "--output-format", "concise", stdin="bad()\n")
    assert (result.exit_code, result.stdout) == (1, "<stdin>:1:1: XX001 bad-call: `bad` is bad\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "torchlint.toml").write_text("per-file-ignores = { 'a.py' = ['XX'] }\nexclude = ['c.py']\n")
    assert torchlint("-", "--stdin-filename", "sub/a.py", stdin="bad()\n").exit_code == 0
    assert torchlint("-", "--stdin-filename", "sub/b.py", stdin="bad()\n").exit_code == 1
    assert torchlint("-", "--stdin-filename", "sub/c.py", stdin="bad()\n").exit_code == 1
    assert torchlint("-", "--stdin-filename", "sub/c.py", "--force-exclude", stdin="bad()\n").exit_code == 0
    assert torchlint("-", stdin=b"\xff\x00").exit_code == 1


def test_output_file(folder: Path) -> None:
    result = torchlint("--output-file", "found.json", "--output-format", "json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(json.loads((folder / "found.json").read_bytes())) == 1
    torchlint("--output-file", "found.txt")
    assert "\x1b" not in (folder / "found.txt").read_text()


def test_statistics(folder: Path) -> None:
    assert torchlint("--statistics").stdout == "     1  XX001  bad-call  in 1 file\n"


def test_colour(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in torchlint().stdout
    assert "\x1b" in torchlint("--color", "always").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" in torchlint().stdout
    assert "\x1b" not in torchlint("--color", "never").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in torchlint().stdout


def test_quiet_leaves_the_findings(folder: Path) -> None:
    assert torchlint("--quiet", "good.py").output == ""
    assert "`bad` is bad" in torchlint("-q").stdout


def test_explain(folder: Path) -> None:
    page = torchlint("explain", "XX001").stdout
    assert page.startswith(
        "bad-call (XX001)\ncategory: correctness; severity: error; on by default\n\nA call of `bad`.\n"
    )
    assert "\nWhat it does\n" in page
    assert torchlint("explain", "bad-call").stdout == page
    assert torchlint("explain", "--markdown", "bad-call").stdout.startswith("# bad-call (XX001)\n")
    listing = torchlint("explain").stdout.splitlines()
    assert [line.split()[:2] for line in listing][-2:] == [["XX001", "bad-call"], ["XX002", "crash"]]
    everything = torchlint("explain", "--all").stdout
    assert page in everything and "unused-suppression (TL004)" in everything


def test_help_teaches(folder: Path) -> None:
    page = torchlint("--help").stdout
    for taught in (
        "Examples:",
        "torchlint src/ train.py",
        "Exit codes:",
        "explain",
        "ignore[missing-zero-grad]",
    ):
        assert taught in page
    options = torchlint("check", "--help").stdout
    for taught in ("--select", "torchlint --since main", "--baseline old.json --update-baseline"):
        assert taught in options


@pytest.mark.slow
def test_help_and_version_do_not_import_the_parser(run: object) -> None:
    code = (
        "import sys\nfrom torchlint.cli import cli\n"
        "for option in ('--version', '--help'): cli.main([option], standalone_mode=False)\n"
        "sys.exit('libcst' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("torchlint 0.")


@pytest.mark.slow
def test_a_closed_pipe_is_quiet() -> None:
    with subprocess.Popen([*TORCHLINT, "explain", "--all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 3


def test_an_interrupt_is_quiet(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(examination, "examine", interrupted)
    monkeypatch.setattr(sys, "argv", ["torchlint", "bad.py"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130
    assert capsys.readouterr().err.strip() == "error: interrupted"


def test_progress_waits_a_second_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    terminal, pipe = Terminal(), io.StringIO()
    with Progress(terminal) as shown, Progress(pipe) as hidden, Progress(terminal, quiet=True) as quiet:
        for now in (0.5, 0.9, 1.0, 1.01, 2.0):
            for progress in (shown, hidden, quiet):
                progress(int(now * 100), 2000, now / 100)
    first = "torchlint: 1%, 100 of 2,000 files, 1 s"
    second = "torchlint: 2%, 200 of 2,000 files, 2 s, about 1 min 38 s left"
    assert terminal.getvalue() == f"\r{first}\r{second}\r{' ' * len(second)}\r"
    assert pipe.getvalue() == ""


def test_output_is_the_same_every_time(folder: Path) -> None:
    for name in ("c.py", "a/b.py", "a/a.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("bad(); x = bad(bad())\n")
    outputs = {torchlint(*paths).stdout for paths in ((".",), ("c.py", "bad.py", "good.py", "a"), ())}
    assert len(outputs) == 1


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="no such file names there")
@pytest.mark.parametrize("form", ["text", "concise", "json", "sarif", "github", "gitlab", "junit", "html"])
def test_file_names_that_are_no_text(folder: Path, form: str) -> None:
    for name in (b"caf\xe9.py", "日 #%.py".encode(), b"a\nb\x1b.py"):
        with open(os.path.join(os.fsencode(folder), name), "w") as file:
            file.write("bad()")
    result = torchlint("--output-format", form)
    assert result.exit_code == 1
    assert "\x1b" not in result.stdout or form == "github"
    if form in ("json", "sarif"):
        assert "caf%E9.py" in result.stdout and "%E6%97%A5%20%23%25.py" in result.stdout
        json.loads(result.stdout)


def test_an_unexpected_crash_of_the_engine_is_contained(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise ZeroDivisionError("so deep")

    monkeypatch.setattr(run_rules, "read", failing)
    result = torchlint("--output-format", "concise")
    assert result.exit_code == 3
    assert result.stdout.startswith("bad.py:1:1: TL003 internal-error: torchlint crashed: ZeroDivisionError: so deep")

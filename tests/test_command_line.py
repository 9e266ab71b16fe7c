"""The command line shows its files, settings and reasons; it reads settings and variables, and manages the cache."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner, Result

from tests.hostile.conftest import needs_links
from torchlint import Rule
from torchlint.cli import cli, main
from torchlint.cli.check import VARIABLES, check
from torchlint.cli.completing import VARIABLE
from torchlint.outputs import FORMATS
from torchlint.project.config import read
from torchlint.run.cache import folder as folders


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Path:
    """The working folder, a repository, with one good file and one bad; only the rules of the tests exist."""
    top = tmp_path / "top"
    (top / ".git").mkdir(parents=True)
    (top / "bad.py").write_text("bad()\n")
    (top / "good.py").write_text("good()\n")
    monkeypatch.chdir(top)
    return top


def torchlint(*arguments: str, stdin: str | bytes = "", env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin, env=env, prog_name="torchlint")


def concise(*arguments: str) -> list[str]:
    return torchlint("--output-format", "concise", *arguments).stdout.splitlines()


# -- options for one run, as ruff has them --------------------------------------------------------------


def test_ignore_noqa(folder: Path) -> None:
    (folder / "bad.py").write_text("bad()  # noqa\nbad()  # torchlint: ignore[bad-call]\n# torchlint: ignore-file\n")
    assert torchlint("bad.py").exit_code == 0
    assert len(concise("--ignore-noqa", "bad.py")) == 2
    assert torchlint("bad.py").exit_code == 0, "the cache keeps both results apart"


def test_ignore_noqa_calls_no_comment_unused(folder: Path) -> None:
    (folder / "good.py").write_text("good()  # torchlint: ignore[bad-call]\n")
    assert torchlint("--extend-select", "unused-suppression", "good.py").exit_code == 1
    assert torchlint("--extend-select", "unused-suppression", "--ignore-noqa", "good.py").exit_code == 0


def test_per_file_ignores(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "bad.py").write_text("bad()\n")
    (folder / "torchlint.toml").write_text("per-file-ignores = { 'bad.py' = ['XX'] }\n")
    assert concise() == []
    assert len(concise("--per-file-ignores", "sub/*:bad-call")) == 1
    assert concise("--per-file-ignores", "sub/*:XX001,bad.py:all") == []


@pytest.mark.parametrize("pair", ["bad.py", ":XX001", "bad.py:"])
def test_per_file_ignores_needs_a_pattern_and_a_rule(folder: Path, pair: str) -> None:
    result = torchlint("--per-file-ignores", pair)
    assert (result.exit_code, "PATTERN:RULE" in result.stderr) == (2, True)


def test_extend_exclude_is_exclude(folder: Path) -> None:
    (folder / "torchlint.toml").write_text("exclude = ['good.py']\n")
    assert torchlint("--show-files", "--extend-exclude", "bad.py").stdout == ""


# -- --show-files and -v --------------------------------------------------------------------------------


def test_show_files(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "日本 #.py").write_text("")
    (folder / "notes.txt").write_text("")
    result = torchlint("--show-files")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "bad.py\ngood.py\nsub/日本 #.py\n", "")
    assert torchlint("--show-files", ".", "--exclude", "sub/,bad.py").stdout == "good.py\n"
    assert torchlint("--show-files", "nowhere").exit_code == 2
    assert torchlint("--show-files", "--output-file", "files.txt").stdout == ""
    assert (folder / "files.txt").read_text("utf-8").startswith("bad.py\n")


@needs_links
def test_reasons_for_what_is_skipped(folder: Path) -> None:
    for name in (".venv", "build", "made", "third_party", "env", "real"):
        (folder / name).mkdir()
        (folder / name / "a.py").write_text("")
    (folder / "env" / "pyvenv.cfg").write_text("")
    (folder / "link").symlink_to("real")
    (folder / "folder.py").mkdir()
    (folder / ".gitignore").write_text("# what is made\n\nmade/\n*_pb2.py\n")
    (folder / "x_pb2.py").write_text("")
    (folder / "torchlint.toml").write_text("\nexclude = ['third_party/']\n")
    result = torchlint("-v", "--show-files", "--exclude", "good.py")
    assert result.stdout.splitlines() == ["bad.py", "real/a.py"]
    by_default = 'excluded by default; `exclude = ["!{}"]` includes it'
    assert set(result.stderr.splitlines()) == {
        f"skipped .git/: {by_default.format('.git/')}",
        f"skipped .venv/: {by_default.format('.venv/')}",
        f"skipped build/: {by_default.format('build/')}",
        f"skipped made/: {folder / '.gitignore'}:3",
        f"skipped x_pb2.py: {folder / '.gitignore'}:4",
        "skipped third_party/: exclude `third_party/` of torchlint.toml:2",
        "skipped good.py: --exclude good.py",
        "skipped env/: a virtual environment",
        "skipped link: a link to a folder, which is linted where it is",
        "configuration: torchlint.toml",
    }
    assert torchlint("--show-files", "--exclude", "good.py").stderr == ""


def test_reasons_for_what_is_named(folder: Path) -> None:
    (folder / "made").mkdir()
    (folder / "made" / "a.py").write_text("")
    (folder / ".gitignore").write_text("made/\n")
    expected = f"skipped {Path('made/a.py')}: {folder / '.gitignore'}:1\n"
    assert torchlint("-v", "made/a.py", "--force-exclude", "--isolated").stderr.startswith(expected)
    assert "skipped" not in torchlint("-v", "made/a.py").stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files there")
def test_a_pipe_is_skipped_with_a_reason(folder: Path) -> None:
    os.mkfifo(folder / "pipe.py")
    assert "skipped pipe.py: no regular file\n" in torchlint("-v").stderr


# -- --show-settings ------------------------------------------------------------------------------------


def test_show_settings(folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        "[tool.torchlint]\nselect = ['XX']\nbaseline = 'known.json'\nrules.bad-call.limit = 5\n"
        "per-file-ignores = { 'a b.py' = ['XX001'] }\nseverity = { XX001 = 'hint' }\n"
    )
    (folder / "sub").mkdir()
    (folder / "sub" / "torchlint.toml").write_text("extend = '../pyproject.toml'\nignore = ['XX002']\n")
    text = torchlint("--show-settings", "sub", "--config", "preview=true", "--unfixable", "XX001").stdout
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "# Settings of sub",
        "# from sub/torchlint.toml, which extends pyproject.toml",
        'select = ["XX"] # pyproject.toml:2',
        'ignore = ["XX002"] # sub/torchlint.toml:2',
        'unfixable = ["XX001"] # --unfixable',
        "preview = true # --config",
        'baseline = "known.json" # pyproject.toml:3',
        "# cache-dir is not set # default",
        "follow = true # default",
        "# 1 rule: bad-call",
    ):
        assert line in lines, line
    (folder / "again.toml").write_text(text)
    again = read(folder / "again.toml")
    assert again is not None
    assert (again.select, again.rules, again.preview) == (("XX",), {"bad-call": {"limit": 5}}, True)
    assert again.per_file_ignores == (("a b.py", ("XX001",)),)


def test_a_nested_file_says_what_it_does_not_inherit(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\n[tool.torchlint]\npreview = true\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "torchlint.toml").write_text("")
    said = torchlint("--show-settings", "sub").stdout
    assert "# from sub/torchlint.toml\n# Inherits nothing from pyproject.toml: add `extend` for that\n" in said
    (folder / "pyproject.toml").write_text("[project]\nname = 'torchlint'\n")
    assert "Inherits nothing" not in torchlint("--show-settings", "sub").stdout


def test_show_settings_without_a_file(folder: Path) -> None:
    said = torchlint("--show-settings", "--isolated", "bad.py").stdout
    assert "# from the defaults: no configuration file applies" in said
    assert torchlint("--show-settings", "nowhere").stderr == "error: path does not exist: nowhere\n"
    (folder / "torchlint.toml").write_text("selct = 1")
    assert torchlint("--show-settings").exit_code == 2


# -- --config, --fixable, variables ---------------------------------------------------------------------


def test_a_key_on_the_command_line(folder: Path) -> None:
    (folder / "torchlint.toml").write_text("ignore = ['XX']\n")
    assert concise() == []
    assert len(concise("--config", "select=['XX001']")) == 1
    assert len(concise("--config", "select=['XX001']", "--isolated")) == 1
    assert concise("--config", "severity.XX001=hint", "--config", "ignore=[]") == []
    result = torchlint("--config", "selct=[]")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: --config selct=[]: selct: unknown key; did you mean `select`?\n",
    )
    assert torchlint("--config", "torchlint.toml", "--config", "torchlint.toml").exit_code == 2
    assert torchlint("--config", "torchlint.toml", "--config", "select=['XX001']").exit_code == 1


def test_the_keys_of_the_help_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keys = re.findall(r"--config '?([a-z.-]+=\w+)", " ".join(torchlint("check", "--help").stdout.split()))
    assert len(keys) == 2
    for key in keys:
        result = torchlint("--config", key, "--show-settings")
        assert (result.exit_code, result.stderr) == (0, ""), key


def test_a_named_file_that_may_not_be_read_is_a_finding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for whoever is not root
    assert len(concise("bad.py")) == 1


def test_a_file_may_have_an_equals_sign(folder: Path) -> None:
    (folder / "a=b.toml").write_text("ignore = ['XX']\n")
    assert concise("--config", "a=b.toml") == []


def test_the_severity_of_a_rule(folder: Path) -> None:
    assert torchlint("--config", "severity.all=hint", "bad.py").stdout.startswith("bad.py:1:1: hint XX001")


def test_variables(folder: Path) -> None:
    for variable, value, found in (
        ("SELECT", "XX002", 0),
        ("SELECT", "XX002, XX001", 1),
        ("IGNORE", "XX", 0),
        ("CONFIG", "ignore=['XX001']", 0),
        ("OUTPUT_FORMAT", "concise", 1),
        ("NO_CACHE", "1", 1),
        ("JOBS", "1", 1),
    ):
        assert torchlint("bad.py", env={f"TORCHLINT_{variable}": value}).exit_code == found, variable
    assert torchlint("bad.py", env={"TORCHLINT_OUTPUT_FORMAT": "concise"}).stdout.count("\n") == 1
    assert torchlint("bad.py", "--select", "XX001", env={"TORCHLINT_SELECT": "XX002"}).exit_code == 1
    assert "# TORCHLINT_SELECT" in torchlint("--show-settings", env={"TORCHLINT_SELECT": "XX002"}).stdout
    result = torchlint("bad.py", env={"TORCHLINT_JOBS": "many"})
    assert result.exit_code == 2 and "(the variable TORCHLINT_JOBS is set)" in result.stderr
    assert torchlint("bad.py", env={"TORCHLINT_JOBS": "", "TORCHLINT_SELECT": ""}).exit_code == 1


def test_all_variables_are_in_the_help() -> None:
    known = {str(param.envvar).removeprefix("TORCHLINT") for param in check.params if param.envvar}
    listed = re.findall(r"(?:TORCHLINT)?(_[A-Z_]+)", VARIABLES)
    assert sorted(listed) == sorted({*known, "_CACHE_DIR"})


def test_the_configuration_names_a_format(folder: Path) -> None:
    (folder / "torchlint.toml").write_text("output-format = 'json'\n")
    assert len(json.loads(torchlint().stdout)) == 1
    assert torchlint("--output-format", "concise").stdout.startswith("bad.py:1:1: ")
    assert json.loads(torchlint("--statistics").stdout)[0]["findings"] == 1
    (folder / "torchlint.toml").write_text("output-format = 'sarif'\n")
    assert torchlint("--statistics").stdout == "     1  XX001  bad-call  in 1 file\n"


def test_statistics_as_json(folder: Path) -> None:
    (row,) = json.loads(torchlint("--statistics", "--output-format", "json").stdout)
    assert row == {"code": "XX001", "name": "bad-call", "findings": 1, "files": 1, "fixable": 0}
    assert json.loads(torchlint("good.py", "--statistics", "--output-format", "json").stdout) == []


# -- the baseline of a project --------------------------------------------------------------------------


def test_the_configuration_names_a_baseline(folder: Path) -> None:
    (folder / "torchlint.toml").write_text("\nbaseline = 'known/findings.json'\n")
    (folder / "known").mkdir()
    result = torchlint()
    assert result.exit_code == 2
    assert result.stderr.startswith("error: torchlint.toml:2: baseline: there is no baseline ")
    assert torchlint("--no-baseline").exit_code == 1
    assert torchlint("--update-baseline").exit_code == 0
    assert torchlint().exit_code == 0
    assert torchlint("-", "--stdin-filename", "bad.py", stdin="bad()\n").exit_code == 0
    assert torchlint("--no-baseline").exit_code == torchlint("--isolated").exit_code == 1
    assert torchlint("--no-baseline", "--baseline", "x.json").exit_code == 2
    assert torchlint("--isolated", "--update-baseline").stderr.startswith("error: --update-baseline needs --baseline")
    (folder / "known" / "findings.json").unlink()
    (folder / "known").rmdir()
    assert torchlint("--update-baseline").stderr.startswith("error: cannot write ")


# -- the cache of a project -----------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder of the cache; no variable names another."""
    monkeypatch.delenv("TORCHLINT_CACHE_DIR")
    home = tmp_path / "home"
    monkeypatch.setattr(folders, "_default", lambda: home)
    return home


def test_a_folder_that_the_user_names(folder: Path, home: Path) -> None:
    assert torchlint("--cache-dir", "found").exit_code == 1
    assert sorted(path.suffix for path in (folder / "found").iterdir()) == [".TAG", ".json"]
    assert not home.exists()
    assert torchlint("cache", "clear", "--cache-dir", "found").stderr == f"Deleted 1 file in {folder / 'found'}.\n"
    assert not (folder / "found").exists()
    assert torchlint("--cache-dir", "found", "--no-cache").exit_code == 2


def test_a_folder_that_the_project_names(folder: Path, home: Path) -> None:
    (folder / "torchlint.toml").write_text("cache-dir = '.cache/torchlint'\n")
    assert torchlint().exit_code == 1
    place = folder / ".cache" / "torchlint"
    (index,) = place.glob("*.json")
    assert (place / ".gitignore").read_text().endswith("*\n")
    assert [path.name for path in home.iterdir()] == ["key"]
    assert sys.platform == "win32" or (home / "key").stat().st_mode & 0o777 == 0o600
    before = index.read_bytes()
    assert torchlint().exit_code == 1 and index.read_bytes() == before
    assert torchlint("--cache-dir", "other").exit_code == 1 and (folder / "other").exists()
    assert torchlint("cache", "clear").stderr == f"Deleted 1 file in {place}.\n"
    assert not place.exists() and (home / "key").exists()


def test_what_a_repository_brings_along_is_no_cache(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what has no key, nor what has the key of somebody else."""
    (folder / "torchlint.toml").write_text("cache-dir = 'planted'\n")
    for key in (b"", b"x" * 32):
        with monkeypatch.context() as patch:
            patch.setattr(folders, "_key", lambda folder, key=key: key)
            (folder / "bad.py").write_text("good()\n")
            assert torchlint().exit_code == 0
            (index,) = (folder / "planted").glob("*.json")
            (folder / "bad.py").write_text("bad()\n")
            assert torchlint().exit_code == 1
            body = json.loads(index.read_bytes().split(b"\n")[1])
            for entry in body[1].values():
                entry[2] = []
            from torchlint.run.cache.index import _head

            data = json.dumps(body).encode()
            index.write_bytes(_head(data, key) + b"\n" + data)
            assert torchlint().exit_code == 0, "with that key it counts"
        assert torchlint().exit_code == 1, "without it does not"
        index.unlink()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_broken_key_is_said(folder: Path, home: Path, content: bytes) -> None:
    (folder / "torchlint.toml").write_text("cache-dir = '.cache'\n")
    home.mkdir()
    (home / "key").write_bytes(content)
    result = torchlint()
    assert result.exit_code == 1
    assert result.stderr.startswith("warning: cache-dir ") and "cannot be used: " in result.stderr


def test_the_table_of_ruff_names_options_that_there_are() -> None:
    text = (Path(__file__).parent.parent / "docs" / "compared.md").read_text("utf-8")
    text = text.partition("\n### Command line\n")[2]
    commands, _, formats = text.partition("\n### Output formats\n")
    formats = formats.partition("\n### ")[0]
    known = {name for param in check.params for name in param.opts}
    rows = [row.split(" | ") for row in commands.splitlines() if row.startswith("| ") and "---" not in row][1:]
    for ruff, ours, *_ in rows:
        for option in re.findall(r"`(--[a-z-]+)", ours if ours.strip("= ") else ruff):
            assert option in known or ours == "left out", option
        for command in re.findall(r"`torchlint (\w+)", ours):
            assert command in cli.commands, command
    named = {name for row in formats.splitlines() if " = " in row for name in re.findall(r"`([a-z-]+)`", row)}
    assert named <= FORMATS.keys() and len(named) == 10
    variables = [param for param in check.params if param.envvar]
    assert f"{len(variables) + 1} options have one" in text


def guide() -> list[str]:
    """The commands of the guide."""
    text = (Path(__file__).parent.parent / "docs" / "guides" / "command-line.md").read_text("utf-8")
    return [line for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]


@pytest.mark.parametrize("line", guide())
def test_the_commands_of_the_guide_are_understood(line: str) -> None:
    _, *arguments = shlex.split(line, comments=True)
    name = arguments.pop(0) if arguments[0] in cli.commands else "check"
    if "ci.toml" not in arguments:  # a file that is somebody's own
        assert cli.commands[name].make_context(name, arguments).params


# -- rules, completion ----------------------------------------------------------------------------------


def test_rules(folder: Path) -> None:
    lines = torchlint("rules").stdout.splitlines()
    assert [line.split()[:4] for line in lines][-2:] == [
        ["XX001", "bad-call", "correctness", "on"],
        ["XX002", "crash", "suspicious", "on"],
    ]
    assert "pedantic     off " in lines[3]
    assert torchlint("explain").stdout.splitlines() == lines
    assert len(torchlint("rules", "XX", "bad-call").stdout.splitlines()) == 2
    assert torchlint("rules", "bad-cal").exit_code == 2
    (rule,) = json.loads(torchlint("rules", "XX001", "--format", "json").stdout)
    assert (rule["code"], rule["name"], rule["default"]) == ("XX001", "bad-call", True)
    assert rule["options"] == {"limit": 3, "strict": False, "names": ["bad"], "title": ""}
    assert rule["documentation"].startswith("A call of `bad`.\n")


def test_a_page_says_of_which_commit_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".git" / "HEAD").touch()
    monkeypatch.setattr("torchlint.adoption.repository.ask", lambda *_: "0123456789abcdef" * 2 + "01234567")
    page = torchlint("--output-format", "html", env={"SOURCE_DATE_EPOCH": "1700000000"}).stdout
    assert "commit 0123456789ab, 2023-11-14 22:13 UTC" in page
    monkeypatch.setattr("torchlint.adoption.repository.ask", lambda *_: "<script>")
    page = torchlint("--output-format", "html", env={"SOURCE_DATE_EPOCH": "1700000000"}).stdout
    assert ">2023-11-14 22:13 UTC<" in page


@pytest.mark.parametrize("words", [(), ("check",), ("verify",), ("cache",), ("cache", "clear"), ("help",)])
def test_the_command_help(words: tuple[str, ...]) -> None:
    shown, expected = torchlint("help", *words), torchlint(*words, "--help")
    assert (shown.stdout, shown.exit_code) == (expected.stdout, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("chekc",), "`torchlint` has no command `chekc`; did you mean `check`?"),
        (("cache", "claer"), "`torchlint cache` has no command `claer`; did you mean `clear`?"),
        (("check", "x"), "`torchlint check` has no command `x`\n"),
    ],
)
def test_help_of_what_is_no_command(words: tuple[str, ...], message: str) -> None:
    result = torchlint("help", *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_version_has_a_short_option() -> None:
    assert torchlint("-V").stdout == torchlint("--version").stdout
    assert torchlint("-V").stdout.startswith("torchlint 0.")


def test_a_group_without_a_command_shows_its_help() -> None:
    result = torchlint("cache")
    assert (result.stderr, result.exit_code) == (torchlint("cache", "--help").stdout, 2)


def completed(*words: str) -> list[str]:
    """The completions of the last word for the shell."""
    found = BashComplete(cli, {}, "torchlint", VARIABLE)
    return [item.value for item in found.get_completions(list(words[:-1]), words[-1])]


def test_completion(folder: Path) -> None:
    assert completed("--select", "bad") == completed("check", "--select", "bad") == ["bad-call"]
    assert completed("--ignore", "suspicious,xx") == ["suspicious,XX001", "suspicious,XX002"]
    assert completed("explain", "cra") == completed("rules", "cra") == ["crash"]
    assert completed("--show") == ["--show-files", "--show-settings", "--show-fixes"]
    assert completed("help", "ca") == ["cache"]
    assert completed("ru") == ["ru", "rules"], "a path, or the command"
    assert completed("src", "ru") == ["ru"]
    assert completed("--output-format", "rd") == ["rdjson"]
    assert completed("--exclude", "b") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(shell: str) -> None:
    script = torchlint("completion", shell).stdout
    assert f"{VARIABLE}={shell}_complete" in script and "%" not in script.replace("%%", "")[:200]


def test_a_shell_that_asks(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(VARIABLE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "torchlint explain cra")
    monkeypatch.setenv("COMP_CWORD", "2")
    with pytest.raises(SystemExit) as caught:
        main()
    assert (caught.value.code, capsys.readouterr().out) == (0, "plain,crash\n")

"""Mistyped commands, keys and rules: the message names the one that was probably meant, or says why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from torchlint import Rule
from torchlint.cli import cli
from torchlint.cli.check import check
from torchlint.project.config import ONLY_OPTIONS
from torchlint.project.keys import KEYS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Path:
    """The working folder, with one good file; only the rules of the tests exist."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text("good()\n")
    return tmp_path


def torchlint(*arguments: str) -> Result:
    return CliRunner().invoke(cli, (*arguments,))


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("fix",), "neither a command nor a path `fix`; did you mean `torchlint --fix`?"),
        (("chekc",), "neither a command nor a path `chekc`; did you mean `check`?"),
        (("explian", "TL101"), "did you mean `explain`?"),
        (("serve", "--stdio"), "did you mean `server`?"),
        (("verfy", "--", "python"), "did you mean `verify`?"),
        (("src",), "path does not exist: src"),
        (("chekc.py",), "path does not exist: chekc.py"),
        (("--select", "bad-cal"), "unknown rule or category `bad-cal`; did you mean `bad-call`?"),
        (("--select", "XX01"), "`XX01`; did you mean `XX001`?"),
        (("--select", "TL0x"), "`TL0x`; did you mean `TL001`?"),
        (("--select", "bad_call"), "`bad_call`; did you mean `bad-call`?"),
        (("explain", "perf"), "`perf`; did you mean `performance`?"),
        (("--selct", "all"), "--select"),
    ],
)
def test_mistyped_arguments(folder: Path, arguments: tuple[str, ...], meant: str) -> None:
    result = torchlint(*arguments)
    assert result.exit_code == 2
    assert meant in result.stderr


def test_a_path_that_is_nearly_a_command(folder: Path) -> None:
    (folder / "checks").mkdir()
    assert torchlint("checks").exit_code == 0


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("since = 'x'", "since: unknown key; there is only the option --since of the command line"),
        ("output_file = 'x'", "there is only the option --output-file of the command line"),
        ("selct = []", "selct: unknown key; did you mean `select`?"),
        ("per_file_ignores = {}", "did you mean `per-file-ignores`?"),
        ("extend-exclude = []", "did you mean `exclude`?"),
        ("line-length = 120", "unknown key; known are baseline, cache-dir, "),
        ("rules.XX001 = {}", "rules.XX001: unknown key; did you mean `bad-call`?"),
        ("rules.XX = {}", "rules.XX: unknown key: it matches several rules; name each of them"),
        ("rules.correctness = {}", "it matches several rules"),
        ("rules.bad-cal = {}", "did you mean `bad-call`?"),
        ("rules.nonsense = {}", "unknown key; known are bad-call, crash"),
        ("rules.crash.limits = 1", "rules.crash.limits: unknown key; there are none here"),
        ("rules.bad-call.limits = 1", "rules.bad-call.limits: unknown key; did you mean `limit`?"),
    ],
)
def test_mistyped_keys(folder: Path, line: str, meant: str) -> None:
    (folder / "torchlint.toml").write_text(line)
    result = torchlint()
    assert result.exit_code == 2
    assert meant in result.stderr


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("suspicous", "; did you mean `suspicious`?"),
        ("TL09", "; did you mean `TL001`?"),
        ("XX02", "; did you mean `XX002`?"),
        ("bad_call", "; did you mean `bad-call`?"),
        ("nonsense", ""),
    ],
)
def test_mistyped_names_in_comments(folder: Path, name: str, meant: str) -> None:
    (folder / "good.py").write_text(f"x = 1  # torchlint: ignore[{name}]\n")
    (line,) = torchlint("good.py", "--select", "unknown-suppression", "--output-format", "concise").stdout.splitlines()
    assert line.endswith(f" no rule is called `{name}`{meant}")


def test_all_options_that_are_no_keys_are_known() -> None:
    every = [{name.removeprefix("--") for name in option.opts if name.startswith("--")} for option in check.params]
    assert {name for names in every if names.isdisjoint(KEYS) for name in names} == ONLY_OPTIONS

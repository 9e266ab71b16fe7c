"""`--baseline`: what is known is not reported again, wherever it has moved; what is new is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from torchlint import Rule
from torchlint.cli import cli


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("bad()\nx = bad()\n")
    (tmp_path / "b.py").write_text("bad()\n")
    return tmp_path


def torchlint(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin)


def update(*arguments: str) -> Result:
    result = torchlint("--baseline", "known.json", "--update-baseline", *arguments)
    assert result.exit_code == 0, result.output
    return result


def new(*arguments: str) -> list[str]:
    """Places of the findings that the baseline does not hold."""
    result = torchlint("--baseline", "known.json", "--output-format", "concise", *arguments)
    lines = result.stdout.splitlines()
    assert result.exit_code == bool(lines), result.output
    return [line.split(": ")[0] for line in lines]


def entries(file: Path = Path("known.json")) -> list[tuple[str, str]]:
    return [(entry["path"], entry["rule"]) for entry in json.loads(file.read_text())["findings"]]


def test_only_what_is_new_is_reported(folder: Path) -> None:
    assert update().stderr == "Wrote 3 findings to known.json.\n"
    assert new() == []
    (folder / "b.py").write_text("\n\ndef f():\n    bad()\nbad(1)\n")
    assert new() == ["b.py:5:1"]
    update()
    assert new() == []


def test_equal_findings_are_counted(folder: Path) -> None:
    (folder / "b.py").write_text("bad()\nbad()\n")
    update()
    (folder / "b.py").write_text("bad()\nbad()\nbad()\n")
    assert new() == ["b.py:3:1"]
    (folder / "b.py").write_text("bad()\n")
    assert new() == []


def test_the_file_can_be_read_and_merged(folder: Path) -> None:
    update()
    lines = (folder / "known.json").read_text().splitlines()
    assert lines[:3] == ["{", '  "version": 1,', '  "findings": [']
    assert lines[-2:] == ["  ]", "}"]
    assert len(lines) == 3 + 3 + 2
    assert entries() == [("b.py", "bad-call"), ("src/a.py", "bad-call"), ("src/a.py", "bad-call")]
    before = (folder / "known.json").read_bytes()
    update("src", "b.py")
    assert (folder / "known.json").read_bytes() == before
    assert b"\r" not in before


def test_paths_are_relative_to_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "ci").mkdir()
    assert torchlint("--baseline", "ci/known.json", "--update-baseline").exit_code == 0
    assert {path for path, _ in entries(folder / "ci" / "known.json")} == {"../b.py", "../src/a.py"}
    assert torchlint("--baseline", "ci/known.json").exit_code == 0
    monkeypatch.chdir(folder / "src")
    assert torchlint("--baseline", "../ci/known.json", "..").exit_code == 0
    assert torchlint("--baseline", str(folder / "ci" / "known.json"), "a.py", str(folder / "b.py")).exit_code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_paths_through_links_are_the_same(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    update()
    link = tmp_path_factory.mktemp("links") / "project"
    link.symlink_to(folder)
    assert torchlint("--baseline", "known.json", str(link)).exit_code == 0
    assert torchlint("--baseline", str(link / "known.json"), ".").exit_code == 0


def test_what_was_not_linted_is_kept(folder: Path) -> None:
    update()
    (folder / "src" / "a.py").write_text("good()\n")
    (folder / "b.py").write_text("good()\n")
    assert update("b.py").stderr == "Wrote 2 findings to known.json.\n"
    assert entries() == [("src/a.py", "bad-call")] * 2
    update("--ignore", "bad-call")
    assert len(entries()) == 2
    update()
    assert entries() == []
    assert new() == []


def test_what_no_longer_occurs_is_counted(folder: Path) -> None:
    update()
    (folder / "src" / "a.py").write_text("bad()\n")
    say = "1 entry of the baseline no longer occurs; --update-baseline removes it\n"
    assert torchlint("--baseline", "known.json").stderr == say
    assert torchlint("--baseline", "known.json", "--quiet").stderr == ""
    assert torchlint("--baseline", "known.json", "b.py").stderr == ""
    (folder / "src" / "a.py").unlink()
    say = "2 entries of the baseline no longer occur; --update-baseline removes them\n"
    assert torchlint("--baseline", "known.json", "b.py").stderr == say
    update("b.py")
    assert entries() == [("b.py", "bad-call")]


def test_a_file_that_is_broken_for_a_while_keeps_its_entries(folder: Path) -> None:
    update()
    (folder / "src" / "a.py").write_text("bad(\n")
    result = torchlint("--baseline", "known.json", "--output-format", "concise")
    assert result.stdout.startswith("src/a.py:1:4: TL001 syntax-error")
    assert result.stderr == ""
    update()
    assert ("src/a.py", "syntax-error") in entries() and len(entries()) == 4
    assert new() == []
    (folder / "src" / "a.py").write_text("bad()\nx = bad()\n")
    assert new() == []
    update()
    assert len(entries()) == 3


def test_crashes_are_never_known(folder: Path) -> None:
    (folder / "crash.py").write_text("crash()\n")
    for _ in range(2):
        result = torchlint("--baseline", "known.json", "--update-baseline")
        assert result.exit_code == 3
        assert "internal-error" in result.stdout
    assert {path for path, _ in entries()} == {"b.py", "src/a.py"}
    assert torchlint("--baseline", "known.json").exit_code == 3


def test_a_missing_file_says_how_to_make_it(folder: Path) -> None:
    result = torchlint("--baseline", "known.json")
    assert result.exit_code == 2
    assert "there is no baseline known.json; add --update-baseline" in result.stderr
    assert not (folder / "known.json").exists()


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "invalid JSON: Expecting value"),
        ('{\n  "version": 1,\n<<<<<<< HEAD\n', 3, "invalid JSON"),
        ("[]", 1, "there is no `version`"),
        ("{}", 1, "there is no `version`"),
        ('{\n"version": 2, "findings": []}', 2, "version 2 is unknown"),
        ('{\n"version": 1,\n"findings": {}}', 3, "`findings` is not a list"),
        ('{\n"version": 1}', 1, "`findings` is not a list"),
        (
            '{"version": 1, "findings": [\n{"path": "a", "rule": "b", "fingerprint": "c"},\n{"path": "a"}\n]}',
            3,
            "a finding needs `path`, `rule` and `fingerprint`",
        ),
        ('{"version": 1, "findings": [\n\n7]}', 1, "a finding needs"),
        ("[" * 100_000, 1, "nested too deeply"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--update-baseline",)])
def test_broken_files_are_named_with_their_line(
    folder: Path, text: str, line: int, reason: str, options: tuple[str, ...]
) -> None:
    (folder / "known.json").write_text(text)
    result = torchlint("--baseline", "known.json", *options)
    assert result.exit_code == 2
    assert f"known.json:{line}: is not a baseline: " in result.stderr and reason in result.stderr
    assert (folder / "known.json").read_text() == text


def test_bytes_that_are_no_text(folder: Path) -> None:
    (folder / "known.json").write_bytes(b"{\n\n\xff")
    assert "known.json:3: is not a baseline: not UTF-8" in torchlint("--baseline", "known.json").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--update-baseline",),
        ("--baseline", "known.json", "--update-baseline", "--since", "HEAD"),
        ("--baseline", "known.json", "--update-baseline", "--add-ignores"),
        ("--baseline", "known.json", "--update-baseline", "-"),
        ("--baseline", "src"),
        ("--baseline", "no/such/known.json", "--update-baseline"),
    ],
)
def test_wrong_usage(folder: Path, arguments: tuple[str, ...]) -> None:
    assert torchlint(*arguments).exit_code == 2
    assert not (folder / "known.json").exists()


def test_standard_input(folder: Path) -> None:
    update()
    known = ("--baseline", "known.json", "-", "--stdin-filename", "b.py")
    assert torchlint(*known, stdin="\n\nbad()\n").exit_code == 0
    assert torchlint(*known, stdin="bad(1)\n").exit_code == 1


def test_file_names_of_any_kind(folder: Path) -> None:
    (folder / "日 本.py").write_text("bad()\n")
    names = ["日 本.py"]
    if sys.platform == "linux":
        (folder / "caf\udce9.py").write_text("bad()\n")
        names.append("caf\udce9.py")
    update()
    assert "日 本.py" in (folder / "known.json").read_text("utf-8")
    assert {*names} < {path for path, _ in entries()}
    assert new() == []


def test_an_ignore_changes_the_line_of_what_is_known(folder: Path) -> None:
    """Two findings of one line, one of them known: after --add-ignores neither may come back."""
    (folder / "b.py").write_text("bad()  # torchlint: ignore[unheard]\n")
    update()
    both = ("--baseline", "known.json", "--extend-select", "unknown-suppression")
    assert torchlint(*both, "--output-format", "concise").stdout.count("\n") == 1
    assert torchlint(*both, "--add-ignores").exit_code == 0
    assert torchlint(*both).exit_code == 0

"""Fixing files: which fixes are made, until when, and what is said of those that do not work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import libcst as cst
import pytest
from click.testing import CliRunner, Result

from tests.thinning import thinned
from torchlint import Category, Rule, Safety, Selection, SourceFile, lint, testing
from torchlint.cli import cli
from torchlint.engine import registry
from torchlint.engine.fixer import Fixed, fix
from torchlint.syntax import edits

FIXTURES = Path(__file__).parent.parent / "fixtures"


class Renames(Rule):
    """Renames calls, as `names` says: each pair is a name and what takes its place; safe if that is shorter."""

    code = "FIX001"
    category = Category.CORRECTNESS
    names: ClassVar[dict[str, str]] = {"old": "new", "no": "yes"}

    def visit_Call(self, node: cst.Call) -> None:
        name = node.func.value if isinstance(node.func, cst.Name) else ""
        if name in self.names:
            new = self.names[name]
            safety = Safety.SAFE if len(new) <= len(name) else Safety.UNSAFE
            self.report(node, f"`{name}`", fix=edits.Change("rename it", [edits.Replace(node.func, new)], safety))


@pytest.fixture
def renames(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_names(**names: str) -> None:
        monkeypatch.setattr(Renames, "names", names)

    monkeypatch.setattr(registry, "rules", lambda: (Renames,))
    return set_names


def fixed(text: str, *, unsafe: bool = True) -> Fixed:
    return fix(SourceFile("file.py", text.encode()), Selection((Renames,)), unsafe=unsafe)


def test_safe_fixes_only_unless_all_are_asked_for() -> None:
    assert fixed("old()\nno()\n", unsafe=False).source.text == "new()\nno()\n"
    assert fixed("old()\nno()\n").source.text == "new()\nyes()\n"


def test_until_nothing_is_left(renames: Callable[..., None]) -> None:
    renames(a="b", b="c", c="d")
    result = fixed("a()\n")
    assert result.source.text == "d()\n"
    assert [finding.message for finding in result.applied] == ["`a`", "`b`", "`c`"]
    assert [finding.message for finding in result.before] == ["`a`"]
    assert result.findings == ()


def test_fixes_that_touch_each_other_wait_for_the_next_round() -> None:
    assert fixed("old(old(old()))\n").source.text == "new(new(new()))\n"


def test_fixes_that_go_round_in_circles_stop(renames: Callable[..., None]) -> None:
    renames(a="b", b="a")
    result = fixed("a()\n")
    assert result.source.text in ("a()\n", "b()\n")
    assert any("is not stable" in finding.message for finding in result.findings)


@pytest.mark.parametrize(
    ("content", "problem"),
    [("(", "gives code that is not valid Python"), ("bad", "does not remove the finding")],
)
def test_a_fix_that_does_not_work_is_not_made(content: str, problem: str, renames: Callable[..., None]) -> None:
    """The other fixes are."""
    renames(bad=content, old="new")
    result = fixed("old()\nbad()\nold()\n")
    assert result.source.text == "new()\nbad()\nnew()\n"
    errors = [finding for finding in result.findings if finding.name == "internal-error"]
    assert [(error.span.start.line, problem in error.message) for error in errors] == [(2, True)]
    assert len(result.applied) == 2


def test_a_fix_that_gives_no_python_is_offered_nowhere(renames: Callable[..., None]) -> None:
    """The others are, those of the same file and those that touch it included."""
    renames(bad="(", old="new", odd="[", other="good")
    text = "old(bad(old()))\nodd(); other()\n"
    offered = [finding.fix is not None for finding in lint(SourceFile("file.py", text.encode()), Selection((Renames,)))]
    assert offered == [True, False, True, False, True]


def test_fixes_of_a_long_file_are_checked_together(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[SourceFile] = []

    def is_python(source: SourceFile) -> bool:
        parsed.append(source)
        return True

    monkeypatch.setattr("torchlint.syntax.reading.is_python", is_python)
    findings = lint(SourceFile("file.py", b"old()\n" * 500), Selection((Renames,)))
    assert len(findings) == 500
    assert len(parsed) == 1


@pytest.mark.parametrize("output", ["json", "sarif"])
def test_no_format_offers_what_gives_no_python(output: str, folder: Path, renames: Callable[..., None]) -> None:
    renames(old="(", no="yes")
    written = torchlint("--output-format", output, "bad.py").stdout
    assert "`old`" in written
    assert written.count("rename it") == 1


def test_a_suppressed_line_is_left_alone() -> None:
    text = "old()  # torchlint: ignore[renames]\nold()\n"
    assert fixed(text).source.text == "old()  # torchlint: ignore[renames]\nnew()\n"


def test_a_fix_elsewhere_leaves_a_suppressed_line_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Both(Rule):
        """Renames all calls of `old` where there is one of `start`."""

        code = "FIX002"
        category = Category.CORRECTNESS

        def visit_Module(self, node: cst.Module) -> None:
            calls = list(self.tree.of_type(cst.Call))
            renamed = [edits.Replace(call.func, "new") for call in calls if self.tree.code(call.func) == "old"]
            self.report(calls[0], "start", fix=edits.Change("rename", renamed))

    source = SourceFile("file.py", b"start()\nold()\nold()  # torchlint: ignore[both]\n")
    assert fix(source, Selection((Both,)), unsafe=True).source is source


@pytest.mark.parametrize(
    ("encoding", "newline"),
    [
        *[(encoding, newline) for encoding in ("utf-8", "utf-8-sig") for newline in ("\n", "\r\n", "\r")],
        *[(encoding, newline) for encoding in ("latin-1", "cp1252", "shift_jis") for newline in ("\n", "\r\n")],
    ],
)
@pytest.mark.parametrize("last", ["", "\n"])
def test_every_other_byte_stays(encoding: str, newline: str, last: str) -> None:
    letter = "\u30c6" if encoding == "shift_jis" else "\u00e9"
    cookie = "" if encoding.startswith("utf-8") else f"# coding: {encoding}\n"
    text = f"{cookie}x = '{letter}'\nold('{letter}')  # {letter}\n\ny = 1{last}"
    before = text.replace("\n", newline).encode(encoding)
    after = text.replace("old", "new").replace("\n", newline).encode(encoding)
    assert fix(SourceFile("file.py", before), Selection((Renames,))).source.data == after


def test_text_that_would_not_come_back_the_same_is_left_alone() -> None:
    """UTF-7 can write one text in many ways."""
    source = SourceFile("file.py", b"# coding: utf-7\nx = '+AGE-'\nold()\n")
    result = fix(source, Selection((Renames,)))
    assert result.source is source
    assert "cannot be written" in result.findings[-1].message


FIXABLE = [fixture for fixture in testing.fixtures(FIXTURES) if fixture.is_blessed()]


@pytest.mark.parametrize("fixture", thinned(FIXABLE, every=12), ids=lambda fixture: fixture.shown)
def test_what_safe_fixes_leave_is_stable(fixture: testing.Fixture) -> None:
    selection = registry.select()
    once = fix(SourceFile("file.py", fixture.text.encode()), selection)
    if once.applied:
        twice = fix(once.source, selection)
        assert twice.source.data == once.source.data
        assert not twice.applied


# -- the command line -----------------------------------------------------------------------------------

BAD = "old()\nno()\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: Callable[..., None]) -> Path:
    renames(old="new", no="yes")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "clean.py").write_text("print()\n")
    return tmp_path


def torchlint(*arguments: str, input: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, prog_name="torchlint", input=input)


def test_fix_writes_what_is_safe_and_reports_the_rest(folder: Path) -> None:
    result = torchlint("--fix", "--output-format", "concise", ".")
    assert (folder / "bad.py").read_text() == "new()\nno()\n"
    assert result.stdout == "bad.py:2:1: FIX001 renames: `no`\n"
    assert result.stderr == (
        "Fixed 1 finding in 1 file: 1 renames.\n1 finding has an unsafe fix, which --unsafe-fixes applies.\n"
    )
    assert result.exit_code == 1


def test_unsafe_fixes_leave_nothing(folder: Path) -> None:
    result = torchlint("--fix", "--unsafe-fixes", ".")
    assert (folder / "bad.py").read_text() == "new()\nyes()\n"
    assert result.stdout == "No findings in 2 files; 1 file uses PyTorch.\n"
    assert result.exit_code == 0


def test_show_fixes_lists_what_was_fixed_in_each_file(folder: Path) -> None:
    result = torchlint("--show-fixes", ".")
    assert result.stderr.startswith(
        "Fixed 1 finding in 1 file: 1 renames.\n  bad.py: 1 renames\n1 finding has an unsafe fix"
    )


def test_fix_only_lists_nothing(folder: Path) -> None:
    result = torchlint("--fix-only", ".")
    assert (result.stdout, result.exit_code) == ("", 0)
    assert (folder / "bad.py").read_text() == "new()\nno()\n"


@pytest.mark.slow
def test_diff_writes_nothing_and_can_be_applied(folder: Path) -> None:
    (folder / "bad.py").write_text("old()\nno()")
    result = torchlint("--diff", "--unsafe-fixes", ".")
    assert (folder / "bad.py").read_text() == "old()\nno()"
    assert result.exit_code == 1
    assert result.stderr == "Would fix 2 findings in 1 file: 2 renames.\n"
    subprocess.run(["git", "apply", "-p0", "-"], input=result.stdout, text=True, check=True, cwd=folder)
    assert (folder / "bad.py").read_text() == "new()\nyes()"


def test_diff_of_nothing(folder: Path) -> None:
    result = torchlint("--diff", "clean.py")
    assert (result.stdout, result.stderr, result.exit_code) == ("", "Would fix no findings.\n", 0)


@pytest.mark.parametrize("options", [("--fix",), ("--fix-only",), ("--fix", "--fix-only")])
def test_diff_shows_what_fix_would_write(folder: Path, options: tuple[str, ...]) -> None:
    alone, together = torchlint("--diff", "."), torchlint(*options, "--diff", ".")
    assert (folder / "bad.py").read_text() == BAD
    assert "+new()" in together.stdout.splitlines()
    assert (together.stdout, together.stderr, together.exit_code) == (alone.stdout, alone.stderr, 1)


def test_diff_is_no_success_while_unsafe_fixes_are_left(folder: Path) -> None:
    (folder / "bad.py").write_text("no()\nno(1)\n")
    result = torchlint("--diff", ".")
    assert (result.stdout, result.exit_code) == ("", 1)
    assert result.stderr == "Would fix no findings.\n2 findings have unsafe fixes, which --unsafe-fixes shows.\n"
    assert torchlint("--diff", "--exit-zero", ".").exit_code == 0
    quiet = torchlint("--diff", "--quiet", ".")
    assert (quiet.stderr, quiet.exit_code) == ("", 1)
    every = torchlint("--diff", "--unsafe-fixes", ".")
    assert every.stderr == "Would fix 2 findings in 1 file: 2 renames.\n"


def test_diff_counts_only_unsafe_fixes_that_may_be_made(folder: Path) -> None:
    assert "1 finding has an unsafe fix, which" in torchlint("--diff", "bad.py").stderr
    left_out = torchlint("--diff", "--unfixable", "renames", "bad.py")
    assert (left_out.stderr, left_out.exit_code) == ("Would fix no findings.\n", 0)


def test_standard_input_is_fixed_on_its_way(folder: Path) -> None:
    result = torchlint("--fix", "--output-format", "concise", "-", input=BAD)
    assert result.stdout == "new()\nno()\n"
    assert "<stdin>:2:1: FIX001" in result.stderr
    assert torchlint("--fix", "-", input="print()\n").stdout == "print()\n"


def test_standard_input_that_is_excluded_comes_back(folder: Path) -> None:
    (folder / "torchlint.toml").write_text('exclude = ["bad.py"]\nforce-exclude = true\n')
    assert torchlint("--fix", "-", "--stdin-filename", "bad.py", input=BAD).stdout == BAD


def test_unsafe_fixes_of_nothing(folder: Path) -> None:
    assert torchlint("--unsafe-fixes", ".").exit_code == 2


def test_a_fix_that_does_not_work_is_our_fault(folder: Path, renames: Callable[..., None]) -> None:
    renames(old="(")
    result = torchlint("--fix", ".")
    assert result.exit_code == 3
    assert "please report it" in result.stdout
    assert (folder / "bad.py").read_text() == BAD


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="the administrator may write everything")
def test_a_file_that_cannot_be_written_keeps_its_findings(folder: Path) -> None:
    (folder / "bad.py").chmod(0o444)
    result = torchlint("--fix", ".")
    assert "cannot write bad.py" in result.stderr
    assert "`old`" in result.stdout


def test_a_file_that_has_changed_meanwhile_is_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = SourceFile.read

    def read_and_change(path: Path, shown: str | None = None) -> SourceFile:
        source = read(path, shown)
        path.write_text("changed()\n")
        return source

    monkeypatch.setattr(SourceFile, "read", read_and_change)
    result = torchlint("--fix", "bad.py")
    assert (folder / "bad.py").read_text() == "changed()\n"
    assert "has changed" in result.stderr
    assert "`old`" in result.stdout


def test_notebooks_are_fixed_in_their_cells(folder: Path) -> None:
    text = (
        '{"cells": [{"cell_type": "code", "source": ["%%time\\n", "old()\\n", "x"], "outputs": [1.0]}], "nbformat": 4}'
    )
    (folder / "bad.ipynb").write_text(text)
    torchlint("--fix-only", ".")
    assert (folder / "bad.ipynb").read_text() == text.replace("old", "new")


# -- what is new only -----------------------------------------------------------------------------------


def test_only_what_the_baseline_does_not_know_is_fixed(folder: Path) -> None:
    assert torchlint("--baseline", "known.json", "--update-baseline").exit_code == 0
    (folder / "bad.py").write_text(f"old(1)\n{BAD}no(2)\n")
    result = torchlint("--baseline", "known.json", "--fix", "--unsafe-fixes")
    assert (folder / "bad.py").read_text() == f"new(1)\n{BAD}yes(2)\n"
    assert result.stderr == "Fixed 2 findings in 1 file: 2 renames.\n"
    assert (result.exit_code, result.stdout) == (0, "No new findings in 2 files; 1 file uses PyTorch.\n")


def test_what_is_left_of_the_new_is_reported(folder: Path) -> None:
    torchlint("--baseline", "known.json", "--update-baseline")
    (folder / "bad.py").write_text(f"{BAD}old(1)\nno(2)\n")
    (folder / "broken.py").write_text("old(\n")
    result = torchlint("--baseline", "known.json", "--fix", "--output-format", "concise")
    assert (folder / "bad.py").read_text() == f"{BAD}new(1)\nno(2)\n"
    assert [line.split(": ")[0] for line in result.stdout.splitlines()] == ["bad.py:4:1", "broken.py:1:4"]
    shown = torchlint("--baseline", "known.json", "--diff", "--unsafe-fixes")
    assert [line for line in shown.stdout.splitlines() if line[:1] in "+-"] == [
        "--- bad.py",
        "+++ bad.py",
        "-no(2)",
        "+yes(2)",
    ]


def test_a_new_fix_among_equal_lines_leaves_the_known(folder: Path, renames: Callable[..., None]) -> None:
    renames(a="b", b="c")
    (folder / "bad.py").write_text("b()\n")
    torchlint("--baseline", "known.json", "--update-baseline")
    (folder / "bad.py").write_text("b()\na()\n")
    assert torchlint("--baseline", "known.json", "--fix").exit_code == 0
    assert (folder / "bad.py").read_text() == "b()\nc()\n", "what the fix makes is new as well"


def test_standard_input_with_a_baseline(folder: Path) -> None:
    torchlint("--baseline", "known.json", "--update-baseline")
    arguments = ("--baseline", "known.json", "--fix", "-", "--stdin-filename", "bad.py")
    assert torchlint(*arguments, input=f"{BAD}old(1)\n").stdout == f"{BAD}new(1)\n"
    assert torchlint(*arguments, input=BAD).stdout == BAD


@pytest.mark.parametrize("option", ["--add-ignores", "--update-baseline"])
def test_what_is_written_after_fixes(folder: Path, option: str) -> None:
    result = torchlint("--fix", option, "--baseline", "known.json")
    assert result.exit_code == 2 and f"{option} stores the findings that fixes leave" in result.stderr

"""The flat JSON formats: an array, or a line, of objects with the same keys for each finding."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.notebooks import markdown, notebook
from tests.test_outputs import fixable, linted
from tests.test_reports import hostile
from torchlint import Position, Rule, Safety, Severity, SourceFile, Span
from torchlint.cli import cli
from torchlint.finding import HAPPENS_HERE, Elsewhere
from torchlint.outputs import Style, render
from torchlint.results import LintedFile, Outcome

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "ci.md"


def flat(*files: LintedFile) -> list[dict[str, Any]]:
    """The content of both formats, which is the same."""
    outcome = Outcome(files, len(files))
    array = json.loads(render("json-flat", outcome, Style()))
    assert [json.loads(line) for line in render("json-lines", outcome, Style()).splitlines()] == array
    return list(array)


def test_a_finding_is_one_flat_object(bad_call: type[Rule]) -> None:
    (found,) = flat(linted("import os\nx = '日🙂', bad(\n  1)\n", bad_call, "src/a b.py"))
    assert found == {
        "path": "src/a b.py",
        "cell": None,
        "line": 2,
        "column": 11,
        "end_line": 3,
        "end_column": 5,
        "rule": "bad-call",
        "code": "XX001",
        "severity": "error",
        "message": "`bad` is bad",
        "help": "call `good`",
        "fix": None,
    }


def test_all_objects_have_the_keys_of_the_guide(bad_call: type[Rule]) -> None:
    table = GUIDE.read_text("utf-8").partition("### Flat JSON")[2].partition("\n## ")[0]
    rows = [row.split(" | ")[0] for row in table.splitlines() if row.startswith("| `")]
    documented = [key for cell in rows for key in cell.split("`")[1::2]]
    files = (linted("bad()\n", bad_call), linted("a\0", bad_call), linted("x y\nbad()", bad_call), fixable())
    for item in flat(*files):
        assert list(item) == documented
        assert not any(isinstance(value, dict | list) for value in item.values())


def test_the_place_in_a_notebook_is_in_its_cell(bad_call: type[Rule]) -> None:
    (found,) = flat(linted(notebook(markdown("# x"), "import os\nbad()\n", "y"), bad_call, "a.ipynb"))
    assert (found["cell"], found["line"], found["column"]) == (2, 2, 1)
    assert (found["end_line"], found["end_column"]) == (2, 6)


def test_a_fix_is_safe_or_unsafe(bad_call: type[Rule]) -> None:
    file = fixable()
    (finding,) = file.findings
    assert finding.fix is not None
    safe = replace(file, findings=(replace(finding, fix=replace(finding.fix, safety=Safety.SAFE)),))
    assert [item["fix"] for item in flat(file, safe, linted("bad()\n", bad_call))] == ["unsafe", "safe", None]


@pytest.mark.parametrize("severity", Severity)
def test_severities_have_their_names(bad_call: type[Rule], severity: Severity) -> None:
    file = linted("bad()\n", bad_call)
    changed = replace(file, findings=tuple(replace(item, severity=severity) for item in file.findings))
    assert [item["severity"] for item in flat(changed)] == [severity.value]


def test_a_place_in_another_file_is_in_the_message(bad_call: type[Rule]) -> None:
    file = linted("bad()\n", bad_call)
    span = Span(Position(7, 4), Position(7, 9))
    there = Elsewhere("b.py", span, span, HAPPENS_HERE)
    changed = replace(file, findings=tuple(replace(item, elsewhere=(there,)) for item in file.findings))
    assert [item["message"] for item in flat(changed)] == ["`bad` is bad (b.py:7:5)"]


def test_what_has_no_place_is_at_the_beginning(bad_call: type[Rule]) -> None:
    (found,) = flat(linted("a\0", bad_call))
    assert (found["rule"], found["line"], found["column"], found["help"]) == ("unreadable-file", 1, 1, "")


def test_both_formats_are_ascii_without_lone_surrogates() -> None:
    for form in ("json-flat", "json-lines"):
        text = render(form, hostile(), Style())
        assert text.isascii() and "\\ud" not in text.replace("\\ud83d\\ude42", "").lower()
    assert len(render("json-lines", hostile(), Style()).splitlines()) == 2


def test_nothing_found_is_an_empty_array_or_no_line() -> None:
    assert json.loads(render("json-flat", Outcome((), 3), Style())) == []
    assert render("json-lines", Outcome((), 3), Style()) == ""


def test_paths_have_forward_slashes(bad_call: type[Rule], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sep", "\\")
    (found,) = flat(LintedFile(SourceFile("src\\a.py", b""), linted("bad()\n", bad_call).findings))
    assert found["path"] == "src/a.py"


def test_the_command_line_writes_them(bad_call: type[Rule], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    for name in ("b.py", "a.py"):
        (tmp_path / "src" / name).write_text("bad()\nbad()\n")
    result = CliRunner().invoke(cli, ["--output-format", "json-lines", "src"])
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(item["path"], item["line"]) for item in found] == [
        (f"src/{name}.py", line) for name in "ab" for line in (1, 2)
    ]
    assert result.exit_code == 1
    refused = CliRunner().invoke(cli, ["--output-format", "json-flat", "--statistics", "src"])
    assert refused.exit_code == 2 and "--statistics" in refused.stderr

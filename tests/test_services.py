"""Formats that services read: Azure's commands, reviewdog's diagnostics, and lines as those of pylint."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks import notebook
from tests.test_outputs import fixable
from tests.test_reports import hostile, linted
from torchlint import Rule, Severity
from torchlint.outputs import Style, render
from torchlint.results import LintedFile, Outcome

_AZURE = re.compile(r"##vso\[task\.logissue ((?:[a-z]+=[^;\]]*;)+)\](.*)")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def azure(outcome: Outcome) -> list[tuple[dict[str, str], str]]:
    """The properties and the message of each command, read as the agent reads them."""
    found = []
    for line in render("azure", outcome, Style()).splitlines():
        match = _AZURE.fullmatch(line)
        assert match, line
        pairs = [item.split("=", 1) for item in match[1].removesuffix(";").split(";")]
        found.append(({key: _unescaped(value) for key, value in pairs}, _unescaped(match[2])))
    return found


def _unescaped(text: str) -> str:
    for code, char in (("%3B", ";"), ("%5D", "]"), ("%0D", "\r"), ("%0A", "\n"), ("%AZP25", "%")):
        text = text.replace(code, char)
    return text


def test_azure(bad_call: type[Rule]) -> None:
    ((properties, message),) = azure(Outcome((linted("\nx = bad()\n", bad_call, "a];%25.py"),), 1))
    place = {"sourcepath": "a];%25.py", "linenumber": "2", "columnnumber": "5"}
    assert properties == {"type": "error", **place, "code": "XX001"}
    assert message == "bad-call: `bad` is bad"


def test_azure_has_errors_and_warnings_only(bad_call: type[Rule]) -> None:
    file = linted("bad()\n", bad_call)
    for severity in Severity:
        changed = replace(file, findings=tuple(replace(item, severity=severity) for item in file.findings))
        ((properties, _),) = azure(Outcome((changed,), 1))
        assert properties["type"] == ("error" if severity is Severity.ERROR else "warning")


def test_azure_obeys_no_file() -> None:
    assert len(azure(hostile())) == 2
    assert azure(Outcome((), 1)) == []


def test_pylint(bad_call: type[Rule]) -> None:
    text = render("pylint", Outcome((linted("\nx = bad()\n", bad_call, "dir/a.py"),), 1), Style())
    assert text == "dir/a.py:2: [XX001(bad-call), ] `bad` is bad\n"
    parseable = re.compile(r"^(.+?):(\d+): \[(\w+)\(([\w-]+)\), .*?\] (.+)$")
    assert all(parseable.match(line) for line in render("pylint", hostile(), Style()).splitlines())


def rdjson(*files: LintedFile) -> list[dict[str, Any]]:
    report = json.loads(render("rdjson", Outcome(files, len(files)), Style()))
    assert report["source"]["name"] == "torchlint"
    diagnostics: list[dict[str, Any]] = report["diagnostics"]
    return diagnostics


def test_rdjson(bad_call: type[Rule]) -> None:
    (found,) = rdjson(linted("import os\nx = '日🙂é', bad()\n", bad_call, "src/a b.py"))
    before = len("x = '日🙂é', ".encode())
    assert found["location"] == {
        "path": "src/a b.py",
        "range": {"start": {"line": 2, "column": before + 1}, "end": {"line": 2, "column": before + 6}},
    }
    assert (found["severity"], found["code"]) == ("ERROR", {"value": "XX001"})
    assert found["message"] == "bad-call: `bad` is bad (call `good`)"
    (related,) = found["related_locations"]
    assert related["message"] == "the file begins here" and related["location"]["range"]["start"]["line"] == 1


def test_rdjson_holds_the_fix() -> None:
    (found,) = rdjson(fixable())
    before = len("'🙂', ".encode())
    place = {"start": {"line": 2, "column": before + 1}, "end": {"line": 2, "column": before + 6}}
    assert found["suggestions"] == [
        {"range": {"start": {"line": 2, "column": 1}, "end": {"line": 2, "column": 1}}, "text": "y\r\n"},
        {"range": place, "text": "good()"},
    ]


def test_a_notebook_has_lines_of_its_file_only(bad_call: type[Rule]) -> None:
    text = notebook("import os", "\nbad()")
    file = linted(text, bad_call, "a.ipynb")
    (found,) = rdjson(file)
    line = found["location"]["range"]["start"]["line"]
    assert "bad()" in text.splitlines()[line - 1] and found["location"]["range"] == {"start": {"line": line}}
    assert "cell 2, line 2" in found["message"]
    ((properties, message),) = azure(Outcome((file,), 1))
    assert properties["linenumber"] == str(line) and "columnnumber" not in properties and "cell 2" in message


def test_what_cannot_be_read(bad_call: type[Rule]) -> None:
    file = linted("a\0b", bad_call)
    for form in ("azure", "rdjson", "pylint"):
        assert "NUL" in render(form, Outcome((file,), 1), Style())
    assert "\\ud" not in render("rdjson", hostile(), Style())

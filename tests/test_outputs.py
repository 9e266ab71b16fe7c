"""The output formats, each read back by what it is made for."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import converters, types
from sarif import loader

from torchlint import Finding, Position, Rule, Selection, Severity, SourceFile, Span, lint
from torchlint.engine import registry
from torchlint.engine.rule_table import loaded
from torchlint.finding import Edit, Fix, Related, Safety
from torchlint.outputs import Style, render
from torchlint.results import LintedFile, Outcome

SCHEMA = os.environ.get("SARIF_SCHEMA")
LINES = {
    "ascii": ("x = bad(1)\n", 4, 10),
    "emoji": ("x = '🙂é', bad(1)\n", 11, 17),
    "tabs": ("if 1:\n\tx =\tbad(1)\n", 5, 11),
    "wide": ("x = '日本', bad(1)\n", 10, 16),
    "crlf": ("y = 1\r\n\r\nx = '🙂' + bad(1)\r\n", 11, 17),
    "cr": ("y = 1\rbad(1)\r", 0, 6),
    "bom": ("\ufeffbad(1)\n", 0, 6),
    "form feed": ("\x0cbad(1)\n", 1, 7),
    "form feeds": ("if 1:\n    x\n\x0c    y\n\x0c\x0cx = '\x0c', bad(1)\n", 11, 17),
}
"""Sources, and where the call is in UTF-16 columns."""


def linted(text: str, rule: type[Rule], path: str = "a.py") -> LintedFile:
    source = SourceFile(path, text.encode())
    return LintedFile(source, tuple(lint(source, Selection((rule,)))))


def outcome(*files: LintedFile, total: int = 1) -> Outcome:
    return Outcome(tuple(file for file in files if file.findings), total, registry.metas())


def published(text: str) -> list[types.PublishDiagnosticsParams]:
    """The output as a language client reads it."""
    converter = converters.get_converter()
    return [converter.structure(item, types.PublishDiagnosticsParams) for item in json.loads(text)]


@pytest.mark.parametrize("name", LINES)
def test_json_ranges_are_those_of_the_protocol(bad_call: type[Rule], name: str) -> None:
    text, start, end = LINES[name]
    (file,) = published(render("json", outcome(linted(text, bad_call)), Style()))
    (diagnostic,) = file.diagnostics
    assert diagnostic.range.start.character == start
    assert diagnostic.range.end == types.Position(diagnostic.range.start.line, end)
    document = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    units = document[diagnostic.range.start.line].encode("utf-16-le")
    assert units[2 * start : 2 * end].decode("utf-16-le") == "bad(1)"


def test_json_says_all_there_is(bad_call: type[Rule]) -> None:
    path = str(Path.cwd() / "ö ä#?.py")
    (file,) = published(render("json", outcome(linted("import os\nbad()\n", bad_call, path)), Style()))
    assert file.uri == Path(path).as_uri()
    assert file.uri.endswith("/%C3%B6%20%C3%A4%23%3F.py")
    (diagnostic,) = file.diagnostics
    assert diagnostic.severity == types.DiagnosticSeverity.Error
    assert (diagnostic.code, diagnostic.source, diagnostic.message) == ("XX001", "torchlint", "`bad` is bad")
    assert diagnostic.related_information
    (related,) = diagnostic.related_information
    assert related.location.uri == file.uri
    assert related.message == "the file begins here"
    data: Any = diagnostic.data
    assert data["name"] == "bad-call" and data["confidence"] == "high" and data["help"] == "call `good`"
    assert len(data["fingerprint"]) == 32


def fixable(path: str = "a.py", text: str = "x\r\n'🙂', bad()\r\n") -> LintedFile:
    """A finding on the second line whose fix inserts a line before it and replaces the call."""
    insertion = Edit(Span(Position(2, 0), Position(2, 0)), "y\r\n")
    call = Span(Position(2, 5), Position(2, 10))
    fix = Fix("call `good`", (insertion, Edit(call, "good()")), Safety.UNSAFE)
    finding = Finding(path, "bad-call", "XX001", "m", call, Severity.ERROR, fix=fix)
    return LintedFile(SourceFile(path, text.encode()), (finding,))


def test_json_holds_the_fix_as_the_protocol_edits() -> None:
    (file,) = published(render("json", Outcome((fixable(),), 1), Style()))
    data: Any = file.diagnostics[0].data
    edit = converters.get_converter().structure(data["fix"].pop("edit"), types.WorkspaceEdit)
    assert data["fix"] == {"title": "call `good`", "safety": "unsafe"}
    assert edit.changes
    assert list(edit.changes[file.uri]) == [
        types.TextEdit(types.Range(types.Position(1, 0), types.Position(1, 0)), "y\r\n"),
        types.TextEdit(types.Range(types.Position(1, 6), types.Position(1, 11)), "good()"),
    ]


def test_sarif_holds_the_fix() -> None:
    (run,) = sarif(Outcome((fixable(),), 1))["runs"]
    (fix,) = run["results"][0]["fixes"]
    assert fix["description"]["text"] == "call `good` (unsafe)"
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"] == {"uri": "a.py", "uriBaseId": "%SRCROOT%"}
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": 1},
            "insertedContent": {"text": "y\r\n"},
        },
        {
            "deletedRegion": {"startLine": 2, "startColumn": 7, "endLine": 2, "endColumn": 12},
            "insertedContent": {"text": "good()"},
        },
    ]


def test_sarif_holds_no_fix_of_a_notebook() -> None:
    text = '{"cells": [{"cell_type": "code", "source": "x\\nx, y, bad()"}]}'
    (run,) = sarif(Outcome((fixable("a.ipynb", text),), 1))["runs"]
    assert "fixes" not in run["results"][0]


def test_json_links_to_the_documentation() -> None:
    place = Span(Position(1, 0), Position(1, 1))
    finding = Finding("a.py", "missing-zero-grad", "TL101", "m", place, Severity.HINT)
    text = render("json", Outcome((LintedFile(SourceFile("a.py", b"x"), (finding,)),), 1), Style())
    (diagnostic,) = published(text)[0].diagnostics
    assert diagnostic.severity == types.DiagnosticSeverity.Hint
    assert diagnostic.code_description
    assert diagnostic.code_description.href.endswith("/rules/missing-zero-grad/")


def test_json_of_nothing_is_an_empty_array() -> None:
    assert json.loads(render("json", Outcome((), 3), Style())) == []


def test_fingerprints_survive_moved_lines(bad_call: type[Rule]) -> None:
    before = linted("bad(1)\nbad(2)\nbad(2)\n", bad_call).findings
    after = linted("import os\n\nif x:\n    bad(1)\nbad(2)\nbad(2)\n", bad_call).findings
    assert [item.fingerprint for item in before] == [item.fingerprint for item in after]
    assert len({item.fingerprint for item in before}) == 3


def sarif(files: Outcome) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(render("sarif", files, Style()))
    return log


@pytest.mark.parametrize("name", LINES)
def test_sarif_regions(bad_call: type[Rule], name: str) -> None:
    text, start, end = LINES[name]
    (run,) = sarif(outcome(linted(text, bad_call)))["runs"]
    region = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert run["columnKind"] == "utf16CodeUnits"
    assert (region["startColumn"], region["endColumn"]) == (start + 1, end + 1)


def test_sarif_is_read_by_others(bad_call: type[Rule], tmp_path: Path) -> None:
    path = tmp_path / "found.sarif"
    file = linted("import os\nbad()\n\nbad()\n", bad_call, "src/a b.py")
    path.write_text(render("sarif", outcome(file), Style()), encoding="utf-8")
    read = loader.load_sarif_file(str(path))
    assert read.get_distinct_tool_names() == ["torchlint"]
    assert read.get_result_count() == 2
    records = read.get_records()
    assert [(item["Location"], item["Line"], item["Severity"]) for item in records] == [
        ("src/a%20b.py", 2, "error"),
        ("src/a%20b.py", 4, "error"),
    ]
    assert records[0]["Code"] == "XX001"


def test_sarif_describes_the_rules(bad_call: type[Rule]) -> None:
    (run,) = sarif(outcome(linted("bad()\n", bad_call)))["runs"]
    (result,) = run["results"]
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert (rule["id"], rule["name"]) == ("XX001", "bad-call") == (result["ruleId"], "bad-call")
    assert rule["shortDescription"]["text"] == "A call of `bad`."
    assert rule["help"]["markdown"].startswith("# bad-call (XX001)\n")
    assert rule["defaultConfiguration"] == {"enabled": True, "level": "error"}
    assert result["partialFingerprints"]["torchlint/v1"]
    assert result["relatedLocations"][0]["message"]["text"] == "the file begins here"


def test_sarif_keeps_crashes_apart(bad_call: type[Rule]) -> None:
    crash = loaded(registry.rules()[1])
    (run,) = sarif(outcome(linted("crash()\n", crash)))["runs"]
    (invocation,) = run["invocations"]
    assert run["results"] == [] and invocation["executionSuccessful"] is False
    assert "no reason" in invocation["toolExecutionNotifications"][0]["message"]["text"]


@pytest.mark.skipif(SCHEMA is None, reason="SARIF_SCHEMA names no schema to validate against")
def test_sarif_is_valid(bad_call: type[Rule]) -> None:
    from jsonschema import Draft7Validator, FormatChecker  # type: ignore[import-untyped,unused-ignore]

    assert SCHEMA is not None
    validator = Draft7Validator(json.loads(Path(SCHEMA).read_bytes()), format_checker=FormatChecker())
    crash = loaded(registry.rules()[1])
    unreadable = linted("a\0b", bad_call, "/elsewhere/\udcff.py")
    files = [linted(text, bad_call) for text, *_ in LINES.values()]
    files += [linted("crash()", crash), unreadable, fixable()]
    assert list(validator.iter_errors(sarif(outcome(*files)))) == []
    assert list(validator.iter_errors(sarif(outcome()))) == []


def test_github_commands_are_escaped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    place = Span(Position(2, 0), Position(2, 3))
    finding = Finding("x", "some-rule", "TL999", "100%\r\nor: so, not", place, Severity.INFORMATION, help="a\nb")
    source = SourceFile(str(tmp_path / "a,b:c%.py"), b"")
    assert render("github", Outcome((LintedFile(source, (finding,)),), 1), Style()) == (
        "::notice title=TL999 some-rule,file=a%2Cb%3Ac%25.py,line=2,col=1,endLine=2,endColumn=4"
        "::100%25%0D%0Aor: so, not%0Ahelp: a%0Ab\n"
    )


def test_concise(bad_call: type[Rule]) -> None:
    text = render("concise", outcome(linted("\nx = bad()\n", bad_call, "a\nb.py")), Style())
    assert text == "a\\nb.py:2:5: XX001 bad-call: `bad` is bad\n"


def test_statistics(bad_call: type[Rule]) -> None:
    files = [linted("bad();bad()", bad_call), linted("bad()", bad_call, "b.py"), linted("a\0", bad_call)]
    assert render("statistics", outcome(*files), Style()) == (
        "     3  XX001  bad-call         in 2 files\n     1  TL002  unreadable-file  in 1 file\n"
    )


def test_text(bad_call: type[Rule]) -> None:
    text = render("text", outcome(linted("import os\n\n\nx = bad()\n", bad_call), total=3), Style())
    assert (
        text
        == """\
a.py:4:5: error XX001 bad-call: `bad` is bad
  |
1 | import os
  | --------- the file begins here
...
4 | x = bad()
  |     ^^^^^
  help: call `good`

1 finding (1 error) in 1 of 3 files.
"""
    )


def test_text_of_nothing() -> None:
    assert render("text", Outcome((), 2), Style()) == "No findings in 2 files.\n"
    assert render("text", Outcome((), 2), Style(summary=False)) == ""
    assert render("text", Outcome((), 0), Style()) == ""


def underlined(text: str, rule: type[Rule]) -> list[tuple[str, str]]:
    """The lines of source in the output of `text`, each with what stands below it."""
    lines = render("text", outcome(linted(text, rule)), Style(summary=False)).splitlines()
    bodies = [line.partition("|")[2].removeprefix(" ") for line in lines if "|" in line[:6]]
    return [(above, below) for above, below in pairwise(bodies) if "^" in below]


@pytest.mark.parametrize(
    ("text", "shown", "marks"),
    [
        ("x\nif 1:\n\ty,\tbad(1)\n", "    y,  bad(1)", "        ^^^^^^"),
        ("x\n'🙂', bad(1)\n", "'🙂', bad(1)", "      ^^^^^^"),
        ("x\n'日本', bad('語')\n", "'日本', bad('語')", "        ^^^^^^^^^"),
        ("x\n'e\u0301', bad(1)\n", "'e\u0301', bad(1)", "     ^^^^^^"),
        ("x\n'\x1b[1m', bad(1)\n", "'\ufffd[1m', bad(1)", "        ^^^^^^"),
        ("x\nbad(\n  1)\n", "bad(", "^^^^"),
    ],
)
def test_underlines_are_straight(bad_call: type[Rule], text: str, shown: str, marks: str) -> None:
    assert underlined(text, bad_call) == [(shown, marks)]


@pytest.mark.parametrize("before", [0, 10, 60, 95, 300])
@pytest.mark.parametrize("after", [0, 10, 300])
def test_long_lines_are_cut_around_the_place(bad_call: type[Rule], before: int, after: int) -> None:
    ((shown, marks),) = underlined(f"x\n'{'a' * before}', bad(12), '{'z' * after}'\n", bad_call)
    start = marks.index("^")
    assert shown[start : start + len(marks.strip())] == "bad(12)"
    assert len(shown) <= 102
    assert shown.startswith("…") == (before > 60)


def test_a_line_is_cut_no_more_than_needed(bad_call: type[Rule]) -> None:
    ((shown, _),) = underlined(f"x\n'{'a' * 91}', bad(1)\n", bad_call)
    assert shown == f"…{'a' * 91}', bad(1)"


def test_text_never_fails_on_strange_places() -> None:
    source = SourceFile("a.py", "é\n\t\n".encode())
    for start in range(4):
        for end in range(start, 5):
            for line in (1, 2, 3, 9):
                place = Span(Position(line, start), Position(line, end))
                finding = Finding("a.py", "r", "TL999", "m", place, Severity.ERROR, related=(Related(place, "x"),))
                assert render("text", Outcome((LintedFile(source, (finding,)),), 1), Style())


def test_colours_are_only_added(bad_call: type[Rule]) -> None:
    import click

    found = outcome(linted("import os\nbad()\n", bad_call))
    for name in ("text", "concise"):
        coloured = render(name, found, Style(colour=True))
        assert "\x1b[" in coloured
        assert click.unstyle(coloured) == render(name, found, Style())

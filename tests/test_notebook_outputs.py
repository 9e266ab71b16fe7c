"""A notebook in every output format: people are shown cells and lines, services the lines of the JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.notebooks import markdown, notebook
from torchlint import Rule, Selection, SourceFile, lint
from torchlint.engine import registry
from torchlint.finding import Position, Span
from torchlint.outputs import Style, render
from torchlint.results import LintedFile, Outcome

NOTEBOOK = notebook(markdown("# bad()"), "import os\n", "%time\n\nx = '🙂', bad(1)", "bad(2)\nbad(3)")


def outcome(text: str, rule: type[Rule]) -> Outcome:
    source = SourceFile("a.ipynb", text.encode())
    return Outcome((LintedFile(source, tuple(lint(source, Selection((rule,))))),), 1, registry.metas())


def test_concise_names_cell_and_line(bad_call: type[Rule]) -> None:
    assert render("concise", outcome(NOTEBOOK, bad_call), Style()).splitlines() == [
        "a.ipynb:cell 3:3:10: XX001 bad-call: `bad` is bad",
        "a.ipynb:cell 4:1:1: XX001 bad-call: `bad` is bad",
        "a.ipynb:cell 4:2:1: XX001 bad-call: `bad` is bad",
    ]


def test_text_counts_lines_in_their_cells(bad_call: type[Rule]) -> None:
    text = render("text", outcome(NOTEBOOK, bad_call), Style())
    assert text.startswith(
        """\
a.ipynb:cell 3:3:10: error XX001 bad-call: `bad` is bad
  | cell 2
1 | import os
  | --------- the file begins here
  | cell 3
3 | x = '🙂', bad(1)
  |           ^^^^^^
  help: call `good`

a.ipynb:cell 4:1:1: error XX001 bad-call: `bad` is bad
"""
    )


def test_text_says_nothing_of_cells_where_there_is_one(bad_call: type[Rule]) -> None:
    text = render("text", outcome(notebook(markdown("x"), "x = 1\n\nbad()"), bad_call), Style())
    assert text.splitlines()[1:7] == [
        "  |",
        "1 | x = 1",
        "  | ----- the file begins here",
        "...",
        "3 | bad()",
        "  | ^^^^^",
    ]


def test_json_has_an_entry_for_each_cell(bad_call: type[Rule]) -> None:
    entries = json.loads(render("json", outcome(NOTEBOOK, bad_call), Style()))
    uri = Path("a.ipynb").absolute().as_uri()
    assert [(entry["uri"], len(entry["diagnostics"])) for entry in entries] == [
        (f"{uri}#cell3", 1),
        (f"{uri}#cell4", 2),
    ]
    (diagnostic,) = entries[0]["diagnostics"]
    assert diagnostic["range"] == {"start": {"line": 2, "character": 10}, "end": {"line": 2, "character": 16}}
    (related,) = diagnostic["relatedInformation"]
    assert related["location"]["uri"] == f"{uri}#cell2"
    assert related["location"]["range"]["start"] == {"line": 0, "character": 0}


def test_services_are_shown_lines_of_the_file(bad_call: type[Rule]) -> None:
    found = outcome(NOTEBOOK, bad_call)
    line = next(number for number, text in enumerate(NOTEBOOK.splitlines(), 1) if "bad(1)" in text)
    command = render("github", found, Style()).splitlines()[0]
    assert command == (
        f"::error title=XX001 bad-call,file=a.ipynb,line={line}::cell 3, line 3: `bad` is bad%0Ahelp: call `good`"
    )
    result = json.loads(render("sarif", found, Style()))["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": line}
    assert result["message"]["text"] == "cell 3, line 3: `bad` is bad\ncall `good`"
    (related,) = result["relatedLocations"]
    assert related["message"]["text"] == "cell 2, line 1: the file begins here"
    first = next(number for number, text in enumerate(NOTEBOOK.splitlines(), 1) if "import os" in text)
    assert related["physicalLocation"]["region"] == {"startLine": first}


@pytest.mark.parametrize("form", ["text", "concise", "json", "sarif", "github", "gitlab", "junit", "html"])
def test_a_broken_notebook_has_no_cells(bad_call: type[Rule], form: str) -> None:
    text = render(form, outcome('{"cells": [\n\n}', bad_call), Style())
    assert "is not a notebook: invalid JSON" in text
    assert not re.search(r"cell ?\d", text)
    assert {"text": "a.ipynb:3:1:", "concise": "a.ipynb:3:1:", "github": "line=3::"}.get(form, "3") in text


def test_a_span_ends_with_its_cell() -> None:
    source = SourceFile("a.ipynb", notebook("x = 1\ny", "z").encode())
    start, end = source.places(Span(Position(1, 0), Position(3, 1)))
    assert (start.line, start.column, start.cell) == (1, 0, 1)
    assert (end.line, end.column, end.cell) == (3, 0, 1)

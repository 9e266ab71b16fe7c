"""Notebooks: which cells are read, as one program; what is wrong with them; and fixes that touch nothing else."""

from __future__ import annotations

import json
from typing import Any

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.notebooks import code, document, markdown, notebook
from torchlint import Category, Finding, Rule, Safety, Selection, SourceFile, lint
from torchlint.engine.fixer import fix
from torchlint.finding import Position
from torchlint.outputs import FORMATS, Style, render
from torchlint.results import LintedFile, Outcome
from torchlint.syntax import edits


class Renames(Rule):
    """Renames calls of `old`, and removes statements that call `gone`."""

    code = "FIX001"
    category = Category.CORRECTNESS

    def visit_Call(self, node: cst.Call) -> None:
        name = node.func.value if isinstance(node.func, cst.Name) else ""
        if name == "old":
            self.report(node, "`old`", fix=edits.Change("rename", [edits.Replace(node.func, "new")], Safety.SAFE))
        if name == "gone":
            self.report(node, "`gone`", fix=edits.Change("delete", [edits.Delete(node)], Safety.SAFE))


def source_of(text: str | bytes) -> SourceFile:
    return SourceFile("a.ipynb", text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)


def linted(text: str, rule: type[Rule], *checks: str) -> list[Finding]:
    return lint(source_of(text), Selection((rule,), frozenset(checks) or Selection((rule,)).checks))


def places(text: str, findings: list[Finding]) -> list[tuple[int | None, int, int]]:
    """Cell, line and column of findings, all from 1."""
    source = source_of(text)
    shown = [source.place(finding.span.start) for finding in findings]
    return [(place.cell, place.line, place.column + 1) for place in shown]


def found(text: str, rule: type[Rule]) -> list[tuple[int | None, int, int]]:
    return places(text, linted(text, rule))


# -- which cells are read -------------------------------------------------------------------------------


def test_cells_are_one_program_in_their_order(bad_call: type[Rule]) -> None:
    text = notebook("import os", markdown("bad()"), "x = 1\n", "", "\n\n", "bad()")
    assert source_of(text).text == "import os\nx = 1\n\n\nbad()\n"
    (finding,) = linted(text, bad_call)
    assert places(text, [finding]) == [(6, 1, 1)]
    assert source_of(text).place(finding.related[0].span.start).cell == 1


def test_every_line_is_found_in_its_cell_and_in_the_file() -> None:
    text = notebook("a1\na2", markdown("m"), "b1\n", "c1\n\nc3")
    source = source_of(text)
    lines = text.splitlines()
    for number, line in enumerate(source.lines, 1):
        place = source.place(Position(number, 0))
        if line:
            assert place.cell == {"a": 1, "b": 3, "c": 4}[line[0]]
            assert place.line == int(line[1])
            assert f'"{line}' in lines[source.file_line(number) - 1]


@pytest.mark.parametrize(
    "source",
    ["x = 1\nbad()", ["x = 1\n", "bad()"], ["x = 1\nbad()"], ["x = 1", "\nbad()"], ["x =", " 1\n", "", "bad", "()"]],
)
def test_a_source_is_text_or_a_list_of_any_pieces(bad_call: type[Rule], source: str | list[str]) -> None:
    cell = {**code(""), "source": source}
    assert found(notebook(cell), bad_call) == [(1, 2, 1)]


def test_lines_of_text_that_is_one_json_string() -> None:
    text = json.dumps({"cells": [code("x"), {**code(""), "source": "y\nz"}]})
    assert [source_of(text).file_line(line) for line in (1, 2, 3)] == [1, 1, 1]


def test_format_3(bad_call: type[Rule]) -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "heading", "level": 1, "source": "bad()"},
        {"cell_type": "code", "language": "python", "input": ["x = 1\n", "bad()"], "outputs": []},
        {"cell_type": "code", "language": "julia", "input": "bad("},
    ]
    text = json.dumps(
        {"metadata": {}, "nbformat": 3, "worksheets": [{"cells": cells}, {"cells": cells[1:2]}]}, indent=1
    )
    assert found(text, bad_call) == [(2, 2, 1), (4, 2, 1)]
    lines = text.splitlines()
    assert ["bad()" in lines[source_of(text).file_line(line) - 1] for line in (2, 4)] == [True, True]


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"language": "R", "name": "ir"}},
        {"kernelspec": {"language": "julia", "name": "julia-1.9"}},
        {"language_info": {"name": "R"}},
        {"language_info": {"name": "scala"}, "kernelspec": {"name": "x"}},
    ],
)
def test_other_languages_are_not_read(bad_call: type[Rule], metadata: dict[str, Any]) -> None:
    assert found(notebook("bad( <- 1", "bad()", **metadata), bad_call) == []


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"kernelspec": {"name": "python3"}},
        {"language_info": {"name": "python", "version": "3"}, "kernelspec": {"language": "python"}},
        {"language_info": {"name": "ipython"}},
        {"kernelspec": None, "language_info": []},
    ],
)
def test_python_is_read_also_if_nothing_says_that_it_is(bad_call: type[Rule], metadata: dict[str, Any]) -> None:
    assert found(notebook("bad()", **metadata), bad_call) == [(1, 1, 1)]


@pytest.mark.parametrize(
    "text",
    [notebook(), notebook(""), notebook(markdown("bad()")), '{"cells": []}', '{"worksheets": []}', notebook(*[""] * 3)],
)
def test_empty_notebooks(bad_call: type[Rule], text: str) -> None:
    assert found(text, bad_call) == []


def test_magics_change_no_place(bad_call: type[Rule]) -> None:
    text = notebook(
        "%matplotlib inline\nbad()",
        "%time bad()\n!pip install x\nx = !ls bad()\n?bad\nbad()",
        "%%time\nbad()",
        "%%bash\nbad()",
        "%%capture\n%%time\nbad()",
    )
    assert found(text, bad_call) == [(1, 2, 1), (2, 1, 7), (2, 5, 1), (3, 2, 1), (5, 3, 1)]


def test_a_line_that_ipython_takes_for_a_magic_is_no_syntax_error(bad_call: type[Rule]) -> None:
    text = notebook("cd 'Colab Notebooks'", "ls saved_models/", "time bad()", "cd x\nbad()", "bad()")
    findings = linted(text, bad_call)
    assert [item.name for item in findings] == ["bad-call", "syntax-error", "bad-call"]
    assert places(text, findings) == [(3, 1, 6), (4, 1, 4), (5, 1, 1)]


def test_form_feeds_change_no_place(bad_call: type[Rule]) -> None:
    text = notebook(["s = '\x0c'\n", "bad()"], ["!ls\n", "if x:\n", "\x0c    y, bad()"])
    assert found(text, bad_call) == [(1, 2, 1), (2, 3, 9)]


# -- what is wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"cells": [\n  1\n  2]\n}', 3, "invalid JSON"),
        ('{"cells": []}\n}', 2, "invalid JSON: Extra data"),
        ("[]", 1, "JSON without `cells`"),
        ('{"metadata": {}}', 1, "JSON without `cells`"),
        ('{"cells": 1}', 1, "its `cells` are not a list"),
        ('{"cells": [1]}', 1, "cell 1 is not a JSON object"),
        ('{"worksheets": 1}', 1, "`worksheets`"),
        ('{"cells": [{"cell_type": "code", "source": 1}]}', 1, "the source of cell 1"),
        ('{"cells": [{"cell_type": "code", "source": ["a", 1]}]}', 1, "the source of cell 1"),
        ("[" * 100_000, 1, "is not a notebook: "),
        ('{"cells": \0[]}', 1, "NUL"),
    ],
)
def test_what_is_no_notebook_is_named(bad_call: type[Rule], text: str, line: int, message: str) -> None:
    (finding,) = linted(text, bad_call)
    assert (finding.name, finding.span.start.line) == ("unreadable-file", line)
    assert message in finding.message


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_a_place_holder(bad_call: type[Rule], text: str) -> None:
    assert linted(text, bad_call) == []


def test_a_broken_cell_hides_no_other(bad_call: type[Rule]) -> None:
    text = notebook("import os\nbad()", "x = (\nbad()", "bad()", "y = 1\nif x\nbad()", "def f():\n    return bad()")
    findings = linted(text, bad_call)
    assert [item.name for item in findings] == ["bad-call", "syntax-error", "bad-call", "syntax-error", "bad-call"]
    assert [place[0] for place in places(text, findings)] == [1, 2, 3, 4, 5]
    assert places(text, findings)[3][1] == 2
    assert places(text, findings)[4] == (5, 2, 12)


@pytest.mark.parametrize("broken", [r"'\u0000'", "(" * 300, f"bad({'-' * 3_000}1)", "x = (", "return = 1"])
def test_whatever_is_broken_hides_no_other_cell(bad_call: type[Rule], broken: str) -> None:
    cells = [{"cell_type": "code", "source": source} for source in ("bad()", "BROKEN", "bad(")]
    text = json.dumps({"cells": [*cells, cells[0]]}, indent=1).replace("BROKEN", broken)
    findings = linted(text, bad_call)
    assert [place[0] for place in places(text, findings)] == [1, 2, 3, 4]
    assert {findings[0].name, findings[3].name} == {"bad-call"}


def test_a_cell_that_is_indented_as_a_whole_is_no_error(bad_call: type[Rule]) -> None:
    """IPython takes off the indentation of its first line."""
    text = notebook("import os\nbad()", "  x = 1\n  if x:\n    y = 2\n\n  z = 3", " !wget a", "bad()")
    assert found(text, bad_call) == [(1, 2, 1), (4, 1, 1)]
    broken = linted(notebook("bad()", "  y = 1\n z = (\n"), bad_call)
    assert [item.name for item in broken] == ["bad-call", "syntax-error"]


def test_half_a_character_in_a_string(bad_call: type[Rule]) -> None:
    """JSON can hold what no text does."""
    text = r'{"cells": [{"cell_type": "code", "source": "s = \"\ud83d\", bad()"}]}'
    (finding,) = linted(text, bad_call)
    assert places(text, [finding]) == [(1, 1, 10)]
    for form in FORMATS:
        outcome = Outcome((LintedFile(source_of(text), (finding,)),), 1)
        assert "bad" in render(form, outcome, Style())


def test_cells_that_are_python_only_together_are_read_together(bad_call: type[Rule]) -> None:
    assert found(notebook("x = (1,", "bad())"), bad_call) == [(2, 1, 1)]


# -- suppressions ---------------------------------------------------------------------------------------


def test_suppressions(bad_call: type[Rule]) -> None:
    text = notebook(
        "bad()  # torchlint: ignore[bad-call]\nbad()",
        "bad()  # noqa: XX001",
        "%time bad()  # torchlint: ignore",
        "bad()",
    )
    assert found(text, bad_call) == [(1, 2, 1), (4, 1, 1)]


def test_a_comment_for_the_file_is_for_all_cells(bad_call: type[Rule]) -> None:
    assert found(notebook("bad()", "# torchlint: ignore-file[bad-call]", "bad()"), bad_call) == []


def test_unused_suppressions_are_found_in_their_cell(bad_call: type[Rule]) -> None:
    text = notebook("bad()", "x = 1\ny = 2  # torchlint: ignore[bad-call]")
    findings = linted(text, bad_call, "unused-suppression")
    assert [(item.name, place) for item, place in zip(findings, places(text, findings), strict=True)] == [
        ("bad-call", (1, 1, 1)),
        ("unused-suppression", (2, 2, 28)),
    ]


# -- fixes ----------------------------------------------------------------------------------------------

CELLS = (markdown("ü 🙂"), "%time\nx = 'ü🙂'\nold(x)\n# end", "!ls\nold()", "y\ngone()\nz", "if x:\n    gone()\n")
FIXED = (markdown("ü 🙂"), "%time\nx = 'ü🙂'\nnew(x)\n# end", "!ls\nnew()", "y\nz", code([]))


def fixed(data: bytes) -> bytes:
    return fix(source_of(data), Selection((Renames,))).source.data


@pytest.mark.parametrize("indent", [None, 0, 1, 2, 4, "\t"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_fixes_write_what_jupyter_would_have(indent: int | str | None, ascii_only: bool) -> None:
    before, after = (
        json.dumps(document(*cells), indent=indent, ensure_ascii=ascii_only).encode() for cells in (CELLS, FIXED)
    )
    assert b"old" in before
    assert fixed(before) == after


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n \n"])
def test_every_other_byte_of_the_file_stays(newline: str, bom: bytes, end: str) -> None:
    before, after = (
        bom + (notebook(*cells).rstrip() + end).replace("\n", newline).encode() for cells in (CELLS, FIXED)
    )
    assert fixed(before) == after


@pytest.mark.parametrize("separators", [(",", ":"), (" , ", " : ")])
def test_odd_spaces_stay(separators: tuple[str, str]) -> None:
    before, after = (json.dumps(document(*cells), separators=separators).encode() for cells in (CELLS, FIXED))
    assert fixed(before) == after


def test_escapes_of_lines_that_stay_are_not_touched() -> None:
    before = r'{"cells": [{"cell_type": "code", "source": ["a = \u0027\/\u00fc\u0027\n", "old()"]}], "x": 1e400}'
    assert fixed(before.encode()).decode() == before.replace("old", "new")


def test_newlines_in_cells_stay() -> None:
    before = json.dumps({"cells": [{"cell_type": "code", "source": "x = 1\r\nold()\r\ngone()\r\ny"}]})
    assert fixed(before.encode()).decode() == before.replace("old", "new").replace(r"gone()\r\n", "")


def test_sources_that_are_one_string_stay_one() -> None:
    before = json.dumps({"cells": [{"cell_type": "code", "source": "old()\nx"}], "nbformat": 4}, indent=2)
    assert fixed(before.encode()).decode() == before.replace("old", "new")


def test_format_3_is_written_back_in_its_form() -> None:
    cells = [{"cell_type": "code", "language": "python", "input": ["x\n", "old()"]}]
    before = json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3}, indent=1)
    assert fixed(before.encode()).decode() == before.replace("old", "new")


def test_a_broken_cell_hinders_no_fix_of_another() -> None:
    before = notebook("old()", "x = (", "%%bash\nold()", "old()")
    assert fixed(before.encode()).decode() == notebook("new()", "x = (", "%%bash\nold()", "new()")


def test_a_cell_loses_its_last_line() -> None:
    """Jupyter ends no cell with a newline."""
    assert fixed(notebook("x\ngone()", "y").encode()).decode() == notebook("x", "y")


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["x = 1", "old()", "%time old()", "!ls", "# ü\u2028", "", "s = '🙂\x0c'"])),
        max_size=5,
    ),
    st.sampled_from([None, 1, 2]),
    st.booleans(),
)
def test_any_notebook_is_fixed_as_its_values_would_be(
    cells: list[list[str]], indent: int | None, ascii_only: bool
) -> None:
    def written(old: str) -> str:
        made = [{**code(""), "source": [f"{line}\n" for line in cell]} for cell in cells]
        text = json.dumps(document(*made), indent=indent, ensure_ascii=ascii_only)
        return text.replace("old()", old)

    assert fixed(written("old()").encode()).decode() == written("new()")

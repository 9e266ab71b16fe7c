"""Python 2 is called that, once for a file, wherever it begins; so is Python 3.6. A mistake in Python 3 is not."""

from __future__ import annotations

import ast

import pytest

from tests.notebooks import notebook
from torchlint import Finding, Rule, Selection, SourceFile, lint

SIGNS = {
    "print 'bad'": (0, "`print` without parentheses"),
    "if x: print bad": (6, "`print` without parentheses"),
    "x; print u'bad', y": (3, "`print` without parentheses"),
    "print not bad": (0, "`print` without parentheses"),
    "print >>bad, 'x'; y z": (0, "`print` without parentheses"),
    "exec bad in x": (0, "`exec` without parentheses"),
    "exec 'bad'": (0, "`exec` without parentheses"),
    "try: bad\nexcept E, e: pass": (0, "`except` with a comma"),
    "try: bad\nexcept (E, F), e: pass": (0, "`except` with a comma"),
    "raise bad.Error, 'x'": (0, "`raise` with a comma"),
    "if bad <> 1: pass": (7, "the operator `<>`"),
    "bad(10L)": (4, "a long integer"),
    "x = 0xffL  # bad": (4, "a long integer"),
    "bad(f, 0755)": (7, "an octal number without `0o`"),
    "bad(ur'x')": (4, "a `ur` string"),
}
MISTAKES = [
    "print bad\nx = f'{y}'",
    "print bad\nasync def f(): pass",
    "print bad\ndef f() -> int: pass",
    "x = (\nbad",
    "# print x\nbad x",
    "'''\nprint x\nraise E, x\n'''\nbad x",
    "s = 'print x'; bad x",
    "print if bad else x y",
    "print(bad) x",
    "printer bad",
    "date(2020, 01, 02); bad",
    "except (E, F): bad",
    "raise E from bad x",
    "{'a': print, 'b': bad",
    "# see `x` <> y\nbad x",
    "bad\nasync = 1 2\nasync def f(): await g(async for x in y)",
    "<<<<<<< bad\nx\n=======\ny\n>>>>>>> z",
]


def findings(source: SourceFile, rule: type[Rule]) -> list[Finding]:
    return lint(source, Selection((rule,)))


@pytest.mark.parametrize("text", SIGNS)
@pytest.mark.parametrize("before", ["", "import os\n", "s = '''\nprint x\n'''  # print y\n"])
def test_signs(bad_call: type[Rule], before: str, text: str) -> None:
    (finding,) = findings(SourceFile("a.py", f"{before}{text}\nprint y\n".encode()), bad_call)
    column, what = SIGNS[text]
    assert finding.name == "syntax-error"
    assert finding.message == f"this is Python 2 ({what}), which torchlint does not support"
    line = before.count("\n") + 1 + text.partition("except")[0].count("\n")
    assert (finding.span.start.line, finding.span.start.column) == (line, column)


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_in_python_3_are_no_signs(bad_call: type[Rule], text: str) -> None:
    with pytest.raises(SyntaxError):
        ast.parse(text)
    (finding,) = findings(SourceFile("a.py", text.encode()), bad_call)
    assert finding.name == "syntax-error"
    assert "Python 2" not in finding.message


@pytest.mark.parametrize(
    "text", ["bad(async=True)", "f'{x}'; bad(y, async = 1)", "bad.async", "lambda async: bad(1, async)"]
)
def test_async_was_a_name_once(bad_call: type[Rule], text: str) -> None:
    """As in `tensor.cuda(async=True)` of the first years of PyTorch."""
    (finding,) = findings(SourceFile("a.py", text.encode()), bad_call)
    assert finding.message == "this is Python 3.6 or older (`async` as a name), which torchlint does not support"
    assert text[finding.span.start.column :].startswith("async")


def test_mistakes_that_libcst_reads_are_no_newer_python(bad_call: type[Rule]) -> None:
    (finding,) = findings(SourceFile("a.py", b"(*parts), last = bad()\n"), bad_call)
    assert finding.name == "syntax-error"
    assert "on which torchlint runs here, cannot read this: cannot use starred expression" in finding.message


def test_python_3_that_looks_like_it_is_linted(bad_call: type[Rule]) -> None:
    text = "print >>bad(), 'x'\nprint\nprint -1\nprint [0]\nprint if x else y\nraise x, y if 0 else z\n"
    (finding,) = findings(SourceFile("a.py", text.partition("raise")[0].encode()), bad_call)
    assert finding.name == "bad-call"


def test_a_notebook_of_python_2_is_one_finding(bad_call: type[Rule]) -> None:
    text = notebook("import os", "print 'a'\nprint 'b'", "bad()", "x = 1\nprint x", "raise E, 'x'", "y z")
    source = SourceFile("a.ipynb", text.encode())
    old, call = findings(source, bad_call)
    assert old.message == "this is Python 2 (`print` without parentheses), which torchlint does not support"
    assert [source.place(found.span.start).cell for found in (old, call)] == [2, 3]
    assert call.name == "bad-call", "what is Python in it is linted"


def test_a_cell_in_a_notebook_of_python_3_is_a_mistake(bad_call: type[Rule]) -> None:
    source = SourceFile("a.ipynb", notebook("print x", "x = f'{y}'", "bad y", "print y").encode())
    found = findings(source, bad_call)
    assert [source.place(item.span.start).cell for item in found] == [1, 3, 4]
    assert not any("Python 2" in item.message for item in found)


def test_every_newline(bad_call: type[Rule]) -> None:
    for newline in ("\n", "\r\n", "\r"):
        (finding,) = findings(SourceFile("a.py", f"x{newline}\tprint bad{newline}".encode()), bad_call)
        assert (finding.span.start.line, finding.span.start.column) == (2, 1)

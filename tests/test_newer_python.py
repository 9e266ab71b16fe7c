"""Syntax of a later Python: f-strings are read all the same; of the rest a notice says which Python reads it."""

from __future__ import annotations

import sys
from pathlib import Path

import libcst as cst
import pytest
from click.testing import CliRunner, Result

from tests.notebooks import notebook
from torchlint import Rule, Selection, SourceFile
from torchlint.cli import cli
from torchlint.engine.examination import Examination, examine
from torchlint.engine.fixer import fix
from torchlint.finding import Severity
from torchlint.syntax.newer_python import _Rewriting

HERE = sys.version_info[:2]
ROOT = Path(__file__).parent.parent
FSTRINGS = {
    """f"{x["a"]}\"""": """f"{x['a']}\"""",
    """f'{x['a']}'""": """f'{x["a"]}'""",
    """rF"\\d{x["a"]!r:>{w["b"]}}\"""": """rF"\\d{x['a']!r:>{w['b']}}\"""",
    """f"{x["é"]}{y['b']}\"""": """f"{x['é']}{y['b']}\"""",
    """f"{'\\n'.join(x)}\"""": """f"{'/n'.join(x)}\"""",
    """f"{re.sub(r"\\d", "", x)}\"""": """f"{re.sub(r'/d', '', x)}\"""",
    """f"{f"{x}"}\"""": """f"{f'{x}'}\"""",
    """f"{f'a\\n{x}'}\"""": """f"{f'a/n{x}'}\"""",
    '''f"""{x["""a"""]}"""''': """f\"\"\"{x['''a''']}\"\"\"""",
}
"""F-strings of Python 3.12, and the same for older ones."""
TOO_MUCH = (
    """f"{f"{f"{1}"}"}\"""",
    """f"{f'{x["a"]}'}\"""",
    """f"{x["it's"]}\"""",
    """f"{x['a\\'b']}\"""",
    """f"{x["a' + bad() + 'b"]}\"""",
    """f"{x[\n0]}\"""",
    '''f"""{x[  # why\n0]}"""''',
)
"""F-strings of Python 3.12 with quotes, lines or comments that no other can have between its braces."""
LATER = {
    **dict.fromkeys(TOO_MUCH, (3, 12)),
    "type X = int": (3, 12),
    "def f[T](x): pass": (3, 12),
    "class C[T]: pass": (3, 12),
    "try: pass\nexcept* E: pass": (3, 11),
}
OLD = (
    """f"{x['a']}\"""",
    """f'a\\n{x["a"]}'""",
    '''f"""{x["a"]} "{y}" \\n {f"{z}"}"""''',
    '''f"""{\n x\n}"""''',
    """f"{x:\\n}\"""",
    """x = "a" 'b' r'\\d'""",
)
"""Source that every supported Python reads."""


def examined(text: str, rule: type[Rule], name: str = "a.py") -> Examination:
    return examine(SourceFile(name, text.encode()), Selection((rule,)))


def rewritten(text: str) -> tuple[str, tuple[int, ...], bool]:
    rewriting = _Rewriting()
    code = cst.parse_module(text).visit(rewriting).code
    return code, rewriting.needed, rewriting.is_whole


@pytest.mark.parametrize("text", FSTRINGS)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_an_f_string_is_read_by_every_python(bad_call: type[Rule], text: str, newline: str) -> None:
    found = examined(f"y = 1{newline}x = {text} + bad(){newline}", bad_call)
    assert found.notices == ()
    (finding,) = found.findings
    assert (finding.span.start.line, finding.span.start.column) == (2, len(f"x = {text} + "))


@pytest.mark.parametrize(("text", "expected"), FSTRINGS.items())
def test_how_an_f_string_is_rewritten(text: str, expected: str) -> None:
    assert rewritten(text) == (expected, (3, 12), True)
    compile(expected, "a.py", "exec", 0x400)  # ast.PyCF_ONLY_AST


@pytest.mark.parametrize("text", TOO_MUCH)
def test_what_cannot_be_rewritten(text: str) -> None:
    _, needed, is_whole = rewritten(text)
    assert needed == (3, 12)
    if is_whole and HERE < (3, 12):
        with pytest.raises(SyntaxError):
            compile(rewritten(text)[0], "a.py", "exec", 0x400)


@pytest.mark.parametrize("text", OLD)
def test_what_every_python_reads_needs_none(text: str) -> None:
    _, needed, _ = rewritten(text)
    assert needed == ()


def test_our_own_code_needs_no_later_python() -> None:
    paths = sorted((ROOT / "torchlint" / "cli").glob("*.py"))
    assert len(paths) > 10
    for path in paths:
        text = path.read_text("utf-8")
        code, needed, _ = rewritten(text)
        assert (code, needed) == (text, ()), path


@pytest.mark.parametrize(("text", "version"), LATER.items())
def test_a_notice_says_which_python_reads_it(bad_call: type[Rule], text: str, version: tuple[int, int]) -> None:
    found = examined(f"bad()\n{text}\n", bad_call)
    if version <= HERE:
        assert ([item.name for item in found.findings], found.notices) == (["bad-call"], ())
        return
    (notice,) = found.notices
    needed, here = (".".join(map(str, item)) for item in (version, HERE))
    assert notice.message == (
        f"run torchlint under Python {needed} or later: Python {here}, on which it runs here, cannot read this"
    )
    assert (notice.name, notice.severity) == ("syntax-error", Severity.INFORMATION)
    assert notice.span.start.line >= 2
    assert found.findings == []


@pytest.mark.parametrize("text", ["type X = int\nx y\n", 'f"{x["a"]}" x\n', 'f"{*}"\n', "def f[T(x): pass\n"])
def test_a_mistake_is_an_error_all_the_same(bad_call: type[Rule], text: str) -> None:
    found = examined(f"bad()\n{text}", bad_call)
    assert found.notices == ()
    assert [(item.name, item.severity) for item in found.findings] == [("syntax-error", Severity.ERROR)]


def test_fixes_keep_the_quotes(bad_call: type[Rule]) -> None:
    text = 'f"{x["a"]}"  # torchlint: ignore[bad-call]\n'
    fixed = fix(SourceFile("a.py", text.encode()), Selection((bad_call,), frozenset({"unused-suppression"})))
    assert fixed.source.text == 'f"{x["a"]}"\n'


@pytest.mark.skipif(HERE >= (3, 12), reason="this Python reads it")
def test_a_notebook_without_the_cells_that_need_a_later_python(bad_call: type[Rule]) -> None:
    found = examined(notebook("type X = int", "bad()", 'f"{x["a"]}"; bad()'), bad_call, "a.ipynb")
    assert [item.name for item in found.findings] == ["bad-call", "bad-call"]
    assert [item.message[:37] for item in found.notices] == ["run torchlint under Python 3.12 or la"]
    mixed = examined(notebook("type X = int", "bad()", "x y"), bad_call, "a.ipynb")
    assert [item.name for item in mixed.findings] == ["bad-call", "syntax-error"]
    assert len(mixed.notices) == 1


@pytest.mark.skipif(HERE >= (3, 12), reason="this Python reads it")
def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_call: type[Rule]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.py").write_text("type X = bad\n")
    (tmp_path / "old.py").write_text("good()\n")

    def torchlint(*arguments: str) -> Result:
        return CliRunner().invoke(cli, arguments)

    for _ in range(2):  # the second time from the cache
        result = torchlint(".")
        assert (result.exit_code, result.stdout.splitlines()[-1][:11]) == (0, "No findings")
        assert result.stderr.startswith("notice: new.py:1:6: run torchlint under Python 3.12 or later: ")
    assert torchlint("--quiet", ".").stderr == ""
    assert torchlint("--diff", ".").exit_code == 0
    assert "new.py:1:6: run torchlint under Python 3.12" in torchlint("trace", "new.py").stderr

"""`--add-ignores`: the next run is silent, and nothing but comments has changed."""

from __future__ import annotations

import ast
import json
import os
import sys
from itertools import cycle
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.thinning import thinned
from torchlint import Rule, SourceFile
from torchlint.cli import cli
from torchlint.testing.harness import Fixture, _reindented, fixtures

ROOT = Path(__file__).parent.parent
BAD = [path for path in sorted((ROOT / "fixtures").glob("*/*.py")) if not path.name.endswith(("good.py", ".fixed.py"))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def torchlint(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin)


def ignoring(text: str | bytes, name: str = "a.py", *, said: str = "Added 1 ignore in 1 file.\n") -> bytes:
    """The file after `--add-ignores`, in which torchlint finds nothing."""
    path = Path(name)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    result = torchlint("--add-ignores", name)
    first, *notices = result.stderr.splitlines(keepends=True)
    assert (result.exit_code, first) == (0, said)
    assert all(line.startswith("notice: ") for line in notices)
    assert torchlint(name).exit_code == 0
    return path.read_bytes()


def ignored(text: str) -> str:
    return ignoring(text).decode()


@pytest.mark.parametrize(
    ("path", "variant"),
    thinned(zip(BAD[::6], cycle(["as it is", "crlf", "tabs", "cr"]), strict=False), every=7),
    ids=lambda value: f"{value.parent.name}/{value.name}" if isinstance(value, Path) else value,
)
def test_fixtures_are_silent_afterwards(folder: Path, path: Path, variant: str) -> None:
    fixture = Fixture(path, fixtures(ROOT / "fixtures")[0].rules)
    text = _reindented(fixture.text, "\t") if variant == "tabs" else fixture.text
    text = text.replace("\n", {"crlf": "\r\n", "cr": "\r"}.get(variant, "\n"))
    Path("a.py").write_bytes(text.encode())
    result = torchlint("--select", "all", "--preview", "--add-ignores")
    assert result.exit_code == 0, result.output
    assert torchlint("--select", "all", "--preview").exit_code == 0
    after = Path("a.py").read_bytes().decode()
    assert (after == text) == result.stderr.startswith("Added 0 ")
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(text))
    assert after.count("\r") == text.count("\r") and after.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("bad()\n", "bad()  # torchlint: ignore[bad-call]\n"),
        ("bad()", "bad()  # torchlint: ignore[bad-call]"),
        ("bad()   \n", "bad()  # torchlint: ignore[bad-call]\n"),
        ("bad();\n", "bad();  # torchlint: ignore[bad-call]\n"),
        ("bad()  # noqa: E501\n", "bad()  # noqa: E501  # torchlint: ignore[bad-call]\n"),
        ("bad()  # type: ignore\n", "bad()  # type: ignore  # torchlint: ignore[bad-call]\n"),
        ("bad()  # why  \n", "bad()  # why  # torchlint: ignore[bad-call]\n"),
        (
            "bad()  # torchlint: ignore[unheard-of, another] because\n",
            "bad()  # torchlint: ignore[another, bad-call, unheard-of] because\n",
        ),
        (
            "bad()  # torchlint: ignore[y]  # noqa: E501\n",
            "bad()  # torchlint: ignore[bad-call, y]  # noqa: E501\n",
        ),
        (
            "bad()  # torchlint: ignore-file[y]\n",
            "bad()  # torchlint: ignore-file[y]  # torchlint: ignore[bad-call]\n",
        ),
        ("bad()  # torchlint: ignore[]\n", "bad()  # torchlint: ignore[bad-call]\n"),
        ("bad()  # torchlint: ignore[y\n", "bad()  # torchlint: ignore[y  # torchlint: ignore[bad-call]\n"),
        ("bad('# torchlint: ignore[y]')\n", "bad('# torchlint: ignore[y]')  # torchlint: ignore[bad-call]\n"),
        ("é = '日本' + bad('🙂')\n", "é = '日本' + bad('🙂')  # torchlint: ignore[bad-call]\n"),
        ("x = f(\n    bad(),\n    2,\n)\n", "x = f(\n    bad(),  # torchlint: ignore[bad-call]\n    2,\n)\n"),
        ("x = bad() + \\\n    1\n", "x = bad() + \\\n    1  # torchlint: ignore[bad-call]\n"),
        ("x = 1 + \\\n    bad()\n", "x = 1 + \\\n    bad()  # torchlint: ignore[bad-call]\n"),
        ("x = bad('''\na\n''')\n", "x = bad('''\na\n''')  # torchlint: ignore[bad-call]\n"),
        ("x = f'''{\nbad()\n}\n'''\n", "x = f'''{\nbad()\n}\n'''  # torchlint: ignore[bad-call]\n"),
        (
            "x = (\n  '''\n''', bad(), '''\n''')\n",
            "x = (\n  '''\n''', bad(), '''\n''')  # torchlint: ignore[bad-call]\n",
        ),
        (
            "x = f(\n    # why\n\n    bad()\n    + \\\n    1)\n",
            "x = f(\n    # why\n\n    bad()  # torchlint: ignore[bad-call]\n    + \\\n    1)\n",
        ),
        ("for x in bad(): pass\n", "for x in bad(): pass  # torchlint: ignore[bad-call]\n"),
        ("if x:\n    pass\nelif bad():\n    pass\n", None),
        ("if (\n    bad()\n    and x\n):\n    pass\n", None),
        ("if (a and\n    bad()): b()\n", None),
        ("if (bad()\n    and '''\n''' or \\\n  x): b()\n", None),
        ("try:\n    pass\nexcept (\n    A,\n    bad(),\n):\n    pass\n", None),
        ("@bad(1, '''\n''')\ndef f():\n    pass\n", None),
        ("class A(bad()): x = 1\n", None),
        ("with (\n    bad() as x,\n):\n    pass\n", None),
        ("while bad():\n    x = '''\n    '''\n", None),
        ("def f(a=bad(),\n      b=lambda: 1): return a\n", None),
        ("x = 1; bad(); y = '''\n'''\n", None),
        ("match bad():\n    case 1 if x:\n        pass\n", None),
        ("if x:\n\tbad()\n\n\n\n# end", None),
        ("\fbad()\n", None),
    ],
)
def test_where_the_comment_goes(folder: Path, bad_call: type[Rule], before: str, after: str | None) -> None:
    for newline in ("\n", "\r\n", "\r"):
        made = ignored(before.replace("\n", newline))
        assert after is None or made == after.replace("\n", newline)
        assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(before))


def test_findings_on_one_line_share_a_comment(folder: Path, bad_call: type[Rule]) -> None:
    text = "bad(); bad()  # torchlint: ignore[unheard]\n"
    Path("a.py").write_text(text)
    result = torchlint("--add-ignores", "--extend-select", "pedantic")
    assert (result.exit_code, result.stderr) == (0, "Added 2 ignores in 1 file.\n")
    assert Path("a.py").read_text() == "bad(); bad()  # torchlint: ignore[bad-call, unheard, unknown-suppression]\n"
    assert torchlint("--extend-select", "pedantic").exit_code == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfbad()\r\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe9'; bad()\n",
        b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nbad('\x80')",
        "# coding: utf-16-be-less\n".replace("utf-16-be-less", "euc-jp").encode()
        + "x = '日'; bad()\n".encode("euc-jp"),
    ],
)
def test_bytes_stay_what_they_were(folder: Path, bad_call: type[Rule], data: bytes) -> None:
    comment = b"  # torchlint: ignore[bad-call]"
    made = ignoring(data)
    assert made.replace(comment, b"", 1) == data
    assert made.count(comment) == 1


def notebook(*cells: object) -> bytes:
    made = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


def test_notebooks(folder: Path, bad_call: type[Rule]) -> None:
    cells = (
        ["%matplotlib inline\n", "bad()\n", "!ls\n", "bad()"],
        "bad()\nx?",
        ["%%time\n", "bad();\n"],
        "%%bash\nbad()",
    )
    made = ignoring(notebook(*cells), "a.ipynb", said="Added 4 ignores in 1 file.\n")
    comment = "  # torchlint: ignore[bad-call]"
    assert made == notebook(
        ["%matplotlib inline\n", f"bad(){comment}\n", "!ls\n", f"bad(){comment}"],
        f"bad(){comment}\nx?",
        ["%%time\n", f"bad();{comment}\n"],
        "%%bash\nbad()",
    )


def test_a_magic_gets_no_comment(folder: Path, bad_call: type[Rule]) -> None:
    data = notebook(["%time bad()\n", "bad()\n"])
    (folder / "a.ipynb").write_bytes(data)
    result = torchlint("--add-ignores", "--output-format", "concise")
    assert (result.exit_code, result.stderr) == (1, "Added 1 ignore in 1 file.\n")
    assert len(result.stdout.splitlines()) == 1
    assert (folder / "a.ipynb").read_bytes() == data.replace(b'"bad()', b'"bad()  # torchlint: ignore[bad-call]')


def test_what_cannot_be_excused_is_left_and_reported(folder: Path, bad_call: type[Rule]) -> None:
    (folder / "a.py").write_text("bad()\n")
    (folder / "broken.py").write_text("bad(\n")
    (folder / "crash.py").write_text("crash(); bad()\n")
    result = torchlint("--add-ignores", "--output-format", "concise")
    assert result.exit_code == 3
    assert result.stderr == "Added 2 ignores in 2 files.\n"
    assert [line.split()[2] for line in result.stdout.splitlines()] == ["syntax-error:", "internal-error:"]
    assert (folder / "broken.py").read_text() == "bad(\n"


def test_a_file_that_was_saved_meanwhile_is_left_alone(
    folder: Path, bad_call: type[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.py").write_text("bad()\n")
    (folder / "b.py").write_text("bad()\n")
    edited = SourceFile.edited

    def saved_meanwhile(self: SourceFile, *edits: object) -> SourceFile:
        if self.path == "a.py":
            (folder / "a.py").write_text("better()\n")
        return edited(self, *edits)  # type: ignore[arg-type]

    monkeypatch.setattr(SourceFile, "edited", saved_meanwhile)
    result = torchlint("--add-ignores")
    assert result.exit_code == 3
    assert result.stderr.startswith("error: a.py has changed in the meantime")
    assert result.stderr.endswith("Added 1 ignore in 1 file.\n")
    assert (folder / "a.py").read_text() == "better()\n"


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_permissions_and_links_stay(folder: Path, bad_call: type[Rule]) -> None:
    (folder / "real").write_text("bad()\n")
    (folder / "real").chmod(0o750)
    (folder / "a.py").symlink_to("real")
    assert torchlint("--add-ignores", "--no-cache").exit_code == 0
    assert (folder / "a.py").is_symlink()
    assert (folder / "real").read_text().endswith("ignore[bad-call]\n")
    assert (folder / "real").stat().st_mode & 0o777 == 0o750
    assert sorted(os.listdir(folder)) == ["a.py", "real"]


def test_clean_files_are_not_touched(folder: Path, bad_call: type[Rule]) -> None:
    (folder / "a.py").write_text("good()\n")
    before = (folder / "a.py").stat()
    result = torchlint("--add-ignores")
    assert (result.exit_code, result.stderr) == (0, "Added 0 ignores in 0 files.\n")
    after = (folder / "a.py").stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )
    assert torchlint("--add-ignores", "--quiet").output == ""


def test_standard_input_cannot_be_changed(folder: Path, bad_call: type[Rule]) -> None:
    result = torchlint("--add-ignores", "-", stdin="bad()\n")
    assert result.exit_code == 2
    assert "--add-ignores needs files: it cannot be used with `-`" in result.stderr


@pytest.mark.parametrize("text", ['x = f"{d["#"]}"; bad()\n', "x = f'{bad()!r:{'#'}}'\n", 'f"{f"{bad()}#"}"\n'])
def test_strings_that_an_older_python_cannot_read(folder: Path, bad_call: type[Rule], text: str) -> None:
    """Nested quotes are Python 3.12; under an older one a file is left alone rather than broken."""
    (folder / "a.py").write_text(text)
    torchlint("--add-ignores")
    after = (folder / "a.py").read_text()
    assert after in (text, text[:-1] + "  # torchlint: ignore[bad-call]\n")
    if sys.version_info >= (3, 12):
        assert after != text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("bad()\n", "bad()  # torchlint: ignore[bad-call] legacy, see #12\n"),
        ("bad()  # noqa: E501\n", "bad()  # noqa: E501  # torchlint: ignore[bad-call] legacy, see #12\n"),
        ("bad()  # torchlint: ignore[y]\n", "bad()  # torchlint: ignore[bad-call, y] legacy, see #12\n"),
        ("bad()  # torchlint: ignore[y] mine\n", "bad()  # torchlint: ignore[bad-call, y] mine\n"),
        (
            "bad()  # torchlint: ignore[y]  # noqa: E501\n",
            "bad()  # torchlint: ignore[bad-call, y] legacy, see #12  # noqa: E501\n",
        ),
    ],
)
def test_reasons(folder: Path, bad_call: type[Rule], before: str, after: str) -> None:
    Path("a.py").write_text(before)
    assert torchlint("--add-ignores", "--reason", " legacy, see #12 ", "a.py").exit_code == 0
    assert Path("a.py").read_text() == after
    assert torchlint("a.py").exit_code == 0


@pytest.mark.parametrize("reason", ["", "  ", "a\nb", "see # noqa", "x # torchlint: ignore", "\x1b[1m"])
def test_what_is_no_reason(folder: Path, bad_call: type[Rule], reason: str) -> None:
    Path("a.py").write_text("bad()\n")
    result = torchlint("--add-ignores", "--reason", reason, "a.py")
    assert result.exit_code == 2 and "a reason " in result.stderr
    assert Path("a.py").read_text() == "bad()\n"
    assert torchlint("--reason", "x", "a.py").exit_code == 2

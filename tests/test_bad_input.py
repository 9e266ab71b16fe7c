"""Files that are no Python, too much of it, or not there: a finding names them, the rest is linted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from torchlint import Finding, Rule, Selection, SourceFile, lint
from torchlint.files.source import MAX_BYTES
from torchlint.run.runner import Job, lint_file
from torchlint.syntax.nesting import MAX_LINKS

BOM = b"\xef\xbb\xbf"


def findings(data: bytes, rule: type[Rule]) -> list[Finding]:
    return lint(SourceFile("a.py", data), Selection((rule,)))


@pytest.mark.parametrize(
    ("data", "name", "line", "message"),
    [
        (b"x = 1\nx y # bad\n", "syntax-error", 2, "invalid syntax"),
        (b"bad = (\n", "syntax-error", 1, "was never closed"),
        (b"# bad\n'abc\n", "syntax-error", 2, "unterminated string literal"),
        (b"if bad:\n\tx\n        y\n", "syntax-error", 3, "tabs"),
        (b"# coding: klingon\nbad()\n", "unreadable-file", 1, "unknown encoding: klingon"),
        (b"# coding: rot13\nbad()\n", "unreadable-file", 1, "encoding rot13 is not a text encoding"),
        (b"# coding: undefined\nbad()\n", "unreadable-file", 1, "encoding undefined is not a text encoding"),
        (b"# coding: unicode_escape\nbad('\\udc80')\n", "unreadable-file", 1, "is not a text encoding"),
        (b"# coding: ascii\nbad('\xc3\xa9')\n", "unreadable-file", 2, "cannot decode as ascii"),
        (BOM + b"# coding: latin-1\nbad()\n", "unreadable-file", 1, "encoding problem"),
        (b"bad()\n\n\n'\xff'\n", "unreadable-file", 4, "cannot decode as utf-8"),
        (b"\nbad()\0\n", "unreadable-file", 2, "source contains NUL bytes"),
        ("bad()\n".encode("utf-16"), "unreadable-file", 1, "file is UTF-16"),
        ("bad()\n".encode("utf-16-le"), "unreadable-file", 1, "source contains NUL bytes"),
        (b"bad()\n" * (MAX_BYTES // 5), "unreadable-file", 1, "is larger than the limit of 10,000,000"),
    ],
)
def test_what_is_no_python_is_named(bad_call: type[Rule], data: bytes, name: str, line: int, message: str) -> None:
    (finding,) = findings(data, bad_call)
    assert (finding.name, finding.span.start.line) == (name, line)
    assert message in finding.message
    assert finding.fingerprint


@pytest.mark.parametrize(
    ("data", "places"),
    [
        (b"", []),
        (BOM, []),
        (b"\n\n", []),
        (b"# bad", []),
        (BOM + b"bad()", [(1, 0)]),
        (b"x\rbad()\r  # c\rbad()", [(2, 0), (4, 0)]),
        (b"x\r\n\r\nbad()\r\n", [(3, 0)]),
        (b"\x0cbad()\n\x0c\nif x:\n    y\n\x0c    bad()\n", [(1, 1), (5, 5)]),
        (b"# coding: latin-1\n'\xe9'; bad()\n", [(2, 5)]),
        (b"# coding: latin-1\n\x0c'\xe9'; bad()\n", [(2, 6)]),
        (b"x = \\\n" * 5 + b"bad()\n", [(6, 0)]),
        (b"".join(b" " * depth + b"if x:\n" for depth in range(90)) + b" " * 90 + b"bad()\n", [(91, 90)]),
    ],
)
def test_unusual_python_is_linted(bad_call: type[Rule], data: bytes, places: list[tuple[int, int]]) -> None:
    found = findings(data, bad_call)
    assert [(item.name, item.span.start.line, item.span.start.column) for item in found] == [
        ("bad-call", *place) for place in places
    ]


CHAINS = {
    "not": "x = {}bad()\n",
    "-": "x = {}bad()\n",
    ".b": "x = bad(){}\n",
    "()": "x = bad(){}\n",
    "[0]": "x = bad(){}\n",
    "+1": "x = bad(){}\n",
    "**1": "x = bad(){}\n",
    "1 if x else ": "x = {}bad()\n",
    "lambda: ": "x = {}bad()\n",
}
DEEP = """
import json
import sys
import libcst as cst
from torchlint import Category, Rule, Selection, SourceFile, lint

class BadCall(Rule):
    "Finds `bad()`."
    code, category = "XX001", Category.CORRECTNESS
    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name) and node.func.value == "bad":
            self.report(node, "bad")

for line in sys.stdin:
    source = SourceFile("a.py", json.loads(line).encode())
    print([item.name for item in lint(source, Selection((BadCall,)))], flush=True)
"""


@pytest.fixture(scope="module")
def interpreters() -> Iterator[list[subprocess.Popen[str]]]:
    """The one that is running, if one is; it goes with the tests."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")


@pytest.fixture
def apart(interpreters: list[subprocess.Popen[str]]) -> Callable[[str], str]:
    """Says what another interpreter finds, which may crash: then the next text has a new one."""

    def apart(text: str) -> str:
        if not interpreters:
            command, pipe = [sys.executable, "-c", DEEP], subprocess.PIPE
            interpreters.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8"))
        process = interpreters[0]
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps(text) + "\n")
        process.stdin.flush()
        found = process.stdout.readline().strip()
        if not found:
            interpreters.clear()
            pytest.fail(f"the interpreter has ended with {process.wait(60)}: {process.communicate()[1]}")
        return found

    return apart


@pytest.mark.slow
@pytest.mark.parametrize("link", CHAINS)
@pytest.mark.parametrize("count", [3_000, 10_000])
def test_endless_expressions_are_not_read(link: str, count: int, apart: Callable[[str], str]) -> None:
    text = CHAINS[link].format(f"{link} " * count)
    assert apart(text) == "['unreadable-file']"


@pytest.mark.slow
@pytest.mark.parametrize("link", CHAINS)
def test_long_expressions_are(link: str, apart: Callable[[str], str]) -> None:
    text = CHAINS[link].format(f"{link} " * (MAX_LINKS // 4))
    assert apart(text) == "['bad-call']"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(" * 10_000 + "bad()" + ")" * 10_000, ["syntax-error"]),
        ("[" * 10_000 + "bad()", ["syntax-error"]),
        ("x = f'{" + "(" * 10_000 + "bad()" + ")" * 10_000 + "}'", ["syntax-error"]),
        ("(" * 190 + "bad()" + ")" * 190, ["bad-call"]),
        ("x = (bad()\n" + " .b\n" * 10_000 + ")", ["unreadable-file"]),
        ("x = bad()\\\n" + " + b\\\n" * 10_000 + "\n", ["unreadable-file"]),
        ("if x: y\n" + "elif z: y\n" * 500 + "else: bad()\n", ["bad-call"]),
        ("x = [" + "-1.5 * 2, " * 3_000 + "bad()]\n", ["bad-call"]),
        ("x = " * 10_000 + "bad()\n", ["bad-call"]),
        ("bad();" * 2_500, ["bad-call"] * 2_500),
        ("'''" + "(" * 10_000 + "'''; bad()\n", ["bad-call"]),
        ("".join(" " * depth + "if x:\n" for depth in range(1_000)) + "bad()", ["syntax-error"]),
    ],
)
def test_depth(text: str, found: list[str], apart: Callable[[str], str]) -> None:
    assert apart(text) == str(found)


@pytest.mark.slow
def test_what_overflows_all_the_same_is_named(apart: Callable[[str], str]) -> None:
    found = apart("if x: y\n" + "elif z: y\n" * 10_000 + "else: bad()\n")
    assert found in ("['bad-call']", "['unreadable-file']")


def names(path: Path, rule: type[Rule]) -> list[tuple[str, str]]:
    linted = lint_file(Job(path, Selection((rule,))))
    return [(finding.name, finding.message) for finding in linted.findings]


def test_a_file_that_vanished(tmp_path: Path, bad_call: type[Rule]) -> None:
    ((name, message),) = names(tmp_path / "gone.py", bad_call)
    assert (name, message) == ("unreadable-file", "No such file or directory")


def test_a_file_that_may_not_be_read(tmp_path: Path, bad_call: type[Rule], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "closed.py"
    path.write_text("bad()")
    monkeypatch.setattr(os, "open", refused)
    assert names(path, bad_call) == [("unreadable-file", "Permission denied")]


def test_a_file_too_large_is_not_even_read(
    tmp_path: Path, bad_call: type[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.py"
    with path.open("wb") as file:
        file.truncate(20_000_000)
    monkeypatch.setattr(os, "open", lambda path, flags: pytest.fail("was opened"))
    ((name, message),) = names(path, bad_call)
    assert name == "unreadable-file"
    assert message == "file of 20,000,000 bytes is larger than the limit of 10,000,000"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links_that_lead_nowhere(tmp_path: Path, bad_call: type[Rule]) -> None:
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nothing.py")
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    assert [names(path, bad_call)[0][0] for path in sorted(tmp_path.iterdir())] == ["unreadable-file"] * 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files there")
def test_a_pipe_does_not_hang(tmp_path: Path, bad_call: type[Rule]) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert names(tmp_path / "pipe.py", bad_call) == [("unreadable-file", "not a regular file")]


def test_a_folder_called_like_a_file(tmp_path: Path, bad_call: type[Rule]) -> None:
    assert names(tmp_path, bad_call) == [("unreadable-file", "not a regular file")]

"""The formats of services and browsers: GitLab's, JUnit's and the page, with what is hostile to each."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.notebooks import markdown, notebook
from tests.test_outputs import fixable
from torchlint import Finding, Position, Rule, Selection, Severity, SourceFile, Span, lint
from torchlint.engine import registry
from torchlint.finding import Edit, Fix, Safety
from torchlint.outputs import Style, render
from torchlint.results import LintedFile, Outcome

EVIL = "<script>alert('&\"]]>')</script>"
PLACE = Span(Position(1, 0), Position(1, 5))


def linted(text: str, rule: type[Rule], path: str = "a.py") -> LintedFile:
    source = SourceFile(path, text.encode())
    return LintedFile(source, tuple(lint(source, Selection((rule,)))))


def hostile() -> Outcome:
    """A file name, a message, a help and code that break out of whatever does not escape them."""
    text = f"bad()  # {EVIL}\n"
    files = []
    for path in (f"{EVIL}\x1b\n\udce9.py", "日\ud83d.py"):
        source = SourceFile(path, text.encode())
        finding = Finding(path, "bad-call", "XX001", f"\x00\x0b\ufffe{EVIL}", PLACE, Severity.WARNING, help=EVIL)
        files.append(LintedFile(source, (finding,)))
    return Outcome(tuple(files), 2)


def gitlab(*files: LintedFile) -> list[dict[str, Any]]:
    report: list[dict[str, Any]] = json.loads(render("gitlab", Outcome(files, len(files)), Style()))
    return report


def test_gitlab(bad_call: type[Rule], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (issue,) = gitlab(linted("\n\nbad()\n", bad_call, str(tmp_path / "src" / "a b.py")))
    assert re.fullmatch("[0-9a-f]{32}", issue.pop("fingerprint"))
    assert issue == {
        "description": "`bad` is bad",
        "check_name": "XX001 bad-call",
        "severity": "critical",
        "location": {"path": "src/a b.py", "lines": {"begin": 3}},
    }
    assert gitlab() == []


def test_gitlab_fingerprints_differ_and_stay_when_lines_move(bad_call: type[Rule]) -> None:
    before = gitlab(linted("bad()\nbad()\nbad(2)\n", bad_call), linted("bad()\n", bad_call, "b.py"))
    after = gitlab(linted("# new\n\nbad()\nbad()\nbad(2)\n", bad_call), linted("bad()\n", bad_call, "b.py"))
    prints = [issue["fingerprint"] for issue in before]
    assert len(set(prints)) == 4
    assert prints == [issue["fingerprint"] for issue in after]


def test_gitlab_tells_findings_apart_that_have_one_fingerprint(bad_call: type[Rule]) -> None:
    file = linted("bad()\n", bad_call)
    (finding,) = file.findings
    twice = replace(file, findings=(finding, finding))
    one, two = gitlab(twice)
    assert one["fingerprint"] != two["fingerprint"]


def test_gitlab_points_into_the_json_of_a_notebook(bad_call: type[Rule]) -> None:
    text = notebook(markdown("# x"), "import os\nbad()")
    (issue,) = gitlab(linted(text, bad_call, "a.ipynb"))
    assert "bad()" in text.splitlines()[issue["location"]["lines"]["begin"] - 1]
    assert issue["description"] == "cell 2, line 2: `bad` is bad"


def test_gitlab_escapes(bad_call: type[Rule]) -> None:
    text = render("gitlab", hostile(), Style())
    assert text.isascii() and "\\ud" not in text
    assert len({issue["fingerprint"] for issue in json.loads(text)}) == 2


def junit(outcome: Outcome) -> ElementTree.Element:
    return ElementTree.fromstring(render("junit", outcome, Style()))


def test_junit(bad_call: type[Rule]) -> None:
    root = junit(Outcome((linted("import os\n\nbad(); bad()\n", bad_call, "dir/a.py"),), 5))
    (suite,) = root
    assert (root.tag, root.attrib) == ("testsuites", {"name": "torchlint", "tests": "2", "failures": "2"})
    assert suite.attrib == {"name": "dir/a.py", "file": "dir/a.py", "tests": "2", "failures": "2", "errors": "0"}
    assert [test.get("name") for test in suite] == ["XX001 bad-call", "XX001 bad-call (2)"]
    assert {test.get("classname") for test in suite} == {"dir/a.py"}
    failure = suite[0][0]
    assert failure.attrib == {"type": "error", "message": "`bad` is bad"}
    assert failure.text == ("dir/a.py:3:1: `bad` is bad\ndir/a.py:1:1: the file begins here\nhelp: call `good`")


def test_junit_of_nothing_is_a_test_that_passed() -> None:
    root = junit(Outcome((), 3))
    assert (root.get("tests"), root.get("failures")) == ("1", "0")
    (test,) = root.iter("testcase")
    assert (test.get("name"), len(test)) == ("no findings", 0)


def test_junit_is_well_formed_whatever_it_says() -> None:
    root = junit(hostile())
    assert root[0].get("name") == f"{EVIL}\\x1b\\n\ufffd.py"
    assert root[1].get("name") == "日\\ud83d.py"
    (failure, _) = root.iter("failure")
    assert failure.get("message") == f"\\x00\\x0b\\ufffe{EVIL}"
    assert failure.text and failure.text.endswith(f"help: {EVIL}")


def test_junit_has_the_attributes_that_its_schema_knows(bad_call: type[Rule]) -> None:
    """Jenkins' xUnit plugin refuses reports with others."""
    required = {"testsuite": {"name", "tests", "failures", "errors"}, "testcase": {"name"}}
    allowed = {
        "testsuites": {"name", "tests", "failures"},
        "testsuite": {*required["testsuite"], "file"},
        "testcase": {"name", "classname"},
        "failure": {"type", "message"},
    }
    for outcome in (hostile(), Outcome((), 1), Outcome((linted("bad();bad()", bad_call),), 1)):
        for element in junit(outcome).iter():
            assert required.get(element.tag, set()) <= {*element.attrib} <= allowed[element.tag]


class _Page(HTMLParser):
    """Collects tags with their attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_escaped_and_fetches_nothing() -> None:
    text = render("html", hostile(), Style())
    page = _Page(text)
    assert text.isascii() and EVIL not in text
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert page.text.count(EVIL) >= 2 * 3  # code, message and help of both
    loaded = [value for tag, attributes in page.tags for key, value in attributes.items() if key in ("src", "href")]
    assert [value for value in loaded if value and not value.startswith("#")] == ["data:,"]
    assert not re.search(r"url\(|@import", text)


def test_the_page_shows_findings_with_their_code(bad_call: type[Rule]) -> None:
    text = "import os\n" + "\n" * 9 + "x = [bad(1),\n 2]\n"
    page = _Page(render("html", Outcome((linted(text, bad_call),), 7), Style()))
    for part in (
        "1 finding (1 error) in 1 of 7 files.",
        "a.py:11:6",
        "bad is bad",
        "11  x = [bad(1),",
        "help: call good",
    ):
        assert part in page.text
    assert re.search(r"1  import os  the file begins here\n +\.\.\.\n", page.text)
    (article,) = (attributes for tag, attributes in page.tags if tag == "article")
    name = article.pop("id")
    assert name and re.fullmatch("finding=[0-9a-f]{12}", name)
    assert article == {"class": "error", "data-rule": "XX001 bad-call", "data-file": "a.py", "data-severity": "error"}
    assert ("a", {"class": "place", "href": f"#{name}", "title": "link to this finding"}) in page.tags


def test_the_page_sums_up(bad_call: type[Rule]) -> None:
    files = (linted("bad();bad()\n", bad_call), fixable("b.py"))
    page = _Page(render("html", Outcome(files, 2, registry.metas()), Style(made="commit abc, 2026-01-02 03:04 UTC")))
    assert "commit abc, 2026-01-02 03:04 UTC" in page.text
    assert re.search(r"error\s*XX001 bad-call\s*3\s*2\s*1\s*A call of bad\.", page.text)
    assert ("a", {"href": "#rule=XX001+bad-call"}) in page.tags
    assert "<code>bad</code>" in render("html", Outcome(files, 2, registry.metas()), Style())


def test_the_page_shows_a_fix_as_a_diff() -> None:
    page = _Page(render("html", Outcome((fixable(),), 1), Style()))
    assert "fix: call good (unsafe: it may change results, so review it)" in page.text
    assert " x\n-'🙂', bad()\n+y\n+'🙂', good()\n" in page.text
    assert [tag for tag, _ in page.tags if tag in ("ins", "del")] == ["del", "ins", "ins"]


def test_the_diff_of_a_fix_is_escaped_and_short() -> None:
    edits = (Edit(Span(Position(1, 0), Position(1, 1)), EVIL), Edit(Span(Position(900, 0), Position(900, 1)), "z"))
    finding = Finding("a.py", "r", "XX001", "m", PLACE, Severity.HINT, fix=Fix(EVIL, edits, Safety.SAFE))
    text = "x" * 5_000 + "\n" + "".join(f"x{number}\n" for number in range(1_000))
    page = _Page(render("html", Outcome((LintedFile(SourceFile("a.py", text.encode()), (finding,)),), 1), Style()))
    assert page.text.count(EVIL) == 2 and len(page.text) < 10_000
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "+z898\n" in page.text


def test_links_to_findings_are_the_same_in_the_next_page(bad_call: type[Rule]) -> None:
    def names(text: str) -> list[str | None]:
        page = _Page(render("html", Outcome((linted(text, bad_call), linted(text, bad_call, "b.py")), 1), Style()))
        return [attributes["id"] for tag, attributes in page.tags if tag == "article"]

    before = names("bad()\nbad()\n")
    assert len(set(before)) == 4 and names("\nbad()\n\nbad()\n") == before
    (finding,) = linted("bad()\n", bad_call).findings
    twice = LintedFile(SourceFile("a.py", b"bad()\n"), (finding, finding))
    page = _Page(render("html", Outcome((twice,), 1), Style()))
    assert len({attributes["id"] for tag, attributes in page.tags if tag == "article"}) == 2


def test_the_page_counts_lines_of_a_notebook_in_their_cells(bad_call: type[Rule]) -> None:
    page = _Page(
        render("html", Outcome((linted(notebook("import os\n", "\nbad()"), bad_call, "a.ipynb"),), 1), Style())
    )
    assert "a.ipynb:cell 2:2:1" in page.text
    assert page.text.index("cell 1\n    1  import os") < page.text.index("cell 2\n    1  \n    2  bad()\n")


def test_the_page_of_nothing_and_of_what_cannot_be_read(bad_call: type[Rule]) -> None:
    assert "No findings in 3 files." in render("html", Outcome((), 3), Style())
    assert "NUL bytes" in render("html", Outcome((linted("a\0", bad_call),), 1), Style())


@pytest.mark.slow
def test_a_browser_filters_the_page(bad_call: type[Rule], tmp_path: Path) -> None:
    """In a real one: no complaint on its console, and the address says what is shown."""
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no browser is installed")
    hints = linted("bad()  # Ünique\n", bad_call, "b&c.py")
    hints = replace(hints, findings=tuple(replace(item, severity=Severity.HINT) for item in hints.findings))
    files = (linted("bad()\nbad()\n", bad_call), hints)
    path = tmp_path / "page.html"
    shown = "[...document.querySelectorAll('article')].filter(item => item.getBoundingClientRect().height > 9).length"
    script = f"<script>addEventListener('load', () => document.title = 'shown ' + {shown})</script>"
    path.write_text(render("html", Outcome(files, 2), Style()).replace("</body>", f"{script}</body>"), "utf-8")
    for fragment, count in (
        ("", 3),
        ("#file=b%26c.py", 1),
        ("#rule=XX001+bad-call&file=a.py", 2),
        ("#rule=gone", 3),
        ("#severity=hint", 1),
        ("#text=%C3%BCnique", 1),
    ):
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        options += ["--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
        done = subprocess.run(
            [browser, *options, path.as_uri() + fragment], capture_output=True, text=True, timeout=120
        )
        assert "CONSOLE" not in done.stderr, done.stderr
        assert f"<title>shown {count}</title>" in done.stdout, fragment

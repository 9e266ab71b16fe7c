"""Suppression comments: what they cover, and which of them are reported."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path

import pytest

from torchlint import Category, Finding, Rule, Selection, SourceFile, lint
from torchlint.engine import registry
from torchlint.engine.fixer import fix
from torchlint.engine.rule_table import loaded
from torchlint.files.lines import comments

CHECKS = frozenset({"unused-suppression", "unknown-suppression"})


def findings(text: str | bytes, *rules: type[Rule], checks: frozenset[str] = CHECKS) -> list[Finding]:
    data = text if isinstance(text, bytes) else text.encode()
    return lint(SourceFile("a.py", data), Selection(rules, checks))


def marked(text: str, finding: Finding) -> str:
    """The text that a finding on one line stands on."""
    return text.splitlines()[finding.span.start.line - 1][finding.span.start.column : finding.span.end.column]


@pytest.mark.parametrize(
    "text",
    [
        "bad()  # torchlint: ignore[bad-call]\n",
        "bad()  # torchlint: ignore[XX001]\n",
        "bad()  # torchlint: ignore[ xx001 ]\n",
        "bad()  # torchlint: ignore\n",
        "bad()  # torchlint: ignore[XX]\n",
        "bad()  # torchlint: ignore[crash, xx0]\n",
        "bad()  # torchlint: ignore[correctness]\n",
        "bad()  # torchlint: ignore[all]\n",
        "bad()  # noqa: XX0\n",
        "# torchlint: ignore-file[correctness]\nbad()\n",
        "bad()  # torchlint:ignore[bad-call] because of this\n",
        "bad()  # type: ignore  # torchlint: ignore[bad-call]\n",
        "bad()  # noqa\n",
        "bad()  # NOQA\n",
        "bad()  # noqa: XX001\n",
        "bad()  # noqa: E501,XX001\n",
        "bad()  # noqa:E501 XX001 for a reason\n",
        "x = bad(\n    1,\n)  # torchlint: ignore[bad-call]\n",
        "x = f(  # torchlint: ignore[bad-call]\n    bad(),\n)\n",
        "for x in bad():  # torchlint: ignore[bad-call]\n    pass\n",
        "if (\n    bad()\n    and x\n):  # torchlint: ignore[bad-call]\n    pass\n",
        "@bad()\ndef f():  # torchlint: ignore[bad-call]\n    pass\n",
        "@bad()  # torchlint: ignore[bad-call]\ndef f():\n    pass\n",
        "# torchlint: ignore-file\nbad()\n",
        "bad()\nbad()\n# torchlint: ignore-file[bad-call]\n",
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_covers(bad_call: type[Rule], text: str, newline: str) -> None:
    assert findings(text.replace("\n", newline), bad_call) == []


@pytest.mark.parametrize(
    "text",
    [
        "bad('# noqa')\n",
        "bad('''\n# torchlint: ignore-file\n''')\n",
        "bad()\n# torchlint: ignore[bad-call]\n",
        "bad()  # noqa: E501\n",
        "bad()  # noqa-not\n",
        "bad()  # torchlint: ignored\n",
        "bad()  # torchlint: ignore[other-rule]\n",
        "bad()  # torchlint: ignore[]\n",
        "bad()  # torchlint: ignore[XX0011]\n",
        "bad()  # torchlint: ignore[X00]\n",
        "bad()  # torchlint: ignore[bad]\n",
        "bad()  # torchlint: ignore[performance]\n",
        "bad()  # torchlint: ignore[TL1]\n",
        "bad()  # torchlint: noqa\n",
        "bad()  # torchlint: disable=XX001\n",
        "for x in bad():\n    f()  # torchlint: ignore[bad-call]\n",
        "bad()  # flake8: noqa\n",
    ],
)
def test_does_not_cover(bad_call: type[Rule], text: str) -> None:
    assert [finding.name for finding in findings(text, bad_call, checks=frozenset())] == ["bad-call"]


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfbad() # noqa\n", b"\x0cbad() # noqa", b"# \\\r\nbad() # noqa\r\n"])
def test_unusual_bytes(bad_call: type[Rule], data: bytes) -> None:
    assert findings(data, bad_call) == []


@pytest.mark.parametrize(
    ("text", "name", "place", "message"),
    [
        ("f()  # torchlint: ignore\n", "unused", "# torchlint: ignore", "this comment suppresses no finding"),
        ("f()  # noqa: XX001, E501\n", "unused", "XX001", "there is no `bad-call` finding here to suppress"),
        (
            "# torchlint: ignore-file[bad-call]\n",
            "unused",
            "bad-call",
            "there is no `bad-call` finding in this file to suppress",
        ),
        (
            "bad()  # torchlint: ignore[bad-call, bad-cal]\n",
            "unknown",
            "bad-cal",
            "no rule is called `bad-cal`; did you mean `bad-call`?",
        ),
        ("f()  # noqa: TL999\n", "unknown", "TL999", "no rule is called `TL999`"),
        (
            "f()  # torchlint: ignroe[x]\n",
            "unknown",
            "# torchlint: ignroe[x]",
            "`ignroe` suppresses nothing; did you mean `# torchlint: ignore`?",
        ),
        (
            "f()  # torchlint: noqa\n",
            "unknown",
            "# torchlint: noqa",
            "`noqa` suppresses nothing; did you mean `# torchlint: ignore`?",
        ),
        (
            "f()  # torchlint: disable=XX001, TL0 since it is right\n",
            "unknown",
            "# torchlint: disable",
            "`disable` suppresses nothing; did you mean `# torchlint: ignore[XX001, TL0]`?",
        ),
        (
            "f()  # torchlint: NoQA: bad-call  # mypy: ignore\n",
            "unknown",
            "# torchlint: NoQA",
            "`NoQA` suppresses nothing; did you mean `# torchlint: ignore[bad-call]`?",
        ),
        (
            "# torchlint: skip-file\n",
            "unknown",
            "# torchlint: skip-file",
            "`skip-file` suppresses nothing; did you mean `# torchlint: ignore-file`?",
        ),
        (
            "f()  # torchlint: ignore[]\n",
            "unknown",
            "# torchlint: ignore[]",
            "the list of rules is empty; did you mean `# torchlint: ignore`?",
        ),
        (
            "f()  # torchlint: ignore[bad-call\n",
            "unknown",
            "# torchlint: ignore[bad-call",
            "the list of rules lacks its closing `]`; did you mean `# torchlint: ignore[bad-call]`?",
        ),
        (
            "f()  # torchlint: ignore bad-call\n",
            "unknown",
            "# torchlint: ignore",
            "the list of rules has no brackets; did you mean `# torchlint: ignore[bad-call]`?",
        ),
        (
            "f()  # torchlint: ignore=TL101\n",
            "unknown",
            "# torchlint: ignore",
            "the list of rules has no brackets; did you mean `# torchlint: ignore`?",
        ),
        (
            "f()  # noqa: bad-call\n",
            "unknown",
            "# noqa",
            "`noqa` takes codes; did you mean `# torchlint: ignore[bad-call]`?",
        ),
        (
            "f()  # torchlint: ignore[correctnes]\n",
            "unknown",
            "correctnes",
            "no rule is called `correctnes`; did you mean `correctness`?",
        ),
        (
            "f()  # torchlint: ignore-file[ y, bad-call as it is right\n",
            "unknown",
            "# torchlint: ignore-file[ y, bad-call as it is right",
            "the list of rules lacks its closing `]`; did you mean `# torchlint: ignore-file[y, bad-call]`?",
        ),
        ("f()  # torchlint: ignore[xx0]\n", "unused", "xx0", "there is no `XX0` finding here to suppress"),
        (
            "# torchlint: ignore-file[correctness]\n",
            "unused",
            "correctness",
            "there is no `correctness` finding in this file to suppress",
        ),
    ],
)
def test_useless_comments_are_reported(bad_call: type[Rule], text: str, name: str, place: str, message: str) -> None:
    crash = findings("", bad_call)
    assert crash == []
    found = findings("# nothing\n" + text, bad_call, *_others(bad_call))
    if message.startswith("no rule is called `TL999`"):
        found = [finding for finding in found if "TL999" in finding.message]
    assert [finding.name for finding in found] == [f"{name}-suppression"]
    assert found[0].message.startswith(message)
    assert marked("# nothing\n" + text, found[0]) == place


def _others(bad_call: type[Rule]) -> list[type[Rule]]:
    """The other rules there are, so that a bare comment can be known to be unused."""
    return [loaded(rule) for rule in registry.rules() if rule is not bad_call]


@pytest.mark.parametrize(
    "text",
    [
        "f()  # noqa\n",
        "f()  # noqa: E501, F401\n",
        "f()  # torchlint: ignore[crash]\n",
        "f()  # torchlint: ignore\n",
        "f()  # torchlint is good\n",
        "f()  # torchlint: finds this\n",
        "f()  # torchlint: see disable=XX001\n",
        "f()  # torchlint: ignore[suspicious]\n",
        "bad()  # torchlint: ignore[XX0]\n",
        "f()  # torchlint: ignore[bad-call, unused-suppression]\n",
        "# torchlint: ignore-file[unknown-suppression]\nf()  # torchlint: ignore[whatever]\n",
        "bad(  # torchlint: ignore[bad-call]\n\nbad(]",
    ],
)
def test_what_is_not_reported(bad_call: type[Rule], text: str) -> None:
    assert [item for item in findings(text, bad_call) if item.name.endswith("-suppression")] == []


def test_comments_are_those_that_python_sees() -> None:
    paths = sorted(Path(tokenize.__file__).parent.glob("[a-d]*.py"))
    assert len(paths) > 20
    for path in paths:
        with tokenize.open(path) as file:
            text = file.read()
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        expected = [token.string for token in tokens if token.type == tokenize.COMMENT]
        assert [match["comment"] for match in comments(text)] == expected, path


class Silent(Rule):
    """A rule that finds nothing."""

    code = "XX009"
    category = Category.CORRECTNESS


@pytest.fixture
def both(bad_call: type[Rule], monkeypatch: pytest.MonkeyPatch) -> tuple[type[Rule], ...]:
    """All rules that there are: one that finds something, and one that does not."""
    monkeypatch.setattr(registry, "rules", lambda: (bad_call, Silent))
    return bad_call, Silent


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()  # torchlint: ignore[bad-call]\n", "f()\n"),
        ("f()  # torchlint: ignore[bad-call]", "f()"),
        ("f()  # torchlint: ignore[bad-call] because of this\n", "f()\n"),
        ("f()  # why  # torchlint: ignore[XX001]\n", "f()  # why\n"),
        ("f()  # torchlint: ignore[bad-call] old  # noqa: E501\n", "f()  # noqa: E501\n"),
        ("bad()  # torchlint: ignore[silent, bad-call] why\n", "bad()  # torchlint: ignore[bad-call] why\n"),
        ("bad()  # torchlint: ignore[bad-call , silent]\n", "bad()  # torchlint: ignore[bad-call]\n"),
        ("f()  # torchlint: ignore[bad-call, silent]\n", "f()\n"),
        ("f()  # noqa: XX001, E501\n", "f()  # noqa: E501\n"),
        ("f()  # noqa: E501,XX001\n", "f()  # noqa: E501\n"),
        ("f()  # noqa: XX001\n", "f()\n"),
        ("# torchlint: ignore-file[bad-call]\nf()\n", "f()\n"),
        ("if x:\n    # torchlint: ignore[bad-call]  \n    f()\n", "if x:\n    f()\n"),
        ("f()\n# torchlint: ignore[bad-call]", "f()\n"),
        ("f()  # torchlint: ignore\n", "f()\n"),
        ("é = '日本🙂'  # torchlint: ignore[bad-call]\n", "é = '日本🙂'\n"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_useless_comment_can_be_removed(both: tuple[type[Rule], ...], before: str, after: str, newline: str) -> None:
    source = SourceFile("a.py", before.replace("\n", newline).encode())
    selection = Selection(both, frozenset({"unused-suppression"}))
    fixed = fix(source, selection)
    assert fixed.source.text == after.replace("\n", newline)
    assert [finding.name for finding in fixed.findings] == []


def test_what_the_removal_of_a_comment_is_called(both: tuple[type[Rule], ...]) -> None:
    text = "bad()  # torchlint: ignore[bad-call, silent]\nf()  # torchlint: ignore[silent]\n"
    found = findings(text, *both)
    titles = [finding.fix and finding.fix.message for finding in found]
    assert titles == ["remove `silent` from this comment", "remove this comment"]

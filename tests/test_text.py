"""The format for people: training bugs before deprecated names, which are folded, and marks of fixes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.notebooks import markdown, notebook
from torchlint import Category, Rule, SourceFile
from torchlint.cli import cli
from torchlint.engine import registry
from torchlint.finding import Edit, Finding, Fix, Meta, Position, Related, Safety, Span
from torchlint.outputs import FORMATS, Style, render, summary
from torchlint.results import LintedFile, Outcome

BUG = Meta("some-bug", "XX101", Category.CORRECTNESS, "A bug.")
OLD = Meta("old-name", "XX802", Category.SUSPICIOUS, "An old name.", is_maintenance=True)
SYNTAX = registry.SYNTAX_ERROR


def found(
    meta: Meta, line: int, message: str = "wrong", *, fix: Safety | None = None, help: str = "", path: str = "a.py"
) -> Finding:
    """A finding of three characters at the beginning of a line."""
    place = Span(Position(line, 0), Position(line, 3))
    repair = Fix("rename it", (Edit(place, f"new{line}"),), fix) if fix is not None else None
    severity = meta.category.severity
    return Finding(path, meta.name, meta.code, message, place, severity, help=help, fingerprint=str(line), fix=repair)


def file_of(*findings: Finding, path: str = "a.py") -> LintedFile:
    return LintedFile(SourceFile(path, b"x = 1\n" * 99), findings)


def outcome(*files: LintedFile, total: int = 9, users: int | None = None, new_only: bool = False) -> Outcome:
    return Outcome(files, total, (SYNTAX, BUG, OLD), users, new_only=new_only)


def shown(files: Outcome) -> list[str]:
    """The output without source."""
    lines = render("text", files, Style()).splitlines()
    return [line for line in lines if line and "|" not in line[:5]]


def test_bugs_of_all_files_come_before_deprecated_names() -> None:
    first = file_of(found(OLD, 1), found(BUG, 2), found(OLD, 3, "other"))
    second = file_of(found(OLD, 4), found(BUG, 5), path="b.py")
    assert shown(outcome(first, second))[:-1] == [
        "a.py:2:1: error XX101 some-bug: wrong",
        "b.py:5:1: error XX101 some-bug: wrong",
        "a.py:1:1: warning XX802 old-name: wrong",
        "a.py:3:1: warning XX802 old-name: other",
        "b.py:4:1: warning XX802 old-name: wrong",
    ]


def test_a_name_that_repeats_is_one_finding_with_its_lines() -> None:
    file = file_of(*(found(OLD, line, help="use new") for line in (2, 12, 40, 40, 77)), found(OLD, 80, "other"))
    assert shown(outcome(file)) == [
        "a.py:2:1: warning XX802 old-name: wrong",
        "  help: use new",
        "  also on lines 12, 40, 77",
        "a.py:80:1: warning XX802 old-name: other",
        "No training bugs; 6 deprecated names in 1 of 9 files.",
    ]


def test_one_more_is_on_a_line() -> None:
    assert shown(outcome(file_of(found(OLD, 2), found(OLD, 12))))[1] == "  also on line 12"


def test_bugs_are_never_folded() -> None:
    file = file_of(found(BUG, 1), found(BUG, 2))
    assert [line for line in shown(outcome(file)) if "also" in line] == []


def test_only_what_looks_the_same_is_folded() -> None:
    related = replace(found(OLD, 9), related=(Related(Span(Position(1, 0), Position(1, 1)), "here"),))
    file = file_of(
        found(OLD, 1, fix=Safety.SAFE),
        found(OLD, 2),
        found(OLD, 3, fix=Safety.SAFE),
        found(OLD, 4, fix=Safety.UNSAFE),
        found(OLD, 5, help="help"),
        related,
    )
    assert [line for line in shown(outcome(file)) if line.startswith("  also")] == ["  also on line 3"]
    assert len([line for line in shown(outcome(file)) if line.startswith("a.py")]) == 5


def test_lines_of_a_notebook_are_in_their_cells() -> None:
    text = notebook("a\nold\n", markdown("# x"), "old\nb\nold\n", "old\nold\n")
    file = LintedFile(SourceFile("a.ipynb", text.encode()), tuple(found(OLD, line) for line in (2, 3, 5, 6, 7)))
    (headline, *_, also, _) = shown(outcome(file))
    assert headline.startswith("a.ipynb:cell 1:2:1: ")
    assert also == "  also in cell 3 on lines 1, 3, in cell 4 on lines 1, 2"


def test_a_fix_is_marked() -> None:
    fixes = (None, Safety.SAFE, Safety.UNSAFE)
    file = file_of(*(found(BUG, line, fix=fix) for line, fix in enumerate(fixes, 1)), found(OLD, 9, fix=Safety.SAFE))
    *lines, last = shown(outcome(file))
    assert [line.removesuffix("wrong") != line for line in lines] == [True, False, False, False]
    assert [line.partition("wrong")[2] for line in lines] == ["", " [fix]", " [unsafe fix]", " [fix]"]
    assert last.endswith(
        "in 1 file. --fix fixes 2 findings marked [fix]; --fix --unsafe-fixes also fixes 1 finding marked [unsafe fix]."
    )


@pytest.mark.parametrize(
    ("fixes", "legend"),
    [
        ((None,), ""),
        ((Safety.SAFE, None), " --fix fixes 1 finding marked [fix]."),
        ((Safety.UNSAFE, Safety.UNSAFE), " --fix --unsafe-fixes fixes 2 findings marked [unsafe fix]."),
    ],
)
def test_the_last_line_says_what_marks_mean(fixes: tuple[Safety | None, ...], legend: str) -> None:
    file = file_of(*(found(BUG, line, fix=fix) for line, fix in enumerate(fixes, 1)))
    assert shown(outcome(file))[-1].partition("files.")[2] == legend
    assert "[" not in summary(outcome(file)), "which other formats show"


@pytest.mark.parametrize(
    ("files", "users", "expected"),
    [
        ((), None, "No findings in 9 files."),
        ((), 9, "No findings in 9 files."),
        ((), 0, "No findings in 9 files; no file uses PyTorch."),
        ((), 1, "No findings in 9 files; 1 file uses PyTorch."),
        ((file_of(found(BUG, 1)),), 4, "1 finding (1 error) in 1 of 9 files; 4 files use PyTorch."),
        (
            (file_of(found(BUG, 1), found(OLD, 1)), file_of(found(OLD, 1), path="b.py")),
            4,
            "1 training bug (1 error) in 1 of 9 files; 2 deprecated names in 2 files; 4 files use PyTorch.",
        ),
        ((file_of(found(OLD, 1)),), 4, "No training bugs; 1 deprecated name in 1 of 9 files; 4 files use PyTorch."),
        (
            (file_of(found(SYNTAX, 1)), file_of(found(OLD, 1), path="b.py")),
            9,
            "1 finding (1 error) in 1 of 9 files; 1 deprecated name in 1 file.",
        ),
    ],
)
def test_the_summary(files: tuple[LintedFile, ...], users: int | None, expected: str) -> None:
    assert summary(outcome(*files, users=users)) == expected
    only_new = re.sub("(finding|training|deprecated)", r"new \1", expected)
    assert summary(outcome(*files, users=users, new_only=True)) == only_new


def test_other_formats_keep_order_and_number() -> None:
    file = file_of(found(OLD, 1, "first"), found(BUG, 2, "second"), found(OLD, 3, "third"))
    lines = render("concise", outcome(file), Style()).splitlines()
    assert [line.split(":")[1] for line in lines] == ["1", "2", "3"]
    for form in FORMATS.keys() - {"text", "html"}:
        places = [render(form, outcome(file), Style()).find(message) for message in ("first", "second", "third")]
        assert -1 not in places and places == sorted(places), form
    page = render("html", outcome(file), Style())
    assert -1 < page.find("second") < page.find("first") < page.find("third"), "a page has the bugs first, as text has"
    assert "     2  XX802" in render("statistics", outcome(file), Style())


def test_colours_are_only_added() -> None:
    file = file_of(found(BUG, 1, fix=Safety.UNSAFE), found(OLD, 2), found(OLD, 3))
    coloured = render("text", outcome(file), Style(colour=True))
    assert "\x1b[" in coloured and click.unstyle(coloured) == render("text", outcome(file), Style())


OLD_NAMES = """\
import torch

def a(x, y):
    with torch.cuda.amp.autocast():
        return x

def train(model, loader, optimizer, criterion):
    for x, y in loader:
        with torch.cuda.amp.autocast():
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    for x, y in loader:
        with torch.cuda.amp.autocast():
            a(x, y)

train(*map(input, range(4)))
a(1, 2)
"""


def test_deprecated_api_of_real_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(OLD_NAMES)
    result = CliRunner().invoke(cli, ["a.py"])
    lines = result.stdout.splitlines()
    assert "missing-zero-grad" in lines[0]
    assert [line for line in lines if line.startswith("  also")] == ["  also on lines 9, 14"]
    assert lines[-1].startswith("1 training bug (1 error) in 1 of 1 file; 3 deprecated names in 1 file. ")
    as_json = json.loads(CliRunner().invoke(cli, ["a.py", "--output-format", "json-flat"]).stdout)
    assert [item["line"] for item in as_json if item["code"] == "TL802"] == [4, 9, 14]
    assert result.exit_code == 1
    only = CliRunner().invoke(cli, ["a.py", "--select", "TL802"])
    assert only.exit_code == 1 and only.stdout.splitlines()[-1].startswith("No training bugs; 3 deprecated names in 1 ")


def test_which_rules_are_maintenance() -> None:
    assert [meta.name for meta in registry.metas() if meta.is_maintenance] == ["deprecated-api"]


def test_a_rule_of_a_plugin_may_be() -> None:
    class OldThing(Rule):
        """Something old."""

        code = "XX900"
        category = Category.PEDANTIC
        is_maintenance = True

    assert OldThing.meta().is_maintenance

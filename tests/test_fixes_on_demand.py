"""Findings do not depend on whether fixes are computed with them, later, or not at all."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.imports.test_cases import CASES, names
from tests.thinning import thinned
from torchlint import Category, Finding, Rule, Selection, SourceFile, select
from torchlint.engine.document_cache import DocumentCache
from torchlint.engine.examination import examine, without_fixes
from torchlint.engine.following import Following
from torchlint.syntax import edits

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures").glob("*/bad.py"))
"""Each rule has one; the check `without-fixes` of the harness can look at all fixtures."""


BUGS = Path(__file__).parent.parent / "fixtures" / "missing_zero_grad" / "bad.py"


def bare(found: list[Finding]) -> list[Finding]:
    return [replace(finding, fix=None) for finding in found]


def is_parsed(cached: DocumentCache) -> bool:
    """Whether LibCST has parsed the latest form."""
    return cached.walk is not None and "tree" in vars(cached.walk)


def assert_same(source: SourceFile, selection: Selection) -> None:
    cached = DocumentCache()
    alone = examine(source, without_fixes(selection), cached, checked=False)
    assert not is_parsed(cached)
    later, together = examine(source, selection, cached), examine(source, selection)
    assert alone.findings == bare(together.findings)
    assert later.findings == together.findings
    assert alone.notices == tuple(bare(list(together.notices)))


@pytest.mark.parametrize("path", thinned(FIXTURES, every=12), ids=lambda path: "/".join(path.parts[-2:]))
def test_fixtures(path: Path) -> None:
    """No rule reports more, less or otherwise where it gets no nodes. The fixes that come later are the same."""
    assert_same(SourceFile(path.name, path.read_bytes()), select(["all"]))


@pytest.mark.parametrize("name", names("wrong"))
def test_programs_of_several_files(name: str, tmp_path: Path) -> None:
    shutil.copytree(CASES / "wrong" / name, tmp_path, dirs_exist_ok=True)
    selection = select(["all"], following=Following(here=str(tmp_path)))
    for path in sorted(tmp_path.glob("*.py")):
        assert_same(SourceFile.read(path, path.name), selection)


HEAD = '''
class Seed(Rule):
    """A backward pass."""
    code, category, triggers = "SEED001", Category.SUSPICIOUS, ((b"backward",),)

    def ask(self):
        yield from (event for trace in self.model.program.traces for event in trace.events)

    def report_Backward(self, event):
        {}
'''
TEXT = b"import torch\nloss.backward()\nother.backward()\n"


def plugin(report: str) -> Selection:
    names: dict[str, Any] = {"Rule": Rule, "Category": Category}
    exec(HEAD.format(report), names)
    return Selection((names["Seed"],))


def test_a_plugin_that_cannot_do_without_nodes() -> None:
    """Its findings are the same, at the price of parsing."""
    selection = plugin("self.report(self.nodes.at(event.site), 'found')")
    source, cached = SourceFile("a.py", TEXT), DocumentCache()
    found = examine(source, without_fixes(selection), cached).findings
    assert [item.name for item in found] == ["seed", "seed"]
    assert is_parsed(cached)
    assert found == examine(source, selection).findings


def test_a_plugin_that_raises_in_its_fix() -> None:
    """Its findings are published; what it raises is said of the fixes."""
    selection = plugin("self.report(event.site, 'found', fix=1 / 0 if self.nodes else None)")
    source, cached = SourceFile("a.py", TEXT), DocumentCache()
    assert [item.name for item in examine(source, without_fixes(selection), cached).findings] == ["seed", "seed"]
    later = examine(source, selection, cached).findings
    assert [item.name for item in later] == ["internal-error", "seed", "seed"]
    assert "ZeroDivisionError" in later[0].message


def test_a_plugin_that_raises() -> None:
    selection = plugin("1 / 0")
    source, cached = SourceFile("a.py", TEXT), DocumentCache()
    (found,) = examine(source, without_fixes(selection), cached).findings
    assert found.name == "internal-error"
    assert [found] == examine(source, selection).findings


VISITING = """
class Seed(Rule):
    '''A backward pass.'''
    code, category, triggers = "SEED001", Category.SUSPICIOUS, ((b"backward",),)

    def visit_Attribute(self, node):
        self.report(node, "found", fix=edits.Change("forward", [edits.Replace(node.attr, "forward")]))
"""


def test_a_rule_of_written_code() -> None:
    """It is given the nodes that it visits; its fix is left out of the findings all the same."""
    names: dict[str, Any] = {"Rule": Rule, "Category": Category, "edits": edits}
    exec(VISITING, names)
    selection, source, cached = Selection((names["Seed"],)), SourceFile("a.py", TEXT), DocumentCache()
    found = examine(source, without_fixes(selection), cached).findings
    later = examine(source, selection, cached).findings
    assert found == bare(later) and all(finding.fix for finding in later)
    assert later == examine(source, selection).findings


def test_a_fix_that_is_not_made_is_not_computed() -> None:
    """LibCST parses nothing for the rules that a user has declared unfixable."""
    source, cached = SourceFile("a.py", BUGS.read_bytes()), DocumentCache()
    found = examine(source, select(["all"], unfixable=["all"]), cached).findings
    assert found and not is_parsed(cached)


def test_another_form_is_linted_anew() -> None:
    """The cache belongs to one source; the same text, read again, is another source."""
    selection, cached = select(["all"]), DocumentCache()
    first, second = (SourceFile("a.py", BUGS.read_bytes()) for _ in range(2))
    examine(first, without_fixes(selection), cached)
    kept = cached.walk
    examine(second, without_fixes(selection), cached)
    assert cached.walk is not kept
    assert examine(first, selection, cached).findings == examine(first, selection).findings


@pytest.mark.parametrize("text", [b"x = (\nloss.backward()\n", b"", b"\xff", b"\0backward", b"import torch\n" * 3])
def test_files_without_a_tree(text: bytes) -> None:
    assert_same(SourceFile("a.py", text), select(["all"]))


def test_a_notebook_with_a_broken_cell() -> None:
    cells = [b"import torch\\nx = (", b"import torch\\nfor x in y:\\n  loss.backward()\\n  optimizer.step()"]
    inside = b", ".join(b'{"cell_type": "code", "source": "%s"}' % cell for cell in cells)
    source = SourceFile("a.ipynb", b'{"nbformat": 4, "cells": [%s]}' % inside)
    selection = select(["all"])
    found = examine(source, without_fixes(selection), DocumentCache(), checked=False).findings
    assert found == bare(examine(source, selection).findings)
    assert {"syntax-error", "missing-zero-grad"} <= {finding.name for finding in found}

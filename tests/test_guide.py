"""docs/write-a-rule.md: what it shows is real, what it lists is the public interface, and rules keep to that.

`python tests/test_guide.py` writes the outputs in it anew.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import torchlint
from torchlint import Rule, testing
from torchlint.cli import cli
from torchlint.engine import registry
from torchlint.model import program, values

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "write-a-rule.md"
TEMPLATE = ROOT / "docs" / "template-plugin"
CONSOLE = re.compile(r"^```console\n\$ torchlint (.*)\n((?:.*\n)*?)```$", re.M)
QUERIES = re.compile(r"(<!-- queries -->)\n(?:.*\n)*?(<!-- /queries -->)")
BLOCK = re.compile(r"^```python\n((?:.*\n)*?)```$", re.M)
ROWS = dict(re.findall(r"^\| `([\w.]+)` \| (.*) \|$", GUIDE.read_text("utf-8"), re.M))
"""Modules of the public interface, and classes, each with what the guide says it has."""
LISTED = {name: has for name, has in ROWS.items() if name.startswith("torchlint")}
RULES = sorted((ROOT / "rules").glob("*.py"))


def queries() -> str:
    """A table of the modules of `torchlint.model.queries`, with the first lines of their docstrings."""
    rows = ["| Module | Question |", "| --- | --- |"]
    for path in sorted((ROOT / "torchlint" / "model" / "queries").glob("[a-z]*.py")):
        summary = ast.get_docstring(ast.parse(path.read_bytes())) or ""
        rows.append(f"| {path.stem} | {summary.splitlines()[0].replace('|', '&#124;')} |")
    return "\n".join(rows)


def rendered(guide: str) -> str:
    """The guide with the outputs of its commands, and the table of queries, as they are now."""
    guide = QUERIES.sub(lambda match: f"{match[1]}\n{queries()}\n{match[2]}", guide)

    def console(match: re.Match[str]) -> str:
        done = CliRunner().invoke(cli, match[1].split())
        assert done.exit_code == 0, done.output
        return f"```console\n$ torchlint {match[1]}\n{done.output}```"

    before = Path.cwd()
    os.chdir(TEMPLATE)
    try:
        return CONSOLE.sub(console, guide)
    finally:
        os.chdir(before)


def imports(path: Path) -> Iterator[str]:
    """All that a file imports, by its full name, modules of their package as names."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_public(name: str) -> bool:
    """Whether the guide lists a module, or the module that has this name."""
    if name.removeprefix("torchlint.") in torchlint.__all__:
        return True
    return any(f"{name}.".startswith(f"{module}.") for module in LISTED if module != "torchlint")


@pytest.fixture
def template(monkeypatch: pytest.MonkeyPatch) -> tuple[type[Rule], ...]:
    """The rules of the template, beside those of torchlint."""
    monkeypatch.syspath_prepend(TEMPLATE)
    module = importlib.import_module("torchlint_mine.cleared_twice")
    return (*registry.rules(), module.ClearedTwice)


def test_outputs_are_real() -> None:
    guide = GUIDE.read_text("utf-8")
    assert rendered(guide) == guide, "run `python tests/test_guide.py`"


@pytest.mark.parametrize("block", BLOCK.findall(GUIDE.read_text("utf-8")))
def test_code_is_that_of_the_template(block: str) -> None:
    """Blank lines and indentation aside."""
    forms = [textwrap.indent(re.sub("\n+", "\n", block), unit) for unit in ("", "    ", "        ")]
    files = [re.sub("\n+", "\n", path.read_text("utf-8")) for path in TEMPLATE.rglob("*.py")]
    assert any(form in text for form in forms for text in files)


def test_rule_of_the_template(template: tuple[type[Rule], ...]) -> None:
    cases = testing.cases(TEMPLATE / "fixtures", template)
    assert cases
    assert [problem for case in cases for problem in case.problems()] == []
    assert testing.example_problems(template[-1], template) == []


@pytest.mark.parametrize(("module", "has"), LISTED.items())
def test_public_modules_have_what_is_said(module: str, has: str) -> None:
    names = re.findall(r"`(\w+)`", has)
    found = importlib.import_module(module)
    assert [name for name in names if not hasattr(found, name)] == []


@pytest.mark.parametrize("name", sorted(ROWS.keys() - LISTED.keys()))
def test_classes_have_what_is_said(name: str) -> None:
    found = getattr(values, name, None) or getattr(program, name)
    known = dir(found) + list(getattr(found, "__annotations__", ()))
    mentioned = set(re.findall(r"`(\w+)[`(]", ROWS[name]))
    assert mentioned and mentioned <= {*known}


@pytest.mark.parametrize("path", [*RULES, *TEMPLATE.rglob("*.py")], ids=lambda path: path.name)
def test_rules_see_the_public_api_only(path: Path) -> None:
    """The rules of torchlint use the same public API as other rules."""
    for name in imports(path):
        if name.partition(".")[0] in ("torchlint", "rules", "") and not name.startswith("torchlint.rules._"):
            assert is_public(name), name


if __name__ == "__main__":
    GUIDE.write_text(rendered(GUIDE.read_text("utf-8")), "utf-8")

"""The fixture harness itself, on tiny rules that know nothing of PyTorch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
import pytest

from torchlint import Category, Edit, Rule, testing
from torchlint.syntax import edits
from torchlint.syntax.python_ast import site_of


class AskedForHelp(Rule):
    """Code calls for help.

    ## Example
    ```python
    help()
    ```

    Use instead:
    ```python
    print()
    ```
    """

    code = "TST001"
    category = Category.CORRECTNESS

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name) and node.func.value == "help":
            self.report(node, "`help` is called")


class TabbedBlock(Rule):
    """A block is indented by a tab."""

    code = "TST002"
    category = Category.PEDANTIC

    def visit_If(self, node: cst.If) -> None:
        if "\t" in self.model.tree.source.text:
            self.report(node, "block with a tab")


class CrashingRule(Rule):
    """A rule that crashes.

    ## Example
    ```python
    print()
    ```

    Use instead:
    ```python
    help()
    ```
    """

    code = "TST003"
    category = Category.PERFORMANCE
    triggers = ((b"crash",),)

    def visit_Module(self, node: cst.Module) -> None:
        raise ValueError("boom")


class Shouting(Rule):
    """A call is shouted."""

    code = "TST004"
    category = Category.CORRECTNESS

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name) and node.func.value.isupper():
            self.report(node, "too loud", fix=edits.Change("be quiet", [Lowered(node)]))


@dataclass(frozen=True)
class Lowered(edits.NodeEdit):
    """A call in lower case, without its comments, which a fix should keep."""

    node: cst.CSTNode

    def edits(self, layout: edits.Layout) -> Iterator[Edit]:
        span = layout.span(self.node)
        yield Edit(span, re.sub("#.*", "", layout.text(span)).lower())


class OnlyWithNodes(Rule):
    """A call, found only where the fix is wanted, too."""

    code = "TST005"
    category = Category.PEDANTIC

    def ask(self) -> Iterator[ast.Call]:
        yield from self.model.tree.of_type(ast.Call)

    def report_Call(self, call: ast.Call) -> None:
        if self.written(site_of(call)) is not None:
            self.report(site_of(call), "called")


RULES = (AskedForHelp, TabbedBlock, CrashingRule, Shouting, OnlyWithNodes)


def problems(tmp_path: Path, text: str, name: str = "topic.py", folder: str = "asked_for_help") -> list[str]:
    path = tmp_path / "fixtures" / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    found = [problem for case in testing.cases(tmp_path / "fixtures", RULES) for problem in case.problems()]
    return [problem.removeprefix(f"fixtures/{folder}/{name}:") for problem in found]


@pytest.mark.parametrize(
    "text",
    [
        "help()  # expect: asked-for-help\n",
        'help()  # expect: asked-for-help@1 "`help` is"\n',
        "help(); help()  # expect: asked-for-help@1, asked-for-help@9\n",
        "help(); help()  # expect: asked-for-help, asked-for-help\n",
        "help(); help()  # expect: asked-for-help  # todo-ok: asked-for-help a joke\n",
        "print()  # ok: asked-for-help prints\n",
        "helper()  # todo-expect: asked-for-help the name is another\n",
        "print('# expect: asked-for-help')\n",
        "if 1:\n    print(\n        help(  # expect: asked-for-help\n        ),\n    )\n",
        "if 1:\n    x = [1, \\\n  2, help()]  # expect: asked-for-help\n    s = '''\n    a\n'''\n",
        "x = 1, help(  # expect: asked-for-help\n), \\\n    2\n",
        "help(  # expect: asked-for-help\n'''a  # expect: b\n''')\n",
    ],
)
def test_markers_that_match(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("help()\n", "1: no marker, found asked-for-help@1: `help` is called"),
        ("\nprint()  # expect: asked-for-help\n", "2: expected asked-for-help, found nothing"),
        (
            "help()  # expect: asked-for-help@2\n",
            "1: expected asked-for-help@2, found asked-for-help@1: `help` is called",
        ),
        (
            'help()  # expect: asked-for-help "us"\n',
            '1: expected asked-for-help "us", found asked-for-help@1: `help` is called',
        ),
        ("help()  # ok: asked-for-help fine\n", "1: marked ok, found asked-for-help@1: `help` is called"),
        (
            "help()  # todo-expect: asked-for-help\n",
            "1: known miss of asked-for-help is found: make the marker `expect:`",
        ),
        (
            "print()  # todo-ok: asked-for-help\n",
            "1: known false alarm of asked-for-help is gone: make the marker `ok:`",
        ),
        ("help()  # expect: asked-for-hlp\n", "1: `expect:` names an unknown rule `asked-for-hlp`"),
        ("help()  # expect: asked-for-help, \n", "1: `expect:` needs a rule name, found `asked-for-help,`"),
        (
            "help()  # expect: asked-for-help here\n",
            '1: `expect:` takes names and "texts" only, found `here`',
        ),
        ("print()  # ok: asked-for-help\n", "1: `ok:` needs the reason after the name"),
        (
            "help()  # expects asked-for-help\n",
            "1: names a rule but is no marker: `# expects asked-for-help`",
        ),
        ("crash = 1\n", "1: no marker, found internal-error@1: rule crashing-rule crashed: ValueError: boom"),
        ("x = (\n", "1: is no Python"),
    ],
)
def test_markers_that_do_not_match(tmp_path: Path, text: str, problem: str) -> None:
    assert any(found.startswith(problem) for found in problems(tmp_path, text)), problems(tmp_path, text)


def test_bad_and_good_files(tmp_path: Path) -> None:
    expecting = "help()  # expect: asked-for-help\n"
    assert problems(tmp_path, expecting, "good.py") == ["1: good.py expects asked-for-help"]
    assert problems(tmp_path, "pass\n", "good.py") == []
    assert problems(tmp_path, expecting, "bad.py") == []
    assert problems(tmp_path, "pass\n", "bad.py") == ["1: bad.py expects no asked-for-help"]


def test_unknown_folder_and_odd_file_name(tmp_path: Path) -> None:
    assert problems(tmp_path, "pass\n", folder="asked_for_halp") == ["1: no rule is named `asked-for-halp`"]
    assert problems(tmp_path, "pass\n", "other.fixed.py")[-1].startswith("1: a fixture is bad.py, good.py")


def test_what_fixes_make_of_a_fixture(tmp_path: Path) -> None:
    text = "A(1)  # expect: shouting\n"
    unblessed = problems(tmp_path, text, folder="shouting")
    assert unblessed == [
        "1: line of topic.fixed.py: ['A(1)  # expect: shouting'] should be ['a(1)  # expect: shouting']: "
        "bless it if that is right"
    ]
    (fixture,) = testing.fixtures(tmp_path / "fixtures", RULES)
    fixture.bless()
    assert fixture.fixed_path.read_text() == text.lower()
    assert problems(tmp_path, text, folder="shouting") == []
    assert problems(tmp_path, text.replace("1", "2"), folder="shouting") != []
    fixture.path.write_text("print()\n")
    testing.fixtures(tmp_path / "fixtures", RULES)[0].bless()
    assert not fixture.fixed_path.exists()


def test_a_fix_that_loses_a_comment(tmp_path: Path) -> None:
    found = problems(tmp_path, "A(  # expect: shouting\n    1,  # one\n)\n", folder="shouting")
    assert "1: the fixes lose the comment `# one`" in found


def test_variants_of_the_layout(tmp_path: Path) -> None:
    text = "if 1:\n  # why\n  if 2:\n      print()\n  print()\n"
    assert problems(tmp_path, text, folder="tabbed_block") == [
        "1: tabbed-block fires only with tabs",
        "3: tabbed-block fires only with tabs",
    ]


def test_a_rule_that_is_silent_without_nodes(tmp_path: Path) -> None:
    found = problems(tmp_path, "print()  # expect: only-with-nodes\n", folder="only_with_nodes")
    assert found == ["1: only-with-nodes is lost without fixes"]


def test_pedantic_rules_look_at_their_own_fixtures_only(tmp_path: Path) -> None:
    assert problems(tmp_path, "if 1:\n\tpass\n") == []


def test_known_limits_are_counted(tmp_path: Path) -> None:
    problems(tmp_path, "help()  # todo-ok: asked-for-help\nhlp()  # todo-expect: asked-for-help\n")
    limits = testing.known_limits(tmp_path / "fixtures", RULES)
    assert limits == {("todo-ok", "asked-for-help"): 1, ("todo-expect", "asked-for-help"): 1}


def test_examples_of_docstrings() -> None:
    assert testing.example_problems(AskedForHelp, RULES) == []
    assert testing.example_problems(TabbedBlock, RULES) == [
        "tabbed-block: no `## Example` with a python block, `Use instead:` and another python block"
    ]
    assert testing.example_problems(CrashingRule, RULES) == [
        "crashing-rule: `Use instead:` is not silent: asked-for-help@1: `help` is called",
        "crashing-rule: `## Example` does not fire",
    ]

"""A server with rules of the tests beside the built-in ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.server.editor import Editor

collect_ignore_glob = [] if find_spec("pygls") else ["test_*.py"]  # needs the extra `lsp`

PLUGIN = '''
import ast

import libcst as cst

from torchlint import Category, Rule, Safety

from torchlint.syntax import edits, python_ast


class BadCall(Rule):
    """A call of `bad`.

    ## What it does
    Finds `bad()`.
    """

    code = "XX001"
    category = Category.CORRECTNESS
    triggers = ((b"bad",),)

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name) and node.func.value in ("bad", "bad_unsafe"):
            safety = Safety.UNSAFE if node.func.value == "bad_unsafe" else Safety.SAFE
            first = self.tree.module.body[0]
            self.report(
                node,
                f"`{node.func.value}` is bad",
                related=[(first, "the file begins here")],
                help="call `good`",
                fix=edits.Change("call `good`", [edits.Replace(node.func, "good")], safety),
            )


class Crash(Rule):
    """A call of `crash` crashes this rule."""

    code = "XX002"
    category = Category.SUSPICIOUS
    triggers = ((b"crash",),)

    def visit_Call(self, node: cst.Call) -> None:
        print("what a rule prints is not for the client")
        raise ValueError("no reason")


class BrokenFix(Rule):
    """A call of `broken` crashes the fix of this rule."""

    code = "XX003"
    category = Category.SUSPICIOUS
    triggers = ((b"broken",),)

    def ask(self):
        yield from (call for call in self.model.tree.of_type(ast.Call) if python_ast.called_name(call) == "broken")

    def report_Call(self, call: ast.Call) -> None:
        written = self.written(python_ast.site_of(call))
        self.report(python_ast.site_of(call), "`broken` is bad", fix=written.no_such_field if written else None)
'''
ENTRY_POINT = "[torchlint.rules]\nserver-tests = server_tests_rules\n"


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a server that has the rules of the tests, as an installed plugin."""
    site = tmp_path_factory.mktemp("site")
    (site / "server_tests_rules.py").write_text(PLUGIN, "utf-8")
    info = site / "server_tests_rules-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: server-tests-rules\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(ENTRY_POINT, "utf-8")
    return {**os.environ, "PYTHONPATH": str(site)}


@pytest.fixture
def launch(tmp_path: Path, environment: Mapping[str, str]) -> Iterator[Callable[..., Editor]]:
    """Starts editors in the folder of the test, with capabilities of the client; each goes when the test does."""
    from tests.server.editor import Editor

    with ExitStack() as stack:

        def launch(**capabilities: Any) -> Editor:
            return stack.enter_context(Editor(tmp_path, environment, **capabilities))

        yield launch


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, environment: Mapping[str, str]) -> Iterator[Editor]:
    """An editor for a module of tests, which has started its server and can do nothing special."""
    from tests.server.editor import Editor

    with Editor(tmp_path_factory.mktemp("editor"), environment) as editor:
        editor.start()
        yield editor


@pytest.fixture
def editor(started: Editor, tmp_path: Path) -> Editor:
    """The editor of the module, in the folder of the test and without documents."""
    started.begin_anew(tmp_path)
    return started

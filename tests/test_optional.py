"""Tests that need a package beyond the extra `test` have the mark `needs`, so that a run counts those it skips."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conftest import SOURCES

TESTS = Path(__file__).parent


@pytest.mark.parametrize("path", [*TESTS.glob("test_*.py"), *TESTS.glob("*/test_*.py")], ids=lambda path: path.name)
def test_no_module_needs_them_to_be_collected(path: Path) -> None:
    tree = ast.parse(path.read_bytes())
    for statement in tree.body:
        names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
        names += [statement.module or ""] if isinstance(statement, ast.ImportFrom) else []
        assert not {name.partition(".")[0] for name in names} & SOURCES.keys()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
            assert ast.literal_eval(node.args[0]).partition(".")[0] not in SOURCES.keys() - {"yaml"}

"""Variables: where a function binds, reads and uses them, and what they were before a use."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from torchlint.files.source import SourceFile
from torchlint.model.model import Model
from torchlint.model.queries import uses, variables
from torchlint.syntax.reading import read


def model_of(program: str) -> Model:
    return Model(read(SourceFile("run.py", program.encode())))


def last_read(model: Model, name: str) -> ast.Name:
    nodes: Iterator[ast.Name] = model.tree.of_type(ast.Name)
    reads = [node for node in nodes if node.id == name and isinstance(node.ctx, ast.Load)]
    return max(reads, key=lambda node: node.lineno)


def test_a_function_binds_and_reads_its_own_variables() -> None:
    model = model_of("x = 1\ndef f(y):\n    x = y\n    x = x + 1\n    return x\nprint(x)\n")
    inside, outside = next(model.tree.of_type(ast.Return)), next(model.tree.of_type(ast.Call))
    assert [item.lineno for item in variables.bindings("x", inside, model.definitions)] == [3, 4]
    assert [item.lineno for item in variables.reads("x", inside, model.definitions)] == [4, 5]
    assert [item.lineno for item in variables.bindings("x", outside, model.definitions)] == [1]
    assert variables.is_parameter("y", inside, model.definitions)
    assert not variables.is_parameter("x", inside, model.definitions)


@pytest.mark.parametrize(
    ("program", "value"),
    [
        ("def f(a):\n    x = a\n    x = a + 1\n    return x\n", "a + 1"),
        ("def f(a):\n    x = a\n    x = g(x)\n    return x\n", "g(x)"),
        ("def f(a):\n    x = a\n    if a:\n        x = 2\n    return x\n", None),
        ("def f(a):\n    for x in a:\n        pass\n    return x\n", None),
    ],
)
def test_the_last_value_before_a_use_is_of_the_same_block(program: str, value: str | None) -> None:
    model = model_of(program)
    found = variables.value_before(last_read(model, "x"), model.definitions)
    assert (ast.unparse(found) if found is not None else None) == value


def test_an_inner_function_uses_a_variable_unless_it_is_its_parameter() -> None:
    model = model_of("def f():\n    x = 1\n    def g(): return x\n    def h(x): return x\n    return g, h\n")
    store = next(node for node in model.tree.of_type(ast.Name) if isinstance(node.ctx, ast.Store))
    assert [item.lineno for item in uses.of_place(store, model) or ()] == [2, 3]


@pytest.mark.parametrize(
    ("rest", "is_known"),
    [("", True), ("class B(A): pass\n", False), ("print(getattr(a, 'x'))\n", False)],
)
def test_other_code_may_use_an_attribute(rest: str, is_known: bool) -> None:
    model = model_of(f"class A:\n    def __init__(self):\n        self.x = 1\n    def f(self): return self.x\n{rest}")
    store = next(node for node in model.tree.of_type(ast.Attribute) if isinstance(node.ctx, ast.Store))
    found = uses.of_place(store, model)
    assert (found is not None and [item.lineno for item in found] == [3, 4]) is is_known


def test_a_variable_that_a_function_declares_global_is_shared() -> None:
    model = model_of("x = 1\ndef f():\n    global x\n    x = 2\nprint(x)\n")
    assert variables.is_shared("x", model.definitions)
    assert uses.of_place(last_read(model, "x"), model) is None

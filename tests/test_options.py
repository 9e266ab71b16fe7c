"""Options: which tests of a program are of one, and what answers they get in its cases."""

from __future__ import annotations

import ast

import pytest

from torchlint.files.source import SourceFile
from torchlint.model import Model
from torchlint.model.cases import OTHER, Case
from torchlint.model.queries.options import Options
from torchlint.syntax.python_ast import site_of
from torchlint.syntax.reading import read

TWICE = """\
def run(args, flag):
    {before}
    if {first}:
        here()
    if {second}:
        there()
"""


def options(code: str) -> list[list[object]]:
    """The values of the cases of each option around the call of `here`."""
    model = Model(read(SourceFile("f.py", code.encode())))
    (call,) = [node for node in model.tree.of_type(ast.Call) if getattr(node.func, "id", "") == "here"]
    found = Options(model.program)
    return [[case.value for case in found.cases(option)] for option in found.around(site_of(call))]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("args.amp", "not args.amp", [[True, False]]),
        ("args.amp and flag", "flag", [[True, False]]),
        ("args.kind == 'a'", "args.kind != 'b'", [["a", "b", OTHER]]),
        ("args.kind in ('a', 'b')", "args.kind == 'c'", [["a", "b", "c", OTHER]]),
        ("args.kind", "args.kind is None", [[None, True, False]]),
        ("args.gpus > 1", "args.gpus > 1", [[True, False]]),
        ("args['amp']", "args['amp']", [[True, False]]),
        ("args.amp", "args.other", []),
        ("ask()", "ask()", []),
        ("flag.requires_grad", "flag.requires_grad", []),
    ],
)
def test_options_of_two_tests(first: str, second: str, expected: list[list[object]]) -> None:
    assert options(TWICE.format(before="pass", first=first, second=second)) == expected


@pytest.mark.parametrize(
    ("before", "asked", "is_option"),
    [
        ("flag = compute()", "flag", False),
        ("other = compute()", "other", True),
        ("for other in flag: pass", "other", False),
        ("args.amp = compute()", "args.amp", True),
        ("args.amp = args.amp = compute()", "args.amp", False),
        ("while flag: args.amp = compute()", "args.amp", False),
        ("self.amp = compute()", "self.amp", False),
    ],
)
def test_what_changes_is_no_option(before: str, asked: str, is_option: bool) -> None:
    assert bool(options(TWICE.format(before=before, first=asked, second=asked))) is is_option


def test_one_chain_of_arms_asks_once() -> None:
    code = "if args.kind == 'a':\n    here()\nelif args.kind == 'b':\n    there()\n"
    assert options(code) == []
    assert options(f"{code}x = 1 if args.kind == 'c' else 2\n") == [["a", "b", "c", OTHER]]


@pytest.mark.parametrize(
    ("value", "test", "answer"),
    [
        (True, "args.amp", True),
        (True, "args.amp == 'a'", False),
        ("a", "args.amp == 'a'", True),
        ("a", "args.amp not in ('a', 'b')", False),
        (OTHER, "args.amp != 'a'", True),
        (OTHER, "args.amp", None),
        (None, "args.amp", False),
        (None, "args.amp is None", True),
        (True, "args.other", None),
    ],
)
def test_answers(value: object, test: str, answer: bool | None) -> None:
    tree = read(SourceFile("f.py", f"if args.amp:\n    pass\nif {test}:\n    pass\n".encode()))
    first, second = tree.of_type(ast.If)
    case = Case(f" {ast.dump(first.test)}", value)
    assert case.answer(second.test, tree) is answer

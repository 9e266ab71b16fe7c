"""Values and events are told apart by classes and enums, never by comparing a text (docs/decisions/0038)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from torchlint.model import events, utilities, values
from torchlint.pytorch import autograd_table, operators, shapes

ROOT = Path(__file__).parent.parent
FILES = sorted(
    chain(
        *((ROOT / "torchlint" / room).rglob("*.py") for room in ("model", "trace", "repairs")),
        (ROOT / "rules").glob("*.py"),
    )
)
TAGS = frozenset({"origin", "op", "how", "kind", "word"})
"""Attributes of values and events that say of which sort they are."""
CHANGING = {operators.SETITEM}
"""Operators that no table has: what they do is written where they are made."""


def subclasses(kind: type[Any]) -> set[type[Any]]:
    return set().union(*({below, *subclasses(below)} for below in kind.__subclasses__()))


def comparisons(code: str) -> Iterator[ast.expr | ast.pattern]:
    """Comparisons of a tag with a text, or with a collection in which there is one."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(is_tag, sides)) and any(map(holds_text, sides)):
                yield node
        elif isinstance(node, ast.Match) and is_tag(node.subject):
            yield from (case.pattern for case in node.cases if holds_text(case.pattern))


def is_tag(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in TAGS


def holds_text(node: ast.AST) -> bool:
    return any(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in ast.walk(node))


def all_comparisons(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        for node in comparisons(path.read_text("utf-8")):
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"


def test_no_tag_is_compared_with_a_text() -> None:
    found = list(all_comparisons(FILES))
    assert not found, "\n".join(["ask for a class, or for a member of an enum:", *found])


@pytest.mark.parametrize(
    "code",
    [
        "value.op == 'add'",
        "'add' != event.value.op",
        "keep.how in ('add', 'append')",
        "value.kind not in frozenset({'list'})",
        "value.origin in {CALL, 'object'}",
        "match value.origin:\n    case 'call' | 'object': pass",
    ],
)
def test_comparisons_are_found(code: str) -> None:
    assert list(comparisons(code))


@pytest.mark.parametrize("code", ["value.op in SETS", "value.label == 'x'", "keep.how is Keeping.ADD", "op == 'add'"])
def test_other_comparisons_are_not(code: str) -> None:
    assert not list(comparisons(code))


def test_values_and_events_are_compared_by_identity() -> None:
    """They are keys of many tables; and values have no dictionary of their own, for there are many."""
    kinds = subclasses(values.Value) | subclasses(events.Event)
    assert not any({"__eq__", "__hash__"} & vars(kind).keys() for kind in kinds | {values.Value, events.Event})
    assert all("__slots__" in vars(kind) for kind in subclasses(values.Value))


def test_each_kind_of_unknown_has_its_word() -> None:
    """`trace` tells them apart; a loader is an object, too."""
    words = [kind.origin for kind in subclasses(values.Unknown) - {utilities.DataLoader}]
    assert len(words) == len(set(words)) == len(set(values.Unknown.__subclasses__()))


def test_operators_are_those_of_the_tables() -> None:
    names = {name: operator for name, operator in vars(operators).items() if name.isupper()}
    tables = autograd_table.OPERATORS.keys() | shapes.OPERATORS.keys() | autograd_table.VIEWS | autograd_table.INPLACE
    assert set(names.values()) - tables == CHANGING
    assert all(name == operator.upper() for name, operator in names.items())

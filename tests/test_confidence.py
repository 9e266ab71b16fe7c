"""Findings of low confidence are previews."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from torchlint import Category, Confidence, Rule, Selection, SourceFile, lint
from torchlint.engine import registry
from torchlint.finding import Finding
from torchlint.syntax.python_ast import called_name, site_of

CHECKS = frozenset({"unused-suppression"})
DROPOUT = b"""\
from torch import nn


class Head(nn.Module):
    def drop(self, h):
        return nn.Dropout(0.5)(h)
"""


class Doubted(Rule):
    """A call of something."""

    code = "XX001"
    category = Category.CORRECTNESS
    triggers = ((b"bad",),)

    def ask(self) -> Iterator[ast.Call]:
        return self.model.tree.of_type(ast.Call)

    def report_Call(self, call: ast.Call) -> None:
        is_sure = called_name(call) == "bad"
        confidence = Confidence.HIGH if is_sure else Confidence.LOW
        self.report(site_of(call), "called", confidence=confidence)


def found(code: bytes, stable_only: frozenset[str] = frozenset()) -> list[Finding]:
    return lint(SourceFile("a.py", code), Selection((Doubted,), CHECKS, stable_only=stable_only))


def test_only_stable_findings() -> None:
    code = b"bad()\nmaybe()\n"
    assert [item.span.start.line for item in found(code)] == [1, 2]
    assert [item.span.start.line for item in found(code, frozenset({"doubted"}))] == [1]


def test_a_comment_about_one_that_is_left_out_is_no_unused_one() -> None:
    code = b"bad()\nmaybe()  # torchlint: ignore[doubted]\n"
    assert [item.name for item in found(code, frozenset({"doubted"}))] == ["doubted"]


@pytest.mark.parametrize(
    ("chosen", "preview", "expected"),
    [
        (None, False, 0),
        (None, True, 1),
        (["TL3"], False, 0),
        (["TL310"], False, 1),
        (["dropout-ignores-mode"], False, 1),
    ],
)
def test_who_sees_them(chosen: list[str] | None, preview: bool, expected: int) -> None:
    selection = registry.select(chosen, preview=preview)
    assert len(lint(SourceFile("a.py", DROPOUT), selection)) == expected


@pytest.mark.parametrize(
    ("dataset", "options", "expected"),
    [
        ("TensorDataset(x, y)", "", 1),
        ("random_split(data, [80, 20])[0]", "", 1),
        ("TensorDataset(x, y)", ", shuffle=False", 0),
        ("data", "", 0),
    ],
)
def test_a_training_loader_that_is_never_shuffled(dataset: str, options: str, expected: int) -> None:
    code = f"""\
from torch.utils.data import DataLoader, TensorDataset, random_split


def fit(model, x, y, data, optimizer, criterion):
    train_loader = DataLoader({dataset}, batch_size=32{options})
    for _ in range(10):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
"""
    rules = registry.select(["unshuffled-training"], preview=True)
    found = [item for item in lint(SourceFile("a.py", code.encode()), rules) if item.name == "unshuffled-training"]
    assert [item.confidence is not Confidence.LOW for item in found] == [bool(expected)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("torch.softmax(model(x), dim=0).argmax(dim=1)", 1),
        ("model(x).softmax(0).max(1)", 1),
        ("nn.Softmax(dim=0)(model(x)).argmax(1)", 1),
        ("torch.softmax(model(x), dim=1).max(dim=0)", 0),
        ("torch.softmax(x, dim=0).argmax(dim=1)", 0),
        ("torch.softmax(router(x), dim=0).topk(2, dim=1)", 0),
    ],
)
def test_softmax_over_the_batch(code: str, expected: int) -> None:
    source = SourceFile("a.py", f"import torch\nfrom torch import nn\n\ny = {code}\n".encode())
    found = lint(source, registry.select(["softmax-argmax-dim"], preview=True))
    assert [item.confidence is not Confidence.LOW for item in found] == [bool(expected)]

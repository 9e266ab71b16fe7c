"""Smoothed labels whose probabilities do not sum to 1."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import arithmetic, names, numbers, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_SMOOTHING = LazyPattern(r"(?i)smooth")
_ONE_HOT = LazyPattern(r"\bone_hot\b|\bscatter_?\(|\beye\(")
_FILLING = frozenset({"fill_", "full", "full_like", "new_full"})
_CLEARING = frozenset({"index_fill_", "index_fill", "masked_fill_", "masked_fill"})


class Unnormalized(NamedTuple):
    """The expression at `site` gives smoothed labels the wrong share."""

    site: Site
    name: str
    instead: str
    is_sure: bool = True
    """Whether the labels are surely a distribution, not the labels of several questions with two answers each."""


class UnnormalizedSmoothing(Rule):
    """Smoothed labels do not sum to 1: the share of the other classes is wrong.

    ## What it does
    Finds three formulas of label smoothing:

    - `(1 - smoothing) * labels + 1 / n`, which adds 1 instead of `smoothing` in total
    - `labels * (1 - part) + part` with `part = smoothing / n`, which keeps too much for the class of the label
    - `labels.fill_(smoothing / (n - 2))` followed by `labels.scatter_(1, y, 1 - smoothing)`, if no code sets one of the
      `n` columns to 0

    The first two need `--preview` if the file does not create one-hot labels: multi-label targets need not sum to 1.

    ## Why is this bad?
    The targets are not a distribution. The prediction with the smallest loss differs from the smoothed labels, and an
    option `smoothing` of 0 does not turn the smoothing off.

    ## Example
    ```python
    import torch.nn.functional as F

    def smooth(classes, n, smoothing):
        labels = F.one_hot(classes, n)
        return (1.0 - smoothing) * labels + 1.0 / n
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def smooth(classes, n, smoothing):
        labels = F.one_hot(classes, n)
        return (1.0 - smoothing) * labels + smoothing / n
    ```

    ## References
    - [Rethinking the Inception Architecture for Computer Vision](https://arxiv.org/abs/1512.00567), section 7
    """

    code = "TL552"
    category = Category.CORRECTNESS
    triggers = ((b"smooth",), (b"/",), (b"1",))

    def ask(self) -> Iterator[Unnormalized]:
        for node in [] if self.model.is_test else self.model.tree.of_type(ast.BinOp):
            for product, share in ((node.left, node.right), (node.right, node.left)):
                name = _kept_share(product)
                if isinstance(node.op, ast.Add) and _SMOOTHING.search(name) and _is_inverse(share):
                    is_sure = bool(_ONE_HOT.search(self.model.tree.source.text))
                    yield Unnormalized(python_ast.site_of(share), name, f"{name} / n", is_sure)
                smoothing = self._kept_too_much(product, share) if isinstance(node.op, ast.Add) else ""
                if smoothing:
                    is_sure = bool(_ONE_HOT.search(self.model.tree.source.text))
                    yield Unnormalized(python_ast.site_of(product), smoothing, f"1 - {smoothing}", is_sure)
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            if python_ast.called_name(call) == "scatter_" and len(call.args) == 3:
                yield from self._filled(call)

    def _kept_too_much(self, product: ast.expr, share: ast.expr) -> str:
        """The smoothing of `labels * (1 - part) + part`, where `part` is the smoothing by the number of classes."""
        for factor, _ in arithmetic.factors(product):
            part = arithmetic.complement(factor)
            quotient = written.value_of(part, self.model.definitions) if isinstance(part, ast.Name) else part
            if not isinstance(quotient, ast.BinOp) or not isinstance(quotient.op, ast.Div) or part is None:
                continue
            smoothing = python_ast.dotted(quotient.left)
            if _SMOOTHING.search(smoothing) and self._is_made_of(share, part):
                return smoothing
        return ""

    def _is_made_of(self, share: ast.expr, part: ast.expr) -> bool:
        """Whether a share is a number, or a tensor that contains it: `torch.full_like(labels, part)`."""
        if python_ast.written_alike(share, part):
            return True
        function = self.model.tree.function_around(share)
        if not isinstance(share, ast.Name) or not isinstance(part, ast.Name) or function is None:
            return False
        made = [
            item.value for item in names.own_nodes(function)
            if isinstance(item, ast.Assign) and any(python_ast.dotted(target) == share.id for target in item.targets)
        ]  # fmt: skip
        scaling = (ast.Div, ast.Mult)
        is_divided = any(
            isinstance(item, ast.BinOp) and isinstance(item.op, scaling)
            for value in made for item in python_ast.walk(value)
        )  # fmt: skip
        return not is_divided and any(part.id in python_ast.names_in(value) for value in made)

    def _filled(self, scatter: ast.Call) -> Iterator[Unnormalized]:
        """The filling with too large a share before `labels.scatter_(1, y, 1 - smoothing)`."""
        labels = python_ast.dotted(scatter.func.value) if isinstance(scatter.func, ast.Attribute) else ""
        confidence = written.value_of(scatter.args[2], self.model.definitions)
        function = self.model.tree.function_around(scatter)
        name = python_ast.dotted(arithmetic.complement(confidence))
        if not labels or not name or function is None:
            return
        nodes = list(names.own_nodes(function))
        if any(_clears(node, labels) for node in nodes):
            return
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            if python_ast.called_name(call) in _FILLING and call.lineno <= scatter.lineno and self._is_of(call, labels):
                for share in (item for item in python_ast.walk(call) if isinstance(item, ast.BinOp)):
                    left_out = _left_out(share, name)
                    if left_out is not None and left_out > 1:
                        yield Unnormalized(python_ast.site_of(share), name, f"{name} / (n - 1)")

    def _is_of(self, call: ast.Call, labels: str) -> bool:
        """Whether a call fills or creates the labels."""
        statement = self.model.tree.statement(call)
        is_created = isinstance(statement, ast.Assign) and labels in map(python_ast.dotted, statement.targets)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        return is_created or python_ast.dotted(owner) == labels

    def report_Unnormalized(self, found: Unnormalized) -> None:
        wrong = f"the other classes need a total of `{found.name}`"
        if found.instead.startswith("1 - "):
            wrong = f"the labels keep `1 - {found.name} / n` instead of `{found.instead}`"
        self.report(
            found.site,
            f"the smoothed labels do not sum to 1: {wrong}",
            help=f"use `{found.instead}`",
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )


def _kept_share(node: ast.expr) -> str:
    """The name `s` of a product with `1 - s`."""
    return next(
        (name for item, _ in arithmetic.factors(node) if (name := python_ast.dotted(arithmetic.complement(item)))), ""
    )


def _is_inverse(node: ast.expr) -> bool:
    """Whether an expression is `1 / n`."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and numbers.literal(node.left) == 1


def _left_out(share: ast.BinOp, name: str) -> int | None:
    """The number `k` of `smoothing / (n - k)`."""
    below = share.right if isinstance(share.op, ast.Div) else None
    is_smoothing = python_ast.last_name(share.left) == name.rpartition(".")[2]
    if not is_smoothing or not isinstance(below, ast.BinOp) or not isinstance(below.op, ast.Sub):
        return None
    return below.right.value if isinstance(below.right, ast.Constant) and isinstance(below.right.value, int) else None


def _clears(node: ast.AST, labels: str) -> bool:
    """Whether code sets a part of the labels."""
    if isinstance(node, ast.Subscript) and not written.is_load(node):
        return python_ast.dotted(node.value) == labels
    return isinstance(node, ast.Call) and python_ast.called_name(node) in _CLEARING

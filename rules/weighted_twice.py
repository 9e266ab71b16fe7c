"""Meters that weight by the batch size what contains it already."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import batch_sums, names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import FunctionInfo
    from torchlint.syntax.python_ast import Site


class Weighted(NamedTuple):
    """The call at `site` gives the meter `name` a sum over the batch and the batch size."""

    site: Site
    name: str
    is_count: bool


class WeightedTwice(Rule):
    """A meter multiplies a sum over the batch by the batch size.

    ## What it does
    Finds calls to `meter.update(value, n)` where the class of the meter adds `value * n` and `n` is the batch size. The
    value is a number of correct predictions, or a loss times the batch size.

    ## Why is this bad?
    The average is too large by a factor of the batch size. An accuracy exceeds 1, and a loss is not comparable with
    other runs.

    ## Example
    ```python
    import torch

    class Meter:
        def __init__(self):
            self.sum = self.count = 0

        def update(self, value, n=1):
            self.sum += value * n
            self.count += n

    def evaluate(model, loader):
        accuracy = Meter()
        for x, y in loader:
            correct = (model(x).argmax(1) == y).sum().item()
            accuracy.update(correct, x.size(0))
        return accuracy.sum / accuracy.count
    ```

    Use instead:
    ```python
    import torch

    class Meter:
        def __init__(self):
            self.sum = self.count = 0

        def update(self, value, n=1):
            self.sum += value * n
            self.count += n

    def evaluate(model, loader):
        accuracy = Meter()
        for x, y in loader:
            share = (model(x).argmax(1) == y).float().mean().item()
            accuracy.update(share, x.size(0))
        return accuracy.sum / accuracy.count
    ```
    """

    code = "TL635"
    category = Category.CORRECTNESS
    triggers = ((b"update",), (b"Meter", b"+="), (b"torch",))

    def ask(self) -> Iterator[Weighted]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            if not isinstance(call.func, ast.Attribute) or call.func.attr != "update" or len(call.args) != 2:
                continue
            value, count = (self._meaning(item) for item in call.args)
            is_count = batch_sums.matches(value) is True
            if batch_sums.is_batch_size(count) and (is_count or _has_batch_size(value)):
                method = self._update_of(call.func.value)
                if method is not None and _multiplies(method):
                    yield Weighted(python_ast.site_of(call), python_ast.dotted(call.func.value), is_count)

    def _meaning(self, node: ast.expr) -> ast.expr:
        value = names.only_value(node, self.model.definitions) if isinstance(node, ast.Name) else None
        return value if value is not None else node

    def _update_of(self, meter: ast.expr) -> FunctionInfo | None:
        """The method `update` of the class that creates a meter."""
        made = written.value_of(meter, self.model.definitions)
        known = self.model.definitions
        info = known.class_named(python_ast.dotted(made.func)) if isinstance(made, ast.Call) else None
        return info.method("update") if info is not None else None

    def report_Weighted(self, found: Weighted) -> None:
        what = "the loss already includes it"
        if found.is_count:
            what = "the number of correct predictions already covers the whole batch"
        self.report(
            found.site,
            f"`{found.name}` multiplies by the batch size again: {what}",
            help="pass the mean over the batch",
        )


def _has_batch_size(value: ast.expr) -> bool:
    """Whether a value is a number times the batch size."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mult):
        return False
    return any(batch_sums.is_batch_size(item) for item in (value.left, value.right))


def _multiplies(method: FunctionInfo) -> bool:
    """Whether a method adds the product of its two arguments to an attribute, and the second to another."""
    if len(method.parameters) < 3:
        return False
    value, count = method.parameters[1:3]
    added = [node.value for node in python_ast.walk(method.node) if isinstance(node, ast.AugAssign)]
    products = [item for item in added if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mult)]
    sides = [{python_ast.dotted(item.left), python_ast.dotted(item.right)} for item in products]
    return {value, count} in sides and any(python_ast.dotted(item) == count for item in added)

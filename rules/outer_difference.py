"""Differences of a column and a vector, which are matrices."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import names, numbers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_LOSSES = frozenset("mse_loss smooth_l1_loss l1_loss huber_loss".split())
_KEEPING = frozenset("detach float clone cpu cuda to".split())


class Outer(NamedTuple):
    """The difference at `site` is a matrix, because `column` is squeezed only at `squeezed`."""

    site: Site
    squeezed: Site
    column: str
    vector: str


class OuterDifference(Rule):
    """A column minus a vector gives a matrix.

    ## What it does
    Finds `returns - values` in a function that computes `F.mse_loss(values.squeeze(-1), returns)`: the loss shows that
    `values` has the shape (batch, 1) and `returns` the shape (batch).

    ## Why is this bad?
    PyTorch broadcasts the difference to a matrix: it subtracts each value from every return. If the differences are
    advantages, each action gets the returns of all samples in the batch. The mean is still a number, so there is no
    error.

    ## Example
    ```python
    import torch.nn.functional as F

    def loss(log_probs, values, returns):
        value_loss = F.mse_loss(values.squeeze(-1), returns)
        advantages = returns - values.detach()
        return value_loss - (advantages * log_probs).mean()
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def loss(log_probs, values, returns):
        values = values.squeeze(-1)
        value_loss = F.mse_loss(values, returns)
        advantages = returns - values.detach()
        return value_loss - (advantages * log_probs).mean()
    ```

    ## References
    - [Broadcasting](https://docs.pytorch.org/docs/stable/notes/broadcasting.html)
    """

    code = "TL542"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"squeeze(",), (b"_loss",))

    def ask(self) -> Iterator[Outer]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            if python_ast.called_name(call) not in _LOSSES or len(call.args) < 2:
                continue
            for first, second in (call.args[:2], call.args[1::-1]):
                column, vector = _squeezed(first), python_ast.dotted(_kept(second))
                if column and vector:
                    yield from self._differences(call, column, vector)

    def _differences(self, loss: ast.Call, column: str, vector: str) -> Iterator[Outer]:
        """The differences of a column and a vector in the function of a loss, which bind neither again in between."""
        scope = self.model.tree.scope_around(loss)
        bound = [node.lineno for node in names.stores({column, vector}, scope)]
        for node in names.own_nodes(scope):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                sides = {python_ast.dotted(_kept(node.left)), python_ast.dotted(_kept(node.right))}
                first, last = sorted((node.lineno, loss.lineno))
                if sides == {column, vector} and not any(first <= line <= last for line in bound):
                    yield Outer(python_ast.site_of(node), python_ast.site_of(loss), column, vector)

    def report_Outer(self, found: Outer) -> None:
        self.report(
            found.site,
            f"`{found.column}` has a second dimension of size 1, so this subtracts each sample from every other",
            related=[(found.squeezed, f"this loss squeezes `{found.column}` to the shape of `{found.vector}`")],
            help=f"use `{found.column}.squeeze(-1)` here, too",
        )


def _squeezed(node: ast.expr) -> str:
    """The tensor of `x.squeeze(-1)` or `x.squeeze(1)`, also after `detach`."""
    node = _kept(node)
    if not isinstance(node, ast.Call) or python_ast.called_name(node) != "squeeze" or len(node.args) != 1:
        return ""
    is_last = isinstance(node.func, ast.Attribute) and numbers.literal(node.args[0]) in (1, -1)
    return python_ast.dotted(_kept(node.func.value)) if is_last and isinstance(node.func, ast.Attribute) else ""


def _kept(node: ast.expr) -> ast.expr:
    """The tensor before calls that keep its shape: `x` of `x.detach().float()`."""
    node = python_ast.without_calls(node, _KEEPING)
    return node.value if isinstance(node, ast.Attribute) and node.attr == "data" else node

"""Differences of a column and a vector, which are matrices."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import names, numbers, written
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
    `values` has the shape (batch, 1) and `returns` the shape (batch). Also finds `x.gather(1, i.unsqueeze(1))` beside
    `x[:, k]` or `x.max(1).values`.

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
    triggers = ((b"torch",), (b"squeeze(", b"gather"), (b"_loss", b"gather"))

    def ask(self) -> Iterator[Outer]:
        for node in [] if self.model.is_test else self.model.tree.of_type(ast.BinOp):
            if isinstance(node.op, (ast.Sub, ast.Add, ast.Mult)):
                yield from self._gathered(node)
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

    def _gathered(self, node: ast.BinOp) -> Iterator[Outer]:
        """A column that `gather` takes from a matrix, beside a vector from the same matrix."""
        sides = [self._value(node.left), self._value(node.right)]
        for one, other in (sides, sides[::-1]):
            matrix = self._matrix_of_column(one)
            if matrix and matrix == _matrix_of_vector(other):
                site = python_ast.site_of
                yield Outer(site(node), site(one), f"{matrix}.gather(...)", self.model.tree.code(other))

    def _value(self, node: ast.expr) -> ast.expr:
        return _kept(written.value_of(node, self.model.definitions) if isinstance(node, ast.Name) else node)

    def _matrix_of_column(self, node: ast.expr) -> str:
        """The matrix `x` of `x.gather(1, i.unsqueeze(1))`, which has the shape (batch, 1)."""
        if not isinstance(node, ast.Call) or python_ast.called_name(node) != "gather":
            return ""
        is_method = isinstance(node.func, ast.Attribute) and python_ast.dotted(node.func.value) != "torch"
        index = written.argument(node, 1, "index")
        is_along = numbers.literal(written.argument(node, 0, "dim")) in (1, -1)
        is_column = is_method and is_along and index is not None and self._is_column(index)
        return python_ast.dotted(_kept(node.func.value)) if is_column and isinstance(node.func, ast.Attribute) else ""

    def _is_column(self, node: ast.expr, steps: int = 4) -> bool:
        """Whether an index surely has the shape (batch, 1)."""
        node = written.value_of(node, self.model.definitions) if isinstance(node, ast.Name) else node
        node = python_ast.without_calls(node, _KEEPING | {"long"})
        if isinstance(node, ast.Subscript):
            return _is_new_axis(node.slice)
        if not isinstance(node, ast.Call) or not steps:
            return False
        given = [numbers.literal(item) for item in node.args]
        name = python_ast.called_name(node)
        if name == "gather" and len(node.args) == 2:
            return self._is_column(node.args[1], steps - 1)
        return (name in ("view", "reshape") and given == [-1, 1]) or (name == "unsqueeze" and given in ([1], [-1]))

    def report_Outer(self, found: Outer) -> None:
        self.report(
            found.site,
            f"`{found.column}` has a second dimension of size 1, so this subtracts each sample from every other",
            related=[(found.squeezed, self._evidence(found))],
            help=f"use `{found.column}.squeeze(-1)` here{', too' if 'gather' not in found.column else ''}",
        )

    def _evidence(self, found: Outer) -> str:
        if "gather" in found.column:
            return "the index has a column for each sample, and so has the result"
        return f"this loss squeezes `{found.column}` to the shape of `{found.vector}`"


def _matrix_of_vector(node: ast.expr) -> str:
    """The matrix `x` of `x[:, k]`, `x[rows, k]`, `x.max(1)[0]`, `x.max(1).values`, `x.mean(1)` and `x.sum(1)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == 2:
        is_new = any(isinstance(item, (ast.Constant, ast.Slice)) for item in node.slice.elts[1:])
        is_number = numbers.literal(node.slice.elts[1]) is not None
        return python_ast.dotted(_kept(node.value)) if is_number or not is_new else ""
    is_part = isinstance(node, ast.Attribute) and node.attr == "values"
    is_first = isinstance(node, ast.Subscript) and numbers.literal(node.slice) == 0
    call = node.value if (is_part or is_first) and isinstance(node, (ast.Attribute, ast.Subscript)) else node
    if (
        not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Attribute)
        or len(call.args) + len(call.keywords) != 1
    ):
        return ""
    kinds = ("max", "min") if call is not node else ("mean", "sum", "logsumexp")
    dimension = numbers.literal(written.argument(call, 0, "dim"))
    return python_ast.dotted(_kept(call.func.value)) if call.func.attr in kinds and dimension in (1, -1) else ""


def _is_new_axis(index: ast.expr) -> bool:
    """Whether an index adds a dimension to a vector: `i[:, None]`."""
    parts = index.elts if isinstance(index, ast.Tuple) else []
    return len(parts) == 2 and isinstance(parts[0], ast.Slice) and python_ast.is_literal(parts[1], None)


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

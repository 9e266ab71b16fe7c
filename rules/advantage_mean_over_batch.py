"""Dueling networks that subtract the mean advantage of the whole batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_ADVANTAGE = LazyPattern(r"(?i)adv|^a$|_a$")
_VALUE = LazyPattern(r"(?i)val|^v$|_v$")


class BatchMean(NamedTuple):
    """The mean at `site` is over all samples and actions."""

    site: Site
    advantage: str


class AdvantageMeanOverBatch(Rule):
    """A dueling network subtracts the mean advantage of the whole batch.

    ## What it does
    Finds `value + advantage - advantage.mean()` where the mean has no `dim` argument.

    ## Why is this bad?
    The Q-values of a state depend on the other states of the batch, so they differ between training and acting. The
    mean should be over the actions of each state. Without `dim`, it is over all states of the batch.

    ## Example
    ```python
    import torch
    from torch import nn

    class Dueling(nn.Module):
        def forward(self, features):
            value, advantage = self.value(features), self.advantage(features)
            return value + advantage - advantage.mean()
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    class Dueling(nn.Module):
        def forward(self, features):
            value, advantage = self.value(features), self.advantage(features)
            return value + advantage - advantage.mean(dim=1, keepdim=True)
    ```

    ## References
    - [Dueling Network Architectures for Deep Reinforcement Learning](https://arxiv.org/abs/1511.06581)
    """

    code = "TL514"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"mean", b"max"), (b"adv", b"Adv", b"ADV", b"a.mean", b"A.mean"))

    def ask(self) -> Iterator[BatchMean]:
        for node in [] if self.model.is_test else self.model.tree.of_type(ast.BinOp):
            if isinstance(self.model.tree.parent(node), ast.BinOp) or not self._is_of_network(node):
                continue
            terms = list(_terms(node, positive=True))
            added = [python_ast.last_name(item) for item, positive in terms if positive]
            taken = [item for item, positive in terms if not positive]
            if len(added) == 2 and len(taken) == 1 and (of := _whole_mean(taken[0])) is not None:
                name = python_ast.last_name(of)
                others = [item for item in added if item != name]
                if len(others) == 1 and _ADVANTAGE.search(name) and _VALUE.search(others[0]):
                    yield BatchMean(python_ast.site_of(taken[0]), name)

    def _is_of_network(self, node: ast.AST) -> bool:
        """Whether code is in a method, as that of a network: functions normalize advantages of single episodes."""
        return self.model.definitions.method_around(node) is not None

    def report_BatchMean(self, found: BatchMean) -> None:
        self.report(
            found.site,
            f"the mean of `{found.advantage}` is over all states of the batch, not over the actions of each state",
            help=f"use `{found.advantage}.mean(dim=1, keepdim=True)`",
        )


def _terms(node: ast.expr, *, positive: bool) -> Iterator[tuple[ast.expr, bool]]:
    """The terms of a sum, and whether it adds them."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _terms(node.left, positive=positive)
        yield from _terms(node.right, positive=positive == isinstance(node.op, ast.Add))
    else:
        yield node, positive


def _whole_mean(node: ast.expr) -> ast.expr | None:
    """The tensor of whose elements an expression is the mean: `x.mean()`, `torch.mean(x)`."""
    if not isinstance(node, ast.Call) or node.keywords or not isinstance(node.func, ast.Attribute):
        return None
    is_function = python_ast.dotted(node.func) == "torch.mean"
    if node.func.attr != "mean" or len(node.args) != int(is_function):
        return None
    return node.args[0] if is_function else node.func.value

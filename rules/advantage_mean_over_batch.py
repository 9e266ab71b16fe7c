"""Dueling networks that subtract the mean advantage of the whole batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import arithmetic
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
            terms = list(arithmetic.terms(node))
            added = [python_ast.last_name(item) for item, sign in terms if sign > 0]
            taken = [item for item, sign in terms if sign < 0]
            of = arithmetic.reduced(taken[0], "mean", self.model.definitions) if len(taken) == 1 else None
            if len(added) == 2 and of is not None:
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

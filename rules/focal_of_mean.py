"""Focal losses whose weight comes from a mean and is the same for all samples."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import values
from torchlint.model.queries import losses
from torchlint.pytorch import operators
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site


class OfMean(NamedTuple):
    """The probability at `site` is computed from the loss at `loss`, which is the mean of the batch."""

    site: Site
    loss: Site


class FocalOfMean(Rule):
    """A focal loss weights the mean of a batch instead of each sample.

    ## What it does
    Finds `(1 - torch.exp(-loss)) ** gamma * loss` where `loss` is already averaged over the batch. The reduction may be
    an argument of a loss module, if its default is the mean.

    ## Why is this bad?
    `exp(-loss)` is the probability of a sample's class only if `loss` belongs to that sample. For a mean, it is one
    number for the whole batch, so easy and hard samples get the same weight. The result is a function of the mean
    cross-entropy, not a focal loss.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def focal(logits, targets, gamma=2.0):
        loss = F.cross_entropy(logits, targets)
        p = torch.exp(-loss)
        return (1 - p) ** gamma * loss
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def focal(logits, targets, gamma=2.0):
        loss = F.cross_entropy(logits, targets, reduction="none")
        p = torch.exp(-loss)
        return ((1 - p) ** gamma * loss).mean()
    ```

    ## References
    - [Focal Loss for Dense Object Detection](https://arxiv.org/abs/1708.02002)
    """

    code = "TL538"
    category = Category.CORRECTNESS
    triggers = ((b"exp",), (b"cross_entropy", b"Loss"), (b"**", b"pow"))
    calls = frozenset({"exp"})

    def ask(self) -> Iterator[OfMean]:
        seen = set[Site]()
        for value, _ in self.model.computed if not self.model.is_test else ():
            loss = self._mean_under(value) if value.op == operators.EXP else None
            if loss is not None and loss.site is not None and value.site is not None and value.site not in seen:
                if self._is_focal(value):
                    seen.add(value.site)
                    yield OfMean(value.site, loss.site)

    def _mean_under(self, power: values.Tensor) -> values.Tensor | None:
        """The loss in `exp(-loss)`, if it is the mean of a batch."""
        operand = values.resolved(power.parents[0]) if power.parents else None
        if not isinstance(operand, values.Tensor) or operand.op != operators.NEG or not operand.parents:
            return None
        loss = values.resolved(operand.parents[0])
        if (
            not isinstance(loss, values.Tensor)
            or not losses.is_mean_by_default(loss, self.model.tree)
            or self._is_of_sample(loss)
        ):
            return None
        return loss

    def _is_of_sample(self, loss: values.Tensor) -> bool:
        """Whether a loop over samples computes a loss: from `logits[i]`, or from the elements of `zip(logits, y)`."""
        given = values.resolved(losses.operands(loss)[0]) if losses.operands(loss) else None
        if given is None or given.site is None:
            return False
        node = self.model.tree.node(given.site)
        is_picked = isinstance(node, ast.Subscript) and bool(python_ast.names_read(node.slice))
        return is_picked or isinstance(given, values.Iteration)

    def _is_focal(self, probability: values.Tensor) -> bool:
        """Whether an expression is a power of `1 - p`."""
        for user in self.model.domain.users(probability):
            if user.op in (operators.SUB, operators.RSUB):
                if any(item.op == operators.POW for item in self.model.domain.users(user)):
                    return True
        return False

    def report_OfMean(self, found: OfMean) -> None:
        self.report(
            found.site,
            "this probability belongs to no single sample: the loss is already averaged over the batch",
            related=[(found.loss, "this computes the mean")],
            help='compute the loss with `reduction="none"`, and average at the end',
        )

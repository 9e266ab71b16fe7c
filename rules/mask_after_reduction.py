"""Masks and weights that are applied after the reduction of a loss, where they have no effect."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import masks, scalars
from torchlint.model.relations import domain
from torchlint.pytorch import operators
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_NAMED = LazyPattern(r"(?i)(?:^|[._])(?:\w*mask\w*|(?:sample_|is_|importance_)?weights(?:_batch)?|non_?pad\w*)$")
_OF_SEVERAL = frozenset({"FloatTensor", "from_numpy"})
"""Functions that make a tensor with dimensions from a sequence or an array."""
_REDUCTIONS = frozenset({operators.SUM, operators.MEAN})


class TooLate(NamedTuple):
    """A mask or weights multiply at `product` the single number that `reduction` computes."""

    product: Site
    reduction: Site
    label: str
    is_sure: bool
    """Whether the factor surely has several elements: the code also sums it, or makes a tensor from several numbers."""


class MaskAfterReduction(Rule):
    """A mask or weights apply to a loss that is already a single number.

    ## What it does
    Finds losses and sums over all elements that are multiplied by a mask, or by one weight per sample, and then summed
    or averaged. Example: `(F.mse_loss(q, target) * weights).mean()`. If only the name of a factor, such as `weights`,
    says that it has one number per sample, the finding needs `--preview`.

    ## Why is this bad?
    The loss is already averaged, so each sample gets the same value. `(loss * mask).sum() / mask.sum()` equals `loss`,
    including the padding. Importance weights scale the whole batch by their mean. If a sum over the batch is multiplied
    by a mask and summed again, it is added once for each position, so the loss grows with the batch.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def loss(logits, targets, lengths):
        mask = torch.arange(logits.size(1))[None] < lengths[:, None]
        each = F.cross_entropy(logits.transpose(1, 2), targets)
        return (each * mask).sum() / mask.sum()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def loss(logits, targets, lengths):
        mask = torch.arange(logits.size(1))[None] < lengths[:, None]
        each = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        return (each * mask).sum() / mask.sum()
    ```

    ## References
    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html):
      `reduction`
    """

    code = "TL531"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"*", b"mul"), (b"mean", b"sum"), (b"loss", b"Loss", b"mean", b"sum", b"cross_entropy"))
    calls = frozenset(
        "mse_loss cross_entropy nll_loss smooth_l1_loss binary_cross_entropy sum mean".split()
    ) | frozenset("MSELoss CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss SmoothL1Loss".split())

    def ask(self) -> Iterator[TooLate]:
        seen = set[Site]()
        for value, _ in self.model.computed if not self.model.is_test else ():
            if value.op in _REDUCTIONS and scalars.reduces_all(value, self.model.program):
                for found in self._late(value):
                    if found.product not in seen:
                        seen.add(found.product)
                        yield found

    def _late(self, total: values.Tensor) -> Iterator[TooLate]:
        for product in self._products(total.parents[0]):
            for single, factor in (product.parents[:2], product.parents[1::-1]):
                reduction = scalars.reduction_of(single, self.model.program)
                if reduction is None or reduction.site is None or product.site is None:
                    continue
                if reduction.parents and self._is_mask(reduction.parents[0]):
                    continue  # a number of positions, not a loss
                factor = values.resolved(factor)
                if scalars.reduction_of(factor, self.model.program) is not None:
                    continue
                label = self._name(factor)
                cancels = self._is_summed(factor)
                if cancels or self._is_mask(factor):
                    yield TooLate(product.site, reduction.site, label, cancels)
                elif (given := self._vector_of(factor)) is not None and _NAMED.search(given.label):
                    yield TooLate(product.site, reduction.site, label, True)
                elif _NAMED.search(label) and self._is_of_batch(factor):
                    yield TooLate(product.site, reduction.site, label, False)

    def _name(self, factor: values.Value) -> str:
        label = factor.label if factor.label[:1] != "[" else ""
        return label or (self.model.tree.code(factor.site) if factor.site is not None else "")

    def _vector_of(self, factor: values.Value) -> values.Value | None:
        """The numbers from a sampled batch of which the code makes a tensor: `torch.FloatTensor(weights)`."""
        made = masks.adapted(factor)
        node = self.model.tree.node(made.site) if made.site is not None else None
        if not isinstance(node, ast.Call) or python_ast.called_name(node) not in _OF_SEVERAL or len(node.args) != 1:
            return None
        given = self.model.program.observations.copied.get(made, ()) or made.parents
        return next((item for item in map(values.resolved, given) if isinstance(item, values.Element)), None)

    def _products(self, value: values.Value) -> Iterator[values.Tensor]:
        """The products in the terms of a sum."""
        stack = [value]
        for _ in range(16):
            item = values.resolved(stack.pop()) if stack else None
            if isinstance(item, values.Tensor) and item.op == operators.MUL and len(item.parents) == 2:
                yield item
                stack.extend(item.parents)
            elif isinstance(item, values.Tensor) and item.op in (operators.ADD, operators.SUB, operators.DIV):
                stack.extend(item.parents)

    def _is_summed(self, factor: values.Value) -> bool:
        """Whether the code takes the sum or mean of all elements of a factor, so the factor has several elements."""
        users = [user for user in self.model.domain.users(factor) if user.op in _REDUCTIONS]
        return any(user.parents and values.resolved(user.parents[0]) is factor for user in users)

    def _is_of_batch(self, factor: values.Value) -> bool:
        """Whether a factor is part of a batch, directly or as a new tensor."""
        made = masks.adapted(factor)
        copied = self.model.program.observations.copied.get(made, ())
        return any(isinstance(values.resolved(item), values.Element) for item in (made, *copied))

    def _is_mask(self, factor: values.Value) -> bool:
        numbers = self.model.domain.of(masks.adapted(factor))
        return numbers is not None and numbers.kind is domain.Kind.MASK

    def report_TooLate(self, found: TooLate) -> None:
        name = f"`{found.label}`" if found.label and len(found.label) < 40 else "the factor"
        self.report(
            found.product,
            f"the loss is reduced to one number before {name} is applied, so every element gets the same weight",
            related=[(found.reduction, "this reduces the loss to one number")],
            help='use `reduction="none"` in the loss, and reduce after this product',
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )

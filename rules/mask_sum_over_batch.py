"""Masked means of sequences that are divided by the mask's sum over the whole batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import masks, numbers, scalars
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_BOUNDS = frozenset({"clamp", "clamp_min", "float", "to", operators.ADD})
_OF_TOKENS = LazyPattern(r"(?i)(attention|attn|input|token|padding|pad)_?mask$")
"""Names of masks with one element for each token of each sequence."""
_STEPS = 1
"""The dimension of the positions in `(batch, positions, features)`."""


class BatchSum(NamedTuple):
    """The quotient at `quotient` divides a sum over positions by the sum at `divisor` over the whole mask."""

    quotient: Site
    divisor: Site


class MaskSumOverBatch(Rule):
    """A masked mean of each sequence is divided by the mask's sum over the batch.

    ## What it does
    Finds quotients in the graph of a loss whose numerator is `(x * mask[:, :, None]).sum(1)` and whose denominator is
    `mask.sum()`. Reported only if the mask has a dimension for the batch and one for the positions.

    ## Why is this bad?
    The numerator is a sum over the positions of one sequence, but the denominator counts the positions of all
    sequences. Each vector is too short by a factor of about the batch size. It also depends on the other sequences of
    the batch, so a sentence gets a different embedding when it is encoded alone.

    ## Example
    ```python
    import torch

    def pool(layer: torch.nn.Linear, x, mask):
        out = layer(x)
        pooled = (out * mask[:, :, None]).sum(1) / mask.sum()
        pooled.norm(dim=1).mean().backward()
    ```

    Use instead:
    ```python
    import torch

    def pool(layer: torch.nn.Linear, x, mask):
        out = layer(x)
        pooled = (out * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        pooled.norm(dim=1).mean().backward()
    ```

    ## References
    - [torch.sum](https://docs.pytorch.org/docs/stable/generated/torch.sum.html)
    """

    code = "TL548"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"torch",), (b"sum",), (b"/", b"div"), (b"None", b"unsqueeze"))
    calls = frozenset({"sum"})

    def ask(self) -> Iterator[BatchSum]:
        seen = set[Site]()
        for value, calls in self.model.computed if not self.model.is_test else ():
            found = self._batch_sum(value)
            is_tracked = found and self.model.tracking.tracked_in_calls(value, calls) is not values.Answer.NO
            if found is not None and is_tracked and found.quotient not in seen:
                seen.add(found.quotient)
                yield found

    def _batch_sum(self, value: values.Tensor) -> BatchSum | None:
        if value.op != operators.DIV or len(value.parents) != 2 or value.site is None:
            return None
        count = self._count(value.parents[1])
        if count is None or count.site is None or not self._is_pooled(value.parents[0], count.parents[0]):
            return None
        return BatchSum(value.site, count.site) if not self._is_summed(value) else None

    def _count(self, divisor: values.Value) -> values.Tensor | None:
        """The sum over all elements that a denominator is, without bounds."""
        divisor = values.resolved(divisor)
        while isinstance(divisor, values.Tensor) and divisor.op in _BOUNDS and divisor.parents:
            divisor = values.resolved(divisor.parents[0])
        if not isinstance(divisor, values.Tensor) or divisor.op != operators.SUM or not divisor.parents:
            return None
        return divisor if scalars.reduces_all(divisor, self.model.program) else None

    def _is_pooled(self, total: values.Value, mask: values.Value) -> bool:
        """Whether a numerator is the sum over the positions of a product with the mask."""
        total = values.resolved(total)
        if not isinstance(total, values.Tensor) or total.op != operators.SUM or not total.parents:
            return False
        product = values.resolved(total.parents[0])
        is_product = isinstance(product, values.Tensor) and product.op == operators.MUL
        return (
            is_product
            and numbers.dimension(total, self.model.program) == _STEPS
            and any(self._is_widened(item, masks.adapted(mask)) for item in product.parents)
        )

    def _is_widened(self, factor: values.Value, mask: values.Value) -> bool:
        """Whether a factor is the mask of two dimensions, with a third for the features."""
        factor = values.resolved(factor)
        while isinstance(factor, values.Tensor) and factor.op in _BOUNDS | {operators.EXPAND} and factor.parents:
            factor = values.resolved(factor.parents[0])
        if not isinstance(factor, (values.Tensor, values.Element)) or not factor.parents or factor.site is None:
            return False
        node, inner = self.model.tree.node(factor.site), factor.parents[0]
        if isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
            is_new = [isinstance(item, ast.Constant) and item.value is None for item in parts]
            is_third = is_new == [False, False, True] and all(isinstance(item, ast.Slice) for item in parts[:2])
        else:
            is_third = isinstance(factor, values.Tensor) and self._adds_third(factor, inner)
        return is_third and masks.adapted(inner) is mask

    def _adds_third(self, factor: values.Tensor, mask: values.Value) -> bool:
        dimension = numbers.dimension(factor, self.model.program) if factor.op == operators.UNSQUEEZE else None
        types = self.model.shapes.types_of(mask)
        is_flat = bool(types) and all(item.rank == 2 for item in types)
        return dimension == 2 or (dimension == -1 and (is_flat or bool(_OF_TOKENS.search(values.resolved(mask).label))))

    def _is_summed(self, mean: values.Tensor) -> bool:
        """Whether the code sums the quotients of all sequences, so that their divisor is right."""
        return any(user.op == operators.SUM for user in self.model.domain.users(mean))

    def report_BatchSum(self, found: BatchSum) -> None:
        self.report(
            found.quotient,
            "a sum over one sequence is divided by the mask's sum over all sequences of the batch",
            related=[(found.divisor, "this counts the positions of the whole batch")],
            help="sum the mask over the positions only: `mask.sum(1, keepdim=True)`",
        )

"""Attention weights whose softmax is along another dimension than the product with the values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import attention, numbers
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_CLUSTERS = LazyPattern(r"(?i)cluster|cent(?:er|roid)|assign|slot|vlad|code_?(?:book|word)|dispatch|capsule")
"""Names around products of soft assignments with samples."""
_PRODUCTS = frozenset({"matmul", "bmm", "mm"})
_STACKING = frozenset({"stack"})


class OtherDimension(NamedTuple):
    """The softmax at `softmax` is along `dimension`, but `product` sums its weights along another one."""

    softmax: Site
    product: Site
    dimension: int
    summed: int
    """The dimension that the product sums over, counted from the end."""
    is_first: bool


class SoftmaxOverQueries(Rule):
    """Attention weights do not sum to 1 for each query.

    ## What it does
    Finds `softmax(q @ k.transpose(-2, -1), dim=1) @ v`. The softmax of the scores is not along the last dimension, but
    the product with the values sums along it. A view may merge the other dimensions before the softmax. Also finds
    `(weights * values).sum(0)` if both factors are stacked along dimension 0, but the softmax of the weights is along
    another one.

    Not reported if the code divides by the sum along the last dimension, or if both factors are attention weights.

    ## Why is this bad?
    Each position gets a weighted sum of values whose weights do not sum to 1. The attention of one query depends on the
    other queries. In a causal model, it depends on later positions. The model trains, but learns less.

    ## Example
    ```python
    import torch

    def attend(q, k, v):
        scores = torch.bmm(q, k.transpose(1, 2))
        return torch.bmm(torch.softmax(scores, dim=1), v)
    ```

    Use instead:
    ```python
    import torch

    def attend(q, k, v):
        scores = torch.bmm(q, k.transpose(1, 2))
        return torch.bmm(torch.softmax(scores, dim=2), v)
    ```

    ## References
    - [torch.nn.functional.softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html)
    """

    code = "TL718"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"oftmax",), (b"bmm", b"matmul", b"@", b"einsum", b"stack"))
    calls = frozenset({"bmm", "matmul", "einsum", "softmax", "Softmax", "stack"})

    def ask(self) -> Iterator[OtherDimension]:
        seen = set[Site]()
        for value, _ in self.model.computed if not self.model.is_test else ():
            found = self._wrong(value) or self._wrong_choice(value)
            if found is not None and found.softmax not in seen:
                seen.add(found.softmax)
                yield found

    def _wrong(self, product: values.Tensor) -> OtherDimension | None:
        if all(map(attention.are_weights, product.parents[-2:])):
            return None
        for place, (weights, summed) in enumerate(self._factors(product)):
            views: list[values.Tensor] = []
            softmax = attention.softmax_of(weights, views)
            if softmax is None or softmax.site is None or product.site is None or self._is_assignment(product):
                continue
            dimension = attention.dimension(softmax, self.model.program)
            rank = attention.rank(attention.scores_of(softmax), self.model)
            if dimension is None or rank is None:
                continue
            behind = dimension - rank if dimension >= 0 else dimension
            is_known = not views or (-1 in (behind, summed) and attention.keep_last(views, softmax, self.model.program))
            if behind != summed and is_known:
                return OtherDimension(softmax.site, product.site, dimension, summed, place == 0)
        return None

    def _wrong_choice(self, total: values.Tensor) -> OtherDimension | None:
        """A sum over stacked alternatives whose weights sum to 1 along another dimension."""
        product = values.resolved(total.parents[0]) if total.op == operators.SUM and total.parents else None
        summed = numbers.dimension(total, self.model.program)
        if not isinstance(product, values.Tensor) or product.op != operators.MUL or summed is None:
            return None
        for weights, others in (product.parents[:2], product.parents[1::-1]):
            softmax = attention.softmax_of(weights)
            given = attention.scores_of(softmax) if softmax is not None else None
            dimension = attention.dimension(softmax, self.model.program) if softmax is not None else None
            if given is None or dimension is None or softmax is None or softmax.site is None or product.site is None:
                continue
            are_stacked = self._stacked(given) == self._stacked(others) == summed
            if are_stacked and dimension != summed and (dimension < 0) == (summed < 0):
                return OtherDimension(softmax.site, product.site, dimension, summed, is_first=True)
        return None

    def _stacked(self, value: values.Value) -> int | None:
        """The dimension along which a tensor is a stack of several tensors."""
        value = values.resolved(value)
        if not isinstance(value, values.Tensor) or value.op not in _STACKING:
            return None
        is_named = numbers.argument(value, 0, "dim", self.model.program) is not None
        return numbers.dimension(value, self.model.program) if is_named else 0

    def _is_assignment(self, product: values.Tensor) -> bool:
        """Whether a product sums the samples that belong to each cluster, by the names around it."""
        around = self.model.definitions.function_around(self.model.tree.node(product.site)) if product.site else None
        labels = [values.resolved(item).label for item in product.parents]
        return any(map(_CLUSTERS.search, [around.name if around is not None else "", *labels]))

    def _factors(self, product: values.Tensor) -> Iterator[tuple[values.Value, int]]:
        """The two factors of a product, each with the one dimension that it is summed over, counted from the end."""
        factors = product.parents[-2:]
        letters = attention.equation(product, self.model.program)
        if product.op in _PRODUCTS and len(product.parents) == 2:
            yield from zip(factors, (-1, -2), strict=True)
        elif letters is not None and len(factors) == 2:
            shared = {*letters[0]} & {*letters[1]}
            summed = shared - {*letters[2]}
            is_mixing = summed == shared and max(map(len, letters[:2])) > 2  # of heads, by a matrix for all samples
            if len(summed) == 1 and not is_mixing:
                letter = summed.pop()
                yield from (
                    (factor, text.index(letter) - len(text)) for factor, text in zip(factors, letters[:2], strict=True)
                )

    def report_OtherDimension(self, found: OtherDimension) -> None:
        is_matrix = found.summed == (-1 if found.is_first else -2)
        self.report(
            found.softmax,
            f"the softmax is along dimension {found.dimension}, "
            f"but the weights are summed along dimension {found.summed}",
            related=[(found.product, "the weighted sum is here")],
            help="transpose the weights, or use `dim=-2`"
            if is_matrix and not found.is_first
            else f"use `dim={found.summed}`",
        )

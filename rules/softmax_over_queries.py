"""Attention weights whose softmax goes over another dimension than the product with the values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.model.queries import masks
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_PRODUCTS = frozenset({"matmul", "bmm", "mm"})
_KEEPING = frozenset({"dropout", "masked_fill", "clone", "contiguous", "float", "to", operators.MUL, operators.DIV}) | {
    operators.ADD,
    "type_as",
    "half",
}


class OtherDimension(NamedTuple):
    """The weights that the softmax at `softmax` makes over `dimension` are summed over another one at `product`."""

    softmax: Site
    product: Site
    dimension: int
    is_first: bool
    """Whether the weights are the first factor, which is summed over its last dimension."""


class SoftmaxOverQueries(Rule):
    """The weights of attention do not sum to 1 for each query.

    ## What it does
    Finds `softmax(q @ k.transpose(-2, -1), dim=1) @ v`: the softmax of scores goes over one dimension, and the product
    with the values sums over another one, the last. A quotient by the sum over the last dimension makes it right.

    ## Why is this bad?
    Each position gets a sum of values whose weights add up to anything. What one query attends to depends on the other
    queries, in a causal model on later ones. The model trains, and learns less.

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
    triggers = ((b"torch",), (b"oftmax",), (b"bmm", b"matmul", b"@"))
    calls = frozenset({"bmm", "matmul", "softmax", "Softmax"})

    def ask(self) -> Iterator[OtherDimension]:
        seen = set[Site]()
        for trace in [] if self.model.is_test else self.model.program.traces:
            for event in trace.of(events.Compute):
                for value, _ in masks.computed_in_calls(event.value):
                    found = self._wrong(value) if value.op in _PRODUCTS and len(value.parents) == 2 else None
                    if found is not None and found.softmax not in seen:
                        seen.add(found.softmax)
                        yield found

    def _wrong(self, product: values.Tensor) -> OtherDimension | None:
        for place, weights in enumerate(product.parents[:2]):
            softmax = self._softmax(weights)
            if softmax is None or softmax.site is None or product.site is None:
                continue
            dimension = self._dimension(softmax)
            rank = self._rank(softmax.parents[-1 if self._is_layer(softmax) else 0])
            if dimension is None or rank is None:
                continue
            behind = dimension - rank if dimension >= 0 else dimension
            if behind != (-1 if place == 0 else -2):
                return OtherDimension(softmax.site, product.site, dimension, place == 0)
        return None

    def _softmax(self, weights: values.Value) -> values.Tensor | None:
        """The softmax that makes weights, through what keeps their dimensions."""
        for _ in range(6):
            weights = values.resolved(weights)
            if not isinstance(weights, values.Tensor) or not weights.parents:
                return None
            if weights.op == "softmax" or self._is_layer(weights, "Softmax"):
                return weights
            if isinstance(weights, values.ModuleOutput) and self._is_layer(weights, "Dropout"):
                weights = weights.parents[1]
            elif weights.op in ("dropout", "contiguous", "clone", "float", "to"):
                weights = weights.parents[0]
            else:
                return None
        return None

    def _is_layer(self, value: values.Tensor, name: str = "Softmax") -> bool:
        module = values.resolved(value.parents[0]) if isinstance(value, values.ModuleOutput) else None
        is_torch = isinstance(module, values.Module) and module.info is None
        return is_torch and len(value.parents) == 2 and module.name.rpartition(".")[2] == name  # type: ignore[union-attr]

    def _dimension(self, softmax: values.Tensor) -> int | None:
        """The dimension of a softmax, if it is written."""
        observed = self.model.program.observations.calls
        if isinstance(softmax, values.ModuleOutput):
            made = observed.get(values.resolved(softmax.parents[0]))
            given = made[1].get(0, "dim") if made is not None else None
        else:
            known = observed.get(softmax)
            given = known[1].get(0 if known[2] is not None else 1, "dim") if known is not None else None
        number = values.resolved(given) if given is not None else None
        constant = number.constant if isinstance(number, values.Plain) and number.is_literal else None
        return constant if type(constant) is int else None

    def _rank(self, scores: values.Value) -> int | None:
        """How many dimensions scores have that are a product of two matrices of a batch; None: they may be no such."""
        for _ in range(10):
            scores = values.resolved(scores)
            if isinstance(scores, values.Phi) and not scores.is_loop:  # masked, if there is a mask
                ranks = {self._rank(item) for item in scores.parents}
                return ranks.pop() if len(ranks) == 1 else None
            if not isinstance(scores, values.Tensor) or not scores.parents:
                return None
            if scores.op == "bmm":
                return 3
            if scores.op == "matmul":
                known = {item.rank for item in self.model.shapes.types_of(scores)}
                return known.pop() if len(known) == 1 and None not in known else self._transposed_rank(scores)
            if scores.op not in _KEEPING or isinstance(scores, values.ModuleOutput):
                return None
            scores = scores.parents[0]
        return None

    def _transposed_rank(self, scores: values.Tensor) -> int | None:
        """3 where a product transposes the dimensions 1 and 2 of its second factor."""
        factor = values.resolved(scores.parents[1]) if len(scores.parents) > 1 else None
        known = self.model.program.observations.calls.get(factor) if factor is not None else None
        if known is None or not isinstance(factor, values.Tensor) or factor.op != "transpose":
            return None
        numbers = {
            item.constant for item in map(values.resolved, known[1].positional) if isinstance(item, values.Plain)
        }
        return 3 if numbers == {1, 2} else None

    def report_OtherDimension(self, found: OtherDimension) -> None:
        summed = "the last one" if found.is_first else "the one before the last"
        self.report(
            found.softmax,
            f"the softmax goes over dimension {found.dimension}, and the weights are summed over {summed}",
            related=[(found.product, "the weighted sum is here")],
            help="use `dim=-1`" if found.is_first else "transpose the weights, or use `dim=-2`",
        )

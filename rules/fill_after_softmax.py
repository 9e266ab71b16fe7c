"""Padding that is set to minus infinity after the softmax instead of before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.model.queries import numbers
from torchlint.model.relations import domain
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_FILLS = frozenset({operators.MASKED_FILL, operators.MASKED_FILL_})
_WEIGHTED = frozenset({"matmul", "bmm", "mm", "einsum", operators.MUL})
"""Operators that use the filled weights as factors."""
_RANKING = frozenset({"topk", "argmax", "sort", "argsort", "max"})
_SAME = frozenset("dropout view reshape unsqueeze squeeze transpose permute to float contiguous".split())
_MOST_STEPS = 6


class LateFill(NamedTuple):
    """The code at `fill` writes minus infinity into the probabilities that a softmax computes."""

    fill: Site
    softmax: Site | None


class FillAfterSoftmax(Rule):
    """A mask writes a large negative number into the result of a softmax.

    ## What it does
    Finds `masked_fill`, or `weights[mask] = ...`, with `-inf`, `-1e9` or another large negative number on the
    probabilities of a softmax, where the code then multiplies something by these probabilities, as with attention
    weights. Not reported if the code only ranks the probabilities, with `topk` or `argmax`.

    ## Why is this bad?
    The fill belongs before the softmax, where it gives padding a weight of 0. After the softmax, the fill value becomes
    the weight itself. Each masked position is multiplied by -1e9, so the outputs are huge or NaN, and the other weights
    still do not sum to 1.

    ## Example
    ```python
    import torch

    def attend(scores, mask, values):
        weights = torch.softmax(scores, dim=-1)
        weights = weights.masked_fill(mask == 0, -1e9)
        return weights @ values
    ```

    Use instead:
    ```python
    import torch

    def attend(scores, mask, values):
        scores = scores.masked_fill(mask == 0, -1e9)
        weights = torch.softmax(scores, dim=-1)
        return weights @ values
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if the values before the fill were probabilities. It refutes the finding if
    some of them were negative in each of three calls.

    ## References
    - [torch.nn.functional.scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html):
      its reference code fills before the softmax
    """

    code = "TL546"
    category = Category.CORRECTNESS
    triggers = ((b"oftmax",), (b"masked_fill", b"inf", b"Inf", b"-1e", b"finfo"))
    calls = frozenset({"masked_fill", "masked_fill_", "softmax", "Softmax"})

    def ask(self) -> Iterator[LateFill]:
        seen = set[Site]()
        for value in self._fills() if not self.model.is_test else ():
            if value.site is not None and value.site not in seen:
                if self._is_late(value) and self._is_factor(value):
                    seen.add(value.site)
                    made = self.model.endings.of(value.parents[0], {"softmax"})
                    yield LateFill(value.site, made or values.resolved(value.parents[0]).site)

    def _fills(self) -> Iterator[values.Tensor]:
        """The results of fills, and of assignments to some elements: `weights[mask] = value`."""
        yield from (value for value, _ in self.model.computed if value.op in _FILLS)
        for mutation in (event for trace in self.model.program.traces for event in trace.of(events.Mutate)):
            if mutation.how == operators.SETITEM and isinstance(mutation.result, values.Tensor):
                yield mutation.result

    def _is_late(self, fill: values.Tensor) -> bool:
        """Whether the filled values are probabilities, and the number is not one that a probability can be."""
        if len(fill.parents) != (2 if fill.op == operators.SETITEM else 3):
            return False
        known = self.model.domain.of(fill.parents[0])
        if known is None or known.kind is not domain.Kind.PROBABILITIES:
            if self.model.endings.of(fill.parents[0], {"softmax"}) is None:
                return False
        number = fill.parents[-1]
        return self.model.domain.is_minus_infinity(number) or numbers.is_far(number, self.model.program)

    def _is_factor(self, value: values.Tensor) -> bool:
        """Whether a product uses the filled weights."""
        for _ in range(_MOST_STEPS):
            users = self.model.domain.users(value)
            products = [user for user in users if user.op in _WEIGHTED]
            if products:
                return not all(map(self._is_ranked, products))
            following = [user for user in users if self._is_same(user)]
            if len(following) != 1:
                return False
            value = following[0]
        return False

    def _is_ranked(self, product: values.Tensor) -> bool:
        """Whether code only ranks the elements of a product."""
        users = self.model.domain.users(product) if product.op == operators.MUL else []
        return bool(users) and all(user.op in _RANKING for user in users)

    def _is_same(self, user: values.Tensor) -> bool:
        layer = values.resolved(user.parents[0]) if isinstance(user, values.ModuleOutput) else None
        return user.op in _SAME or (isinstance(layer, values.Module) and layer.name == "torch.nn.Dropout")

    def report_LateFill(self, found: LateFill) -> None:
        self.report(
            found.fill,
            "the softmax has already run: here the mask gives padding a large negative number as its weight",
            related=[(found.softmax, "the probabilities come from here")] if found.softmax is not None else (),
            help="fill the scores before the softmax",
        )

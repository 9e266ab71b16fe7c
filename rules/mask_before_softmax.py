"""Masks that multiply scores before a softmax, so that padding still gets weight."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import masks, numbers
from torchlint.model.relations import domain
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_MASKING = frozenset({operators.MUL, operators.MASKED_FILL, operators.MASKED_FILL_, operators.WHERE, operators.DIV})
"""Operators after the softmax that may set weights to 0 or rescale them."""
_RANDOM = LazyPattern(r"rand|bernoulli|drop")
_FILLING = frozenset({operators.MASKED_FILL, operators.MASKED_FILL_})
_NEAR = 1e-3
_CARRYING = frozenset("softmax view reshape squeeze unsqueeze float to contiguous dropout clone".split())


class MultipliedMask(NamedTuple):
    """A mask multiplies the scores of the softmax at `softmax` at `product`."""

    softmax: Site
    product: Site
    is_padding: bool
    """Whether the mask surely marks padding, as positions against lengths or elements against a number."""


class FilledMask(NamedTuple):
    """Masked scores get a number near 0 at `fill`, before the softmax at `softmax`."""

    softmax: Site
    fill: Site
    number: float
    is_sure: bool
    """Whether the mask compares something, or the number is not exactly 0, as in a misspelled `-1e9`."""


class MaskBeforeSoftmax(Rule):
    """A score that is multiplied by 0 before a softmax still gets weight.

    ## What it does
    Finds `softmax(scores * mask)` where the mask holds 0 and 1. By default, torchlint reports masks that compare
    elements with a number, such as `tokens != 0`. Masks from other comparisons need `--preview`. Also finds
    `scores.masked_fill(mask, 1e-9)` and fills with other numbers near 0. Not reported if the code applies the mask
    again to the weights.

    ## Why is this bad?
    The softmax computes `exp(0)`, which is 1, for each position that the mask sets to 0. Padding gets weight, often
    more than real tokens. The weights of a row depend on the longest row of its batch, and the model learns from
    padding.

    ## Example
    ```python
    import torch

    def pool(scores, values, tokens):
        mask = tokens != 0
        weights = torch.softmax(scores * mask, dim=1)
        return (weights @ values).sum()
    ```

    Use instead:
    ```python
    import torch

    def pool(scores, values, tokens):
        mask = tokens != 0
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=1)
        return (weights @ values).sum()
    ```

    ## References
    - [torch.nn.Softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax.html)
    """

    code = "TL528"
    category = Category.SUSPICIOUS
    triggers = ((b"torch",), (b"softmax",), (b"*", b"mul", b"masked_fill"))
    calls = frozenset({"softmax"})

    def ask(self) -> Iterator[MultipliedMask | FilledMask]:
        seen = set[Site]()
        for value, calls in self.model.computed if not self.model.is_test else ():
            if value.op in self.calls and value.site is not None and value.site not in seen:
                for found in self._found(value, value.site, calls):
                    seen.add(found.softmax)
                    yield found

    def _found(self, softmax: values.Tensor, site: Site, calls: masks.Calls) -> Iterator[MultipliedMask | FilledMask]:
        yield from self._multiplied(softmax, site, calls)
        yield from self._filled(softmax, site, calls)

    def _multiplied(self, softmax: values.Tensor, site: Site, calls: masks.Calls) -> Iterator[MultipliedMask]:
        product = values.resolved(softmax.parents[0]) if softmax.parents else None
        if not isinstance(product, values.Tensor) or product.op != operators.MUL or product.site is None:
            return
        for mask, scores in (product.parents[:2], product.parents[1::-1]):
            whole = masks.argument(masks.adapted(mask), calls)
            known = self.model.domain.of(whole)
            if known is None or known.kind is not domain.Kind.MASK or self._is_of(whole, scores):
                continue
            if not self._is_masked_again(softmax) and not self._is_whole_row(mask, softmax):
                is_padding = masks.tells_padding(whole, self.model.tree, lambda item: masks.argument(item, calls))
                yield MultipliedMask(site, product.site, is_padding)

    def _filled(self, softmax: values.Tensor, site: Site, calls: masks.Calls) -> Iterator[FilledMask]:
        filled = values.resolved(softmax.parents[0]) if softmax.parents else None
        if not isinstance(filled, values.Tensor) or filled.op not in _FILLING or filled.site is None:
            return
        given = numbers.argument(filled, 1, "value", self.model.program)
        number = numbers.of(given, self.model.program) if given is not None else None
        if number is None or not 0 <= number <= _NEAR or len(filled.parents) < 2:
            return
        mask = masks.argument(masks.adapted(filled.parents[1]), calls)
        if not self._is_of(mask, filled.parents[0]) and not self._is_masked_again(softmax):
            is_comparison = isinstance(mask, values.Tensor) and mask.op in masks.COMPARISONS
            yield FilledMask(site, filled.site, number, is_comparison or number != 0)

    def _is_of(self, mask: values.Value, scores: values.Value) -> bool:
        """Whether a mask compares the scores themselves, as a gate does, or is random."""
        stack, seen = [mask], set[values.Value]()
        while stack and len(seen) < 32:
            item = values.resolved(stack.pop())
            written = self.model.tree.code(item.site) if item.site is not None else ""
            if item is masks.adapted(scores) or _RANDOM.search(written):
                return True
            if item not in seen and isinstance(item, values.Tensor):
                seen.add(item)
                stack.extend(item.parents)
        return False

    def _is_masked_again(self, softmax: values.Tensor) -> bool:
        """Whether code after the softmax multiplies, fills or divides the weights by a possible mask."""
        stack = [softmax]
        for _ in range(8):
            users = [user for value in stack for user in self.model.domain.users(value)]
            if any(user.op in _MASKING and self._has_mask(user, stack) for user in users):
                return True
            stack = [user for user in users if user.op in _CARRYING]
        return False

    def _has_mask(self, user: values.Tensor, weights: list[values.Tensor]) -> bool:
        """Whether the other operand may be a mask. Excludes values that a model computes."""
        others = [masks.adapted(item) for item in user.parents if values.resolved(item) not in weights]
        return any(self.model.tracking.tracked(item) is not values.Answer.YES for item in others)

    def _is_whole_row(self, mask: values.Value, softmax: values.Tensor) -> bool:
        """Whether a mask has one element for the whole softmax dimension: `mask.unsqueeze(-1)` and `dim=-1`."""
        known = self.model.program.observations.calls.get(softmax)
        given = known[1].get(0 if known[2] is not None else 1, "dim") if known is not None else None
        dimension = values.resolved(given) if given is not None else None
        place = dimension.constant if isinstance(dimension, values.Plain) else None
        if not isinstance(place, int):
            return True
        mask = values.resolved(mask)
        while isinstance(mask, values.Tensor) and mask.parents and mask.site is not None:
            node = self.model.tree.node(mask.site)
            if isinstance(node, ast.Call) and mask.op == operators.UNSQUEEZE:
                if ast.unparse(node.args[-1] if node.args else node) == str(place):
                    return True
            elif isinstance(node, ast.Subscript):
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                if -len(parts) <= place < len(parts):
                    part = parts[place]
                    if isinstance(part, ast.Constant) and part.value is None:
                        return True
            elif masks.adapted(mask) is mask:
                return False
            mask = values.resolved(mask.parents[0])
        return False

    def report_FilledMask(self, found: FilledMask) -> None:
        self.report(
            found.softmax,
            f"a score that the mask sets to {found.number:g} still gets weight, "
            f"because exp({found.number:g}) is about 1",
            related=[(found.fill, "the mask is applied here")],
            help='fill with minus infinity: `scores.masked_fill(mask, float("-inf"))`',
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )

    def report_MultipliedMask(self, found: MultipliedMask) -> None:
        self.report(
            found.softmax,
            "a score that the mask sets to 0 still gets weight: the softmax computes `exp(0)`, which is 1, for padding",
            related=[(found.product, "the mask is applied here")],
            help='set masked scores to minus infinity: `scores.masked_fill(~mask, float("-inf"))`',
            confidence=Confidence.HIGH if found.is_padding else Confidence.LOW,
        )

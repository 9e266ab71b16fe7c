"""Masked means that sum the positions of a mask's complement."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import masks
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_MASK = LazyPattern(r"(?i)mask|pad|valid")
_SAMPLES = LazyPattern(r"(?i)(?:^|[._])(?:pos|neg|positives?|negatives?|obj|noobj|object\w*|fg|bg|\w+ground)(?:[._]|$)")
"""Names of masks of positive or negative samples."""
_BOUNDS = frozenset({"clamp", "clamp_min", "maximum", "max", "item", operators.ADD})
_TOTALS = frozenset({operators.SUM, operators.MEAN})
_MOST = 6


class Opposite(NamedTuple):
    """The quotient at `quotient` hides positions at `hidden`, and counts the same ones at `counted`."""

    quotient: Site
    hidden: Site
    counted: Site


class OppositeMask(Rule):
    """A masked mean sums the positions that its denominator does not count.

    ## What it does
    Finds quotients whose numerator and denominator use opposite masks, such as
    `x.masked_fill(mask, 0).sum() / mask.sum()` and `(x * ~mask).sum() / mask.sum()`.

    Not reported if no name says that the value is a mask, or if it is the mask of positive or negative samples, such as
    `pos_mask`: detectors divide the loss of the negative boxes by the number of the positive boxes.

    ## Why is this bad?
    One of the two is inverted. If it is the numerator, the loss comes from the padding, or from the given context
    instead of the part to predict. If it is the denominator, each sequence gets a weight that depends on its length.

    ## Example
    ```python
    import torch

    def loss(prediction, target, mask):
        each = (prediction - target).square().mean(dim=-1)
        each = each.masked_fill(mask, 0.0)
        return each.sum() / mask.sum().clamp(min=1)
    ```

    Use instead:
    ```python
    import torch

    def loss(prediction, target, mask):
        each = (prediction - target).square().mean(dim=-1)
        each = each.masked_fill(~mask, 0.0)
        return each.sum() / mask.sum().clamp(min=1)
    ```

    ## References
    - [torch.Tensor.masked_fill_](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.masked_fill_.html)
    """

    code = "TL549"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"sum",), (b"/", b"div"), (b"mask", b"pad", b"valid"))
    calls = frozenset({"sum"})

    def ask(self) -> Iterator[Opposite]:
        self._by_site = {site: mask for site, _, mask in self.model.program.observations.masked}
        seen = set[Site]()
        for value, _ in self.model.computed if not self.model.is_test else ():
            found = self._opposite(value)
            if found is not None and found.quotient not in seen:
                seen.add(found.quotient)
                yield found

    def _opposite(self, value: values.Tensor) -> Opposite | None:
        if value.op != operators.DIV or len(value.parents) != 2 or value.site is None:
            return None
        total, count = map(values.resolved, value.parents)
        while isinstance(count, values.Tensor) and count.op in _BOUNDS | masks.ADAPTED and count.parents:
            count = values.resolved(count.parents[0])
        if not isinstance(count, values.Tensor) or count.op != operators.SUM or count.site is None:
            return None
        counted, is_turned = self._base(count.parents[0])
        for hidden, mask, keeps in self._masked(total):
            base, turned = self._base(mask)
            if base is counted and (keeps is not turned) is is_turned and self._is_named(base):
                return Opposite(value.site, hidden, count.site)
        return None

    def _masked(self, total: values.Value) -> Iterator[tuple[Site, values.Value, bool]]:
        """The masks of the summed values, each with its place, and whether it keeps the positions that are true."""
        for _ in range(_MOST):
            if not isinstance(total, values.Tensor) or not total.parents or total.site is None:
                return
            if total.op in (operators.MASKED_FILL, operators.MASKED_FILL_) and len(total.parents) == 3:
                if self._is_zero(total.parents[2]):
                    yield total.site, total.parents[1], False
            elif total.op == operators.WHERE and len(total.parents) == 3 and self._is_zero(total.parents[2]):
                yield total.site, total.parents[0], True
            elif total.op == operators.SETITEM and total.site in self._by_site and self._is_zero(total.parents[-1]):
                yield total.site, self._by_site[total.site], False
            elif total.op == operators.MUL:
                yield from ((total.site, factor, True) for factor in total.parents)
            elif total.op not in _TOTALS:
                return
            total = values.resolved(total.parents[0])

    def _base(self, mask: values.Value) -> tuple[values.Value, bool]:
        """A mask before changes of its type and shape, and whether an odd number of inversions follows it."""
        mask, is_turned = masks.adapted(mask), False
        while isinstance(mask, (values.Tensor, values.Element)) and mask.site is not None and mask.parents:
            node = self.model.tree.node(mask.site)
            if self._inverts(mask, node):
                is_turned = not is_turned
            elif not isinstance(node, ast.Subscript) or not _only_adds(node.slice):
                break
            is_second = isinstance(mask, values.Tensor) and mask.op == operators.SUB
            mask = masks.adapted(mask.parents[1 if is_second else 0])
        return mask, is_turned

    def _inverts(self, mask: values.Tensor | values.Element, node: ast.AST) -> bool:
        """`~mask`, `mask.logical_not()` or `1 - mask`."""
        if not isinstance(mask, values.Tensor):
            return False
        if mask.op in (operators.SUB, operators.RSUB):
            return len(mask.parents) == 2 and self._is_number(mask.parents[0 if mask.op == operators.SUB else 1], 1)
        return mask.op == operators.LOGICAL_NOT or (mask.op == operators.BITWISE and isinstance(node, ast.UnaryOp))

    def _is_zero(self, value: values.Value) -> bool:
        return self._is_number(value, 0)

    def _is_number(self, value: values.Value, number: int) -> bool:
        plain = values.resolved(value)
        return isinstance(plain, values.Plain) and plain.is_literal and plain.constant == number

    def _is_named(self, mask: values.Value) -> bool:
        code = self.model.tree.code(mask.site) if mask.site is not None else ""
        is_of_samples = _SAMPLES.search(mask.label) or _SAMPLES.search(code)
        return not is_of_samples and bool(_MASK.search(mask.label) or _MASK.search(code))

    def report_Opposite(self, found: Opposite) -> None:
        self.report(
            found.quotient,
            "the numerator leaves out the positions that the denominator counts: one of the two masks is inverted",
            related=[(found.hidden, "this hides positions"), (found.counted, "this counts the same positions")],
            help="invert one of them: `~mask`",
        )


def _only_adds(index: ast.expr) -> bool:
    """Whether an index only adds dimensions: `[..., None]`."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    whole = (isinstance(item, ast.Slice) and item.lower is item.upper is None for item in parts)
    return all(
        is_whole or (isinstance(item, ast.Constant) and item.value in (None, ...))
        for item, is_whole in zip(parts, whole, strict=True)
    )

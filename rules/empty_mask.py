"""Means over the elements that a mask selects, which may be none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, lineage, values
from torchlint.model.queries import masks, names
from torchlint.pytorch import operators
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_ASKED = LazyPattern(r"any|sum|numel|len|count|size|shape|num")
_MOST = 64
_NAN = frozenset({"isnan", "isfinite", "nan_to_num"})
_NUMBERS = frozenset({"item", "detach", "data"})
_PADDING = LazyPattern(r"(?i)mask|pad|valid|length|seq|visible|observed|present")
"""Names of masks that select at least one element of each row in most programs."""


class EmptyMean(NamedTuple):
    """The mean at `site` is over the elements that a mask selects."""

    site: Site


class EmptyMask(Rule):
    """A mean over masked elements is NaN where the mask selects nothing.

    ## What it does
    Finds `(loss * mask).sum() / mask.sum()` and `loss[x > 0].mean()` in the graph of a loss, where nothing keeps the
    divisor from 0 and no condition checks it. This rule is a preview because many masks, such as masks of padded
    sequences, always select an element.

    ## Why is this bad?
    In a batch without a selected element, the code divides 0 by 0. The loss is NaN, and so are all weights after the
    step.

    ## Example
    ```python
    import torch

    def train(model: torch.nn.Linear, x, y, optimizer):
        error = (model(x) - y).abs()
        mask = y > 0
        loss = (error * mask).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model: torch.nn.Linear, x, y, optimizer):
        error = (model(x) - y).abs()
        mask = y > 0
        loss = (error * mask).sum() / mask.sum().clamp(min=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if this line computes the first NaN or infinity of the run.
    """

    code = "TL527"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"sum", b"mean"),)

    def ask(self) -> Iterator[EmptyMean]:
        seen = set[Site]()
        for trace in [] if self.model.is_test else self.model.program.traces:
            chosen = {(site, tensor): mask for site, tensor, mask in self.model.program.observations.masked}
            for event in trace.of(events.Compute):
                if self.model.tracking.tracked(event.value) is values.Answer.YES and not self._is_asked(event):
                    for value in (event.value, *lineage.computed_inside(event.value)):
                        is_mean = self._is_quotient(value) or self._is_mean(value, chosen)
                        if is_mean and value.site is not None and value.site not in seen and self._counts(value.site):
                            seen.add(value.site)
                            yield EmptyMean(value.site)

    def _counts(self, site: Site) -> bool:
        """Whether code uses a mean as more than a number to print, and does not ask whether it is NaN."""
        node = self.model.tree.node(site)
        above = self.model.tree.parent(node) if node is not None else None
        if node is None or (isinstance(above, ast.Attribute) and above.attr in _NUMBERS):
            return False
        calls = (item for item in names.own_nodes(self.model.tree.scope_around(node)) if isinstance(item, ast.Call))
        return not any(python_ast.called_name(item) in _NAN for item in calls)

    def _is_asked(self, event: events.Compute) -> bool:
        """Whether an enclosing or earlier condition checks a number of elements."""
        branches = [branch for branch, _ in (*event.path, *event.passed) if isinstance(branch, events.Branch)]
        codes = (self.model.tree.code(item.site).partition("\n")[0] for item in branches)
        return any(_ASKED.search(code) for code in codes)

    def _is_quotient(self, value: values.Tensor) -> bool:
        """Whether an expression is `(x * mask).sum() / mask.sum()`."""
        if value.op != operators.DIV or len(value.parents) != 2:
            return False
        above, below = map(values.resolved, value.parents)
        if not all(
            isinstance(item, values.Tensor) and item.op == operators.SUM and len(item.parents) == 1
            for item in (above, below)
        ):
            return False
        product, mask = values.resolved(above.parents[0]), masks.adapted(below.parents[0])
        is_product = isinstance(product, values.Tensor) and product.op == operators.MUL
        return is_product and any(masks.adapted(item) is mask for item in product.parents) and self._is_of_data(mask)

    def _is_mean(self, value: values.Tensor, chosen: dict[tuple[Site, values.Tensor], values.Tensor]) -> bool:
        """Whether an expression is `x[mask].mean()`. In `x[y == c].mean(0)`, the class usually has samples."""
        part = values.resolved(value.parents[0]) if value.op == operators.MEAN and len(value.parents) == 1 else None
        if not isinstance(part, values.Tensor) or part.op != operators.GETITEM or part.site is None:
            return False
        whole = values.resolved(part.parents[0])
        mask = chosen.get((part.site, whole)) if isinstance(whole, values.Tensor) else None
        return mask is not None and self._is_of_data(mask)

    def _is_of_data(self, mask: values.Value) -> bool:
        """Whether a mask compares elements that may all fail. `arange`, `!=` and `~` indicate padding."""
        stack, seen, compared = [mask], 0, False
        while stack and seen < _MOST:
            item, seen = masks.adapted(stack.pop()), seen + 1
            if isinstance(item, values.Unknown) and not self._is_padding(item):
                compared = True  # a score map, as in targets of detectors
                continue
            if not isinstance(item, values.Tensor) or item.site is None:
                return False
            code = self.model.tree.code(item.site)
            if item.op == operators.BITWISE and not code.startswith("~"):
                stack.extend(item.parents)
            elif item.op in masks.COMPARISONS and "!=" not in code:
                compared = True
                if any(masks.is_position(parent) for parent in item.parents):
                    return False
            else:
                return False
        return compared

    def _is_padding(self, value: values.Unknown) -> bool:
        written = self.model.tree.code(value.site) if value.site is not None else ""
        return bool(_PADDING.search(value.label) or _PADDING.search(written))

    def report_EmptyMean(self, found: EmptyMean) -> None:
        self.report(
            found.site,
            "this mean is NaN if the mask selects nothing in a batch, and so are all weights after the step",
            help="divide by `mask.sum().clamp(min=1)`",
        )

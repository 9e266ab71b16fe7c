"""Mixup whose loss does not use the targets of the mixed samples."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import arithmetic, names, variables, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_MOVING = frozenset({"to", "cuda", "cpu"})
_TARGETS = LazyPattern(r"(?i)^y$|^y_|_y$|label|target|^lbls?$|^gt$")


class SameTerms(NamedTuple):
    """Both terms of the mixture at `site` are the same code."""

    site: Site
    code: str


class OtherOrder(NamedTuple):
    """The targets at `site` are in an order of their own; `mixed` mixes the inputs in another random order."""

    site: Site
    mixed: Site


class UnmixedTargets(Rule):
    """Mixup mixes the inputs, but its loss uses the wrong second targets.

    ## What it does
    Finds two kinds of errors in `lam * a + (1 - lam) * b`:

    - `a` and `b` are the same call with the same arguments, so that the mixture is one term
    - the inputs are mixed in the order of one `torch.randperm`, and the targets in the order of another one

    ## Why is this bad?
    In mixup, a share `1 - lam` of each input comes from another sample, and so must this share of the loss. If the
    second targets are those of the first sample, or of a third one, the network learns labels that are not in its
    input. Training runs, and accuracy is lower than without mixup.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def mixup_loss(model, x, y, lam):
        order = torch.randperm(x.size(0))
        out = model(lam * x + (1 - lam) * x[order])
        return lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y)
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def mixup_loss(model, x, y, lam):
        order = torch.randperm(x.size(0))
        out = model(lam * x + (1 - lam) * x[order])
        return lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y[order])
    ```

    ## References
    - [mixup: Beyond Empirical Risk Minimization](https://arxiv.org/abs/1710.09412)
    """

    code = "TL571"
    category = Category.CORRECTNESS
    triggers = (
        (b"torch",),
        (b"1 - ", b"1. - ", b"1.0 - ", b"1-", b"1.-", b"1.0-"),
        (b"loss", b"cross_entropy", b"randperm"),
    )

    def ask(self) -> Iterator[SameTerms | OtherOrder]:
        for node in [] if self.model.is_test else self.model.tree.of_type(ast.BinOp):
            parts = _mixture(node)
            if parts is None:
                continue
            first, second = (written.value_of(part, self.model.definitions) for part in parts)
            if isinstance(first, ast.Call) and first.args and python_ast.written_alike(first, second):
                yield SameTerms(python_ast.site_of(node), self.model.tree.code(first))
            elif isinstance(second, ast.Subscript) and python_ast.written_alike(first, second.value):
                yield from self._in_other_order(second)

    def _in_other_order(self, mixed: ast.Subscript) -> Iterator[OtherOrder]:
        """The other batches of a function that have an own order, beside inputs that are mixed in a random order."""
        order = self._order(mixed)
        scope = self.model.tree.function_around(mixed) if order is not None else None
        for node in names.own_nodes(scope) if scope is not None else ():
            if isinstance(node, ast.Subscript) and self._is_of_same_batch(node, mixed):
                own = self._order(node)
                if own is not None and own is not order:
                    yield OtherOrder(python_ast.site_of(node), python_ast.site_of(mixed))

    def _order(self, node: ast.Subscript) -> ast.Call | None:
        """The `torch.randperm` that gives the order of a batch."""
        value = python_ast.without_calls(written.value_of(node.slice, self.model.definitions), _MOVING)
        is_order = (
            isinstance(value, ast.Call) and names.imported(value.func, self.model.definitions) == "torch.randperm"
        )
        return value if is_order and isinstance(value, ast.Call) else None

    def _is_of_same_batch(self, node: ast.Subscript, mixed: ast.Subscript) -> bool:
        """Whether targets come from the batch of the inputs: from one assignment, loop, or list of parameters."""
        pair = node.value, mixed.value
        if not _TARGETS.search(python_ast.last_name(node.value)):
            return False
        if not all(isinstance(item, ast.Name) for item in pair) or python_ast.written_alike(*pair):
            return False
        definitions = self.model.definitions
        if all(isinstance(item, ast.Name) and variables.is_parameter(item.id, item, definitions) for item in pair):
            return True
        bound = [
            [self.model.tree.parent(target) for target in variables.bindings(item.id, item, definitions)]
            for item in pair
            if isinstance(item, ast.Name)
        ]
        return any(isinstance(parent, ast.Tuple) and parent in bound[1] for parent in bound[0])

    def report_SameTerms(self, found: SameTerms) -> None:
        self.report(
            found.site,
            f"both terms of this mixture are `{found.code}`: the targets of the mixed samples are missing",
            help="use the targets in the order of the mixed inputs for the second term",
        )

    def report_OtherOrder(self, found: OtherOrder) -> None:
        self.report(
            found.site,
            "these targets are in an own random order: they do not belong to the mixed inputs",
            related=[(found.mixed, "the inputs are mixed in another order")],
            help="draw one order with `torch.randperm`, and use it for inputs and targets",
        )


def _mixture(node: ast.BinOp) -> tuple[ast.expr, ast.expr] | None:
    """`a` and `b` of `lam * a + (1 - lam) * b`, in this order of the shares."""
    if not isinstance(node.op, ast.Add):
        return None
    for share, first in arithmetic.factors(node.left):
        for rest, second in arithmetic.factors(node.right):
            for whole, part, pair in ((share, rest, (first, second)), (rest, share, (second, first))):
                complement = arithmetic.complement(part)
                if complement is not None and python_ast.written_alike(complement, whole):
                    return pair
    return None

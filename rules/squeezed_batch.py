"""`squeeze()` that also removes the dimension of a batch with one sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import masks, names, written
from torchlint.pytorch import operators
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.shapes.sizes import Known
    from torchlint.model.shapes.tensor_type import TensorType
    from torchlint.syntax.python_ast import Site

_GUARD = LazyPattern(
    r"edge_index|adj\b|unsqueeze\(|\[None|reshape\(|view\(|\.dim\(\)|\.ndim|atleast|"
    r"(?:batch_size|size\(0\)|shape\[0\]|bs?z?) *[=!>]=? *1\b"
)
"""Code of graphs, whose dimension 0 holds nodes, or that adds dimensions again, or handles batches of one sample."""


class Squeezed(NamedTuple):
    """The `squeeze` at `site` removes dimension `one` on purpose, and the batch by accident."""

    site: Site
    one: int


class SqueezedBatch(Rule):
    """`squeeze()` drops the batch dimension of a batch with one sample.

    ## What it does
    Finds `squeeze()` without a dimension in the `forward` of a module, where a later dimension of the tensor always has
    size 1: `self.pool(x).squeeze()` after `nn.AdaptiveAvgPool2d(1)`, or `self.head(x).squeeze()` after
    `nn.Linear(8, 1)`. Not reported if the function handles this case or reshapes the tensor.

    This rule is a preview because batches with one sample are often impossible, and the loss of a discriminator then
    also accepts a number.

    ## Why is this bad?
    The last batch of an epoch may have only one sample. `squeeze()` then removes dimension 0, too. The next layer or
    loss raises after hours of training, or treats features as samples.

    ## Example
    ```python
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.pool = nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1)
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            return self.head(self.pool(self.body(x)).squeeze())
    ```

    Use instead:
    ```python
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.pool = nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1)
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            return self.head(self.pool(self.body(x)).flatten(1))
    ```

    ## References
    - [torch.squeeze](https://docs.pytorch.org/docs/stable/generated/torch.squeeze.html) warns of this
    """

    code = "TL540"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"squeeze(",), (b"def forward",))
    calls = frozenset({"squeeze"})

    def ask(self) -> Iterator[Squeezed]:
        seen = set[object]()
        for value, calls in self.model.computed if not self.model.is_test else ():
            if value.op != operators.SQUEEZE or value.site is None or value.site in seen or not value.parents:
                continue
            one = self._one(value, calls)
            if one is not None and self._is_in_forward(value.site) and not self._is_broadcast(value.site):
                seen.add(value.site)
                yield Squeezed(value.site, one)

    def _one(self, value: values.Tensor, calls: masks.Calls) -> int | None:
        """A dimension behind the batch that surely has size 1, if the squeeze has no dimension of its own."""
        known = self.model.program.observations.calls.get(value)
        if known is None or len(known[1].positional) > (0 if known[2] is not None else 1) or known[1].keywords:
            return None
        types = self.model.shapes.types_of(value.parents[0], calls)
        most = max((len(item.sizes) for item in types), default=0)
        found = {_place_of_one(item) for item in types if len(item.sizes) == most}  # layers also take single samples
        return next(iter(found)) if len(found) == 1 else None

    def _is_in_forward(self, site: Site) -> bool:
        """Whether a place is in a `forward` that does not handle batches of one sample."""
        function = self.model.tree.function_around(self.model.tree.node(site))
        is_forward = isinstance(function, ast.FunctionDef) and function.name == "forward"
        return is_forward and function is not None and not _GUARD.search(self.model.tree.code(function))

    def _is_broadcast(self, site: Site) -> bool:
        """Whether code only computes with a value, or passes it to a function: then it may broadcast as before."""
        node = self.model.tree.node(site)
        parent = self.model.tree.parent(node)
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            scope = self.model.tree.scope_around(node)
            name = parent.targets[0].id
            uses = [item for item in names.own_nodes(scope) if isinstance(item, ast.Name) and item.id == name]
            after = [item for item in uses if written.is_load(item) and item.lineno > site.line]
            return all(map(self._is_in_arithmetic, after))
        return self._is_in_arithmetic(node)

    def _is_in_arithmetic(self, node: ast.AST) -> bool:
        parent = self.model.tree.parent(node)
        is_layer = isinstance(parent, ast.Call) and python_ast.dotted(parent.func).startswith("self.")
        is_loss = isinstance(parent, ast.Call) and "loss" in python_ast.called_name(parent).lower()
        return is_loss or isinstance(parent, ast.BinOp) or (isinstance(parent, ast.Call) and not is_layer)

    def report_Squeezed(self, found: Squeezed) -> None:
        self.report(
            found.site,
            "`squeeze()` also removes dimension 0 of a batch with one sample",
            help=f"name the dimension: `squeeze({found.one})`, or use `flatten(1)`",
        )


def _place_of_one(known: TensorType) -> int | None:
    """The first dimension of size 1 behind a dimension of unknown size."""
    if known.is_open:
        return -1 if _is_one(known.size(-1)) else None
    first = known.size(0)
    if len(known.sizes) < 2 or (first is not None and first.number is not None):
        return None
    return next((place for place in range(1, len(known.sizes)) if _is_one(known.size(place))), None)


def _is_one(size: Known) -> bool:
    return size is not None and size.number == 1

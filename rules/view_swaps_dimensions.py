"""Views that list the dimensions of a tensor in the wrong order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, numbers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.shapes.order import Displaced

_SHIFT = LazyPattern(r"shift|skew|roll|shuffle|rel_")
"""Words in functions that reorder elements on purpose, as relative positions in attention do."""

_KERNEL = LazyPattern(r"k(ernel)?_?(h|w|x|y|height|width|\d)")
"""Names of the sizes of a convolution's kernel, which is square as a rule."""
_REDUCTIONS = frozenset({"sum", "mean", "max", "min"})


class ViewSwapsDimensions(Rule):
    """`view` lists the dimensions of a tensor in the wrong order.

    ## What it does
    Finds `view` and `reshape` that take their sizes from the shape of the tensor and list a dimension at a different
    position than in memory: `b, c, h, w = x.shape; x.view(b, h * w, c)`, or `x.view(b, -1, h)`. Also finds states of
    recurrent layers, of size (layers, batch, hidden), that are reshaped to one row per sample. Also finds code that
    joins the attention heads of a tensor (batch, heads, positions, size) before it moves the heads behind the
    positions.

    ## Why is this bad?
    `view` and `reshape` do not move elements. The sizes come out as intended, but each position holds elements from
    several others. Pixels and channels, or time steps and heads, are mixed. There is no error, and the model learns
    from mixed data.

    ## Example
    ```python
    import torch

    def to_tokens(x: torch.Tensor):
        b, c, h, w = x.shape
        return x.reshape(b, h * w, c)
    ```

    Use instead:
    ```python
    import torch

    def to_tokens(x: torch.Tensor):
        b, c, h, w = x.shape
        return x.permute(0, 2, 3, 1).reshape(b, h * w, c)
    ```

    ## References
    - [torch.Tensor.view](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.view.html)
    - [torch.permute](https://docs.pytorch.org/docs/stable/generated/torch.permute.html)
    """

    code = "TL711"
    category = Category.CORRECTNESS
    triggers = (
        (b"torch",),
        (b".view(", b".reshape(", b"torch.reshape"),
        (b".shape", b".size(", b"LSTM", b"GRU", b"RNN"),
    )
    calls = frozenset({"view", "reshape"})

    def ask(self) -> Iterator[Displaced]:
        """Views that displace a dimension and are used as they are, without cutting off the first positions."""
        if not self.model.is_test:
            for view in self.model.shapes.displaced:
                node = self.model.tree.node(view.site)
                if isinstance(node, ast.Call) and not self._is_meant(node) and not self._swaps_kernel(node, view):
                    yield view

    def _is_meant(self, node: ast.Call) -> bool:
        """Whether a view reorders elements on purpose, or one of its sizes may be 1."""
        function = self.model.tree.function_around(node)
        if function is None:
            return False
        around = self.model.tree.parent(node)
        if isinstance(around, ast.Attribute) and around.attr in _REDUCTIONS:
            return True
        if self._is_unread(node):
            return True
        sizes = {item.id for argument in node.args for item in python_ast.walk(argument) if isinstance(item, ast.Name)}
        if any(numbers.literal(item) == -1 for item in node.args[1:]):
            sizes |= _unpacked(function, node)
            if any(item.startswith("_") for item in sizes):
                return True
        return bool(_SHIFT.search(function.name)) or any(
            self._is_cut(item, node) or _compares_with_one(item, sizes) for item in python_ast.walk(function)
        )

    def _swaps_kernel(self, node: ast.Call, view: Displaced) -> bool:
        """Whether a view only swaps the sizes of a kernel, which is square: `weight.view(count, kh, kw)`."""
        sizes = node.args if isinstance(node.func, ast.Attribute) else []
        moved = [python_ast.dotted(item) for item in sizes[view.after :]]
        return bool(moved) and all(map(_KERNEL.fullmatch, moved))

    def _is_unread(self, node: ast.Call) -> bool:
        """Whether nothing reads the variable that receives a view."""
        statement = self.model.tree.statement(node)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        return isinstance(target, ast.Name) and not names.is_read_after(target.id, target, self.model.definitions)

    def _is_cut(self, node: ast.AST, view: ast.Call) -> bool:
        """Whether code cuts off the first positions of a view: `x = x.view(...)`, then `x[1:]`."""
        if not isinstance(node, ast.Subscript):
            return False
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not any(isinstance(part, ast.Slice) and part.lower is not None for part in parts):
            return False
        statement = self.model.tree.statement(view)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        return node.value is view or any(python_ast.written_alike(node.value, item) for item in targets)

    def report_Displaced(self, found: Displaced) -> None:
        node = self.model.tree.node(found.site)
        assert isinstance(node, ast.Call)
        name = python_ast.called_name(node)
        asked = self._asked(node, found.after)
        self.report(
            found.site,
            f"`{name}` does not swap dimensions: {asked} of the result mixes several dimensions of the tensor",
            help="use `permute` or `transpose` first, or keep the order of the dimensions",
        )

    def _asked(self, node: ast.Call, index: int) -> str:
        """A size as the code spells it."""
        given = [item for item in node.args if isinstance(item, (ast.Tuple, ast.List))]
        is_method = isinstance(node.func, ast.Attribute) and not given
        sizes = given[0].elts if given else node.args if is_method else []
        return f"dimension `{self.model.tree.code(sizes[index])}`" if index < len(sizes) else "a dimension"


def _unpacked(function: ast.AST, view: ast.Call) -> set[str]:
    """The variables of the unpacked shapes in a function: `b, c, h, w = x.shape`; only of the viewed tensor, if any."""
    shapes = [
        (item.targets[0], python_ast.dotted(owner)) for item in names.own_nodes(function)
        if isinstance(item, ast.Assign) and (owner := _measured(item.value)) is not None
    ]  # fmt: skip
    viewed = python_ast.dotted(view.func.value) if isinstance(view.func, ast.Attribute) else ""
    same = [(target, of) for target, of in shapes if of and of == viewed]
    unpacked = [target for target, _ in same or shapes if isinstance(target, (ast.Tuple, ast.List))]
    return {name for target in unpacked for name in python_ast.names_in(target)}


def _measured(value: ast.expr) -> ast.expr | None:
    """The tensor whose shape an expression is: `x.shape`, `x.size()`."""
    value = value.func if isinstance(value, ast.Call) else value
    return value.value if isinstance(value, ast.Attribute) and value.attr in ("shape", "size") else None


def _compares_with_one(node: ast.AST, names: set[str]) -> bool:
    """Whether code asserts `h == 1`, because a dimension of size 1 may be at any position."""
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    is_one = any(isinstance(item, ast.Constant) and item.value == 1 for item in sides)
    return is_one and any(isinstance(item, ast.Name) and item.id in names for item in sides)

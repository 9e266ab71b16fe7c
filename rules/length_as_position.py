"""Tables of positions that are indexed by a length instead of sliced up to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import arithmetic, names, numbers, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class Indexed(NamedTuple):
    """The code at `site` takes the row after the last one, because `length` is not a slice."""

    site: Site
    length: str
    tensor: str


class LengthAsPosition(Rule):
    """A table of positions is indexed by the length of a sequence instead of sliced.

    ## What it does
    Finds `x + self.pe[:, x.shape[1], :]`: the index is the length of the tensor that the row is added to. The colon
    before the length is missing.

    ## Why is this bad?
    All positions of the sequence get the same encoding, that of the position after the last one. Broadcasting hides the
    mistake. The model cannot tell positions apart, and the encoding changes with the length of the sequences.

    ## Example
    ```python
    import torch

    class PositionalEncoding(torch.nn.Module):
        def __init__(self, table):
            super().__init__()
            self.register_buffer("pe", table)

        def forward(self, x):
            return x + self.pe[:, x.shape[1], :]
    ```

    Use instead:
    ```python
    import torch

    class PositionalEncoding(torch.nn.Module):
        def __init__(self, table):
            super().__init__()
            self.register_buffer("pe", table)

        def forward(self, x):
            return x + self.pe[:, : x.shape[1], :]
    ```

    ## References
    - [Attention Is All You Need](https://arxiv.org/abs/1706.03762), section 3.5
    """

    code = "TL724"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"shape", b"size(", b"len("), (b"+", b"*", b".add"), (b"[",))

    def ask(self) -> Iterator[Indexed]:
        for node in () if self.model.is_test else self.model.tree.of_type(ast.BinOp, ast.AugAssign):
            if not isinstance(node.op, (ast.Add, ast.Mult)):
                continue
            sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            for table, tensor in (sides, sides[::-1]):
                yield from self._indexed(table, tensor)

    def _indexed(self, table: ast.expr, tensor: ast.expr) -> Iterator[Indexed]:
        name = python_ast.dotted(_scaled(tensor))
        table = python_ast.without_calls(table, {"to", "detach", "requires_grad_", "type_as", "clone"})
        if not name or not isinstance(table, ast.Subscript) or not isinstance(table.value, (ast.Name, ast.Attribute)):
            return
        parts = table.slice.elts if isinstance(table.slice, ast.Tuple) else [table.slice]
        for part in parts:
            if self._measured(part) == name:
                yield Indexed(python_ast.site_of(table), self.model.tree.code(part), name)

    def _measured(self, part: ast.expr) -> str:
        """The tensor whose size an index is, also through a variable: `b, n, c = x.shape`."""
        if not isinstance(part, ast.Name):
            return _measured(part)
        scope = self.model.tree.scope_around(part)
        bound = [item for item in names.own_nodes(scope) if isinstance(item, ast.Assign) and _binds(item, part.id)]
        if len(bound) == 1 and isinstance(bound[0].targets[0], ast.Tuple):
            shape = bound[0].value
            is_shape = isinstance(shape, ast.Attribute) and shape.attr == "shape"
            is_size = isinstance(shape, ast.Call) and python_ast.called_name(shape) == "size" and not shape.args
            owner = shape.func if is_size and isinstance(shape, ast.Call) else shape
            is_known = (is_shape or is_size) and isinstance(owner, ast.Attribute)
            return python_ast.dotted(owner.value) if is_known and isinstance(owner, ast.Attribute) else ""
        return _measured(written.value_of(part, self.model.definitions))

    def report_Indexed(self, found: Indexed) -> None:
        self.report(
            found.site,
            f"`{found.length}` is the length of `{found.tensor}`, so this takes one row for all positions",
            help=f"slice the table up to the length: `:{found.length}`",
        )


def _scaled(node: ast.expr) -> ast.expr:
    """A tensor without the number that it is multiplied by: `x` of `x * 8.0`."""
    for one, other in arithmetic.factors(node):
        if numbers.literal(other) is not None or isinstance(other, ast.Call):
            return one
    return node


def _measured(size: ast.expr) -> str:
    """The tensor whose size along a dimension an expression is: `x` of `x.size(1)`, `x.shape[1]`, `len(x)`."""
    if isinstance(size, ast.Subscript) and isinstance(size.value, ast.Attribute) and size.value.attr == "shape":
        is_one = numbers.literal(size.slice) is not None
        return python_ast.dotted(size.value.value) if is_one else ""
    if not isinstance(size, ast.Call) or len(size.args) != 1:
        return ""
    if isinstance(size.func, ast.Attribute) and size.func.attr == "size":
        return python_ast.dotted(size.func.value)
    return python_ast.dotted(size.args[0]) if python_ast.dotted(size.func) == "len" else ""


def _binds(statement: ast.Assign, name: str) -> bool:
    return any(name in python_ast.names_bound(item) for item in statement.targets)

"""Tensors combined with their own reduction, which lacks the reduced dimension."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import arithmetic, choices, names, variables
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_REDUCING = {
    "sum": 0, "mean": 0, "amax": 0, "amin": 0, "max": 0, "min": 0, "std": 0, "var": 0, "logsumexp": 0, "norm": 1,
}  # fmt: skip
"""Reductions, with the position of their dimension behind the tensor."""
_PAIRS = frozenset({"max", "min"})
"""Reductions that return values and indices."""
_KEEPING = frozenset("detach clone float double sqrt abs clamp clamp_min exp log square pow to".split())
"""Methods that leave the size as it is."""
_FUNCTIONS = frozenset(f"torch.{name}" for name in _KEEPING)
_OPERATORS = (ast.Sub, ast.Div)
_PRODUCTS = frozenset({"mm", "matmul", "bmm", "einsum"})
_SYMMETRIC = LazyPattern(r"(?i)adj|graph|laplac|affin|kernel|gram")
"""Names of matrices that are usually symmetric: a row and its column then have the same sum."""


class Misaligned(NamedTuple):
    """The operation at `site` combines a tensor with its reduction `name` along `dimension`, made at `made`."""

    site: Site
    made: Site
    name: str
    dimension: int


class MisalignedReduction(Rule):
    """A tensor is combined with its own reduction, which lacks the reduced dimension.

    ## What it does
    Finds differences and quotients of a tensor and its own `sum`, `mean`, `max`, `norm` or similar reduction along
    dimension 1 or a later one, without `keepdim=True`: `x / x.sum(dim=1)`. The reduction may be in a variable, and a
    small number may be added to it.

    ## Why is this bad?
    PyTorch aligns sizes from the right. A reduction of size (N,) meets the last dimension of a tensor of size (N, M),
    so each column gets the number of another row. If N equals M, as for the similarities within a batch, nothing
    raises an error, and the loss is wrong.

    ## Example
    ```python
    import torch

    def contrast(queries, keys):
        scores = queries @ keys.t()
        top, _ = scores.max(dim=1)
        return torch.logsumexp(scores - top, dim=1).mean()
    ```

    Use instead:
    ```python
    import torch

    def contrast(queries, keys):
        scores = queries @ keys.t()
        top, _ = scores.max(dim=1, keepdim=True)
        return torch.logsumexp(scores - top, dim=1).mean()
    ```

    ## References
    - [Broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html)
    """

    code = "TL723"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), tuple(f"{name}(".encode() for name in _REDUCING))

    def ask(self) -> Iterator[Misaligned]:
        for node in [] if self.model.is_test else self.model.tree.of_type(ast.BinOp, ast.AugAssign):
            left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            if isinstance(node.op, _OPERATORS):
                call = self._reduction(right)
                of = arithmetic.operand(call, self.model.definitions)[0] if call is not None else None
                if call is not None and of is not None and self._is_same(left, of, call) and not self._is_symmetric(of):
                    dimension = self._dimension(call)
                    if dimension is not None and dimension > 0:
                        name = python_ast.called_name(call)
                        yield Misaligned(python_ast.site_of(node), python_ast.site_of(call), name, dimension)

    def _reduction(self, node: ast.expr) -> ast.Call | None:
        """The reduction whose result an expression is, behind calls and small numbers that leave its size as it is."""
        for _ in range(8):
            if isinstance(node, ast.Name):
                bound = self._bound(node)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Pow)):
                bound = node.left if isinstance(node.right, (ast.Constant, ast.Name, ast.Attribute)) else None
            else:
                bound = self._unwrapped(node)
            if bound is None:
                return None
            if isinstance(bound, ast.Call) and self._is_reduction(bound):
                return bound
            node = bound
        return None

    def _bound(self, name: ast.Name) -> ast.expr | None:
        """The expression that a variable holds: its only value, or the values of `top, _ = x.max(1)`."""
        value = names.only_value(name, self.model.definitions)
        if value is not None:
            return None if isinstance(value, ast.Call) and _is_pair(value) else value
        statement = self._unpacked(name)
        return statement.value if statement is not None and _is_pair(statement.value) else None

    def _unpacked(self, name: ast.Name) -> ast.Assign | None:
        """The assignment that gives a variable the first of two results, if it has no other value."""
        stores = variables.bindings(name.id, name, self.model.definitions)
        around = self.model.tree.parent(stores[0]) if len(stores) == 1 else None
        statement = self.model.tree.parent(around) if isinstance(around, ast.Tuple) else None
        if isinstance(statement, ast.Assign) and isinstance(around, ast.Tuple) and around.elts[0] is stores[0]:
            return statement if len(around.elts) == 2 and statement.lineno < name.lineno else None
        return None

    def _unwrapped(self, node: ast.expr) -> ast.expr | None:
        """The expression inside one step that leaves its size as it is."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == 0:
            return node.value if _is_pair(node.value) else None
        if isinstance(node, ast.Attribute):
            return node.value if node.attr in ("values", "data") else None
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        if self._is_reduction(node):
            return None if _is_pair(node) else node
        if names.imported(node.func, self.model.definitions) in _FUNCTIONS:
            return node.args[0] if node.args else None
        return node.func.value if node.func.attr in _KEEPING else None

    def _is_reduction(self, call: ast.Call) -> bool:
        """Whether a call reduces a tensor along one dimension and drops it."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _REDUCING:
            return False
        most = _REDUCING[call.func.attr] + 1 + arithmetic.is_function(call, self.model.definitions)
        has_keepdim = any(item.arg in ("keepdim", "keepdims", None) for item in call.keywords)
        return not has_keepdim and len(call.args) <= most and self._dimension(call) is not None

    def _dimension(self, call: ast.Call) -> int | None:
        """The literal dimension of a reduction."""
        position = _REDUCING[python_ast.called_name(call)] + arithmetic.is_function(call, self.model.definitions)
        return choices.literal(call, position)

    def _is_same(self, left: ast.expr, reduced: ast.expr, call: ast.Call) -> bool:
        """Whether an operand is the reduced tensor itself, or a power or exponential of it."""
        name, other = self._root(left), self._root(reduced)
        if not name or name != other:
            return False
        scope = self.model.tree.scope_around(call)
        return self.model.tree.scope_around(left) is scope and not any(
            call.lineno < item.lineno < left.lineno for item in names.stores({name}, scope)
        )

    def _is_symmetric(self, reduced: ast.expr) -> bool:
        """Whether a matrix may be symmetric: by its name, as a product of a tensor and itself, or of equal labels."""
        name = self._root(reduced)
        scope = self.model.tree.scope_around(reduced)
        values = [
            item.value for item in names.own_nodes(scope)
            if isinstance(item, ast.Assign) and name in map(python_ast.dotted, item.targets)
            and item.lineno < reduced.lineno
        ]  # fmt: skip
        return bool(_SYMMETRIC.search(name)) or any(_is_of_itself(item) or _is_equality(item) for item in values)

    def _root(self, node: ast.expr) -> str:
        """The name of the tensor from which an expression computes another of the same size."""
        while not isinstance(node, (ast.Name, ast.Attribute)):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
                node = node.left
                continue
            inside = self._unwrapped(node) if isinstance(node, ast.Call) else None
            if inside is None or (isinstance(node, ast.Call) and self._is_reduction(node)):
                return ""
            node = inside
        return python_ast.dotted(node)

    def report_Misaligned(self, found: Misaligned) -> None:
        self.report(
            found.site,
            f"`{found.name}` drops dimension {found.dimension}, so its result broadcasts along another dimension",
            related=[(found.made, "the reduction is here")],
            help="give the reduction `keepdim=True`",
        )


def _is_of_itself(node: ast.expr) -> bool:
    """Whether an expression is a matrix product whose factors share a variable."""
    for item in python_ast.walk(node):
        if isinstance(item, ast.BinOp) and isinstance(item.op, ast.MatMult):
            factors = [item.left, item.right]
        elif isinstance(item, ast.Call) and python_ast.called_name(item) in _PRODUCTS:
            method = [item.func.value] if isinstance(item.func, ast.Attribute) and len(item.args) == 1 else []
            factors = [*method, *item.args][-2:]
        else:
            continue
        if len(factors) == 2 and set.intersection(*(python_ast.names_read(factor) - {"torch"} for factor in factors)):
            return True
    return False


def _is_equality(node: ast.expr) -> bool:
    """Whether an expression compares labels with themselves: `(labels[:, None] == labels).float()`."""
    node = python_ast.without_calls(node, _KEEPING)
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators] if all(isinstance(item, ast.Eq) for item in node.ops) else []
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "eq":
        sides = [*([] if python_ast.dotted(node.func) == "torch.eq" else [node.func.value]), *node.args]
    else:
        sides = []
    read = [_owner(item) for item in sides]
    return len(read) == 2 and bool(read[0]) and read[0] == read[1]


def _owner(node: ast.expr) -> str:
    """The variable behind methods and indices: `labels` of `labels.view(-1, 1)` and `labels[None]`."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        inner = node.value if isinstance(node, ast.Subscript) else node.func
        node = inner.value if isinstance(node, ast.Call) and isinstance(inner, ast.Attribute) else inner
    name = python_ast.dotted(node.value if isinstance(node, ast.Attribute) and node.attr in ("T", "mT") else node)
    return "" if name == "torch" else name


def _is_pair(node: ast.expr) -> bool:
    """Whether a call along a dimension returns values and indices: `x.max(1)`."""
    return isinstance(node, ast.Call) and python_ast.called_name(node) in _PAIRS

"""Sums over batches as a program writes them: totals, their divisors, and counts of matches."""

from __future__ import annotations

import ast
from collections.abc import Callable

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import Definitions, FunctionInfo
from torchlint.model.queries import arithmetic, names, numbers
from torchlint.syntax import python_ast

_PASSING = frozenset({"enumerate", "tqdm", "track", "log_every"})
"""Functions that iterate over their first argument: a counter, progress bars, and loggers of metrics."""
_MOST_NAMES = 3
_WHOLE = LazyPattern(r"(?i)batch_?size|bs")


def name_of(node: ast.expr) -> str:
    """The code of a variable, attribute or slot: `total`, `self.total`, `history[epoch]`; otherwise empty."""
    if isinstance(node, ast.Subscript):
        return ast.unparse(node)
    return python_ast.dotted(node)


def iterated(node: ast.expr) -> str:
    """The code of a loop's iterable, without `enumerate` and progress bars; empty if it is a call."""
    node = unwrapped(node)
    return "" if any(isinstance(item, ast.Call) for item in python_ast.walk(node)) else ast.unparse(node)


def loader_of(loop: ast.For | ast.AsyncFor, known: Definitions) -> str:
    """The code of a loop's iterable, also through a variable: `bar = tqdm(loader)`, then `for x in bar`."""
    node = unwrapped(loop.iter)
    value = names.only_value(node, known) if isinstance(node, ast.Name) else None
    is_bar = isinstance(value, ast.Call) and unwrapped(value) is not value
    return (iterated(value) if value is not None and is_bar else "") or iterated(node)


def unwrapped(node: ast.expr) -> ast.expr:
    """A loop's iterable without `enumerate` and progress bars."""
    while isinstance(node, ast.Call) and node.args and python_ast.called_name(node) in _PASSING:
        node = node.args[0]
    return node


def counts(iterable: ast.expr) -> bool:
    """Whether the iterable of a loop gives numbers: `range(n)`, possibly inside a progress bar."""
    node = unwrapped(iterable)
    return isinstance(node, ast.Call) and python_ast.called_name(node) in ("range", "trange")


def counted(node: ast.expr) -> tuple[str, bool] | None:
    """For `len(loader)` the loader and True, for `len(loader.dataset)` the loader and False."""
    if not isinstance(node, ast.Call) or name_of(node.func) != "len" or len(node.args) != 1:
        return None
    counted = node.args[0]
    if isinstance(counted, ast.Attribute) and counted.attr == "dataset":
        return ast.unparse(counted.value), True
    return ast.unparse(counted), False


def dividend(division: ast.BinOp | ast.AugAssign) -> str:
    """The name that is divided, also in percent: `100 * correct / count`."""
    node = division.left if isinstance(division, ast.BinOp) else division.target
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = [side for side in (node.left, node.right) if not _is_hundred(side)]
        node = sides[0] if len(sides) == 1 else node
    return name_of(tensor_of(node))


def divides(statement: ast.AST, name: str) -> bool:
    """Whether a statement divides its target: `a /= n`, `a = a / n`."""
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, ast.Div)
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div) and dividend(value) == name


def tensor_of(node: ast.expr) -> ast.expr:
    """The tensor behind a number: `loss` of `loss.item()`, `loss.detach().cpu().numpy()`, `float(loss)`."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            if node.func.attr not in ("item", "detach", "cpu", "numpy", "double", "float"):
                return node
            node = node.func.value
        elif isinstance(node, ast.Call) and name_of(node.func) == "float" and len(node.args) == 1:
            node = node.args[0]
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        else:
            return node


def is_batch_size(node: ast.expr) -> bool:
    """`x.size(0)`, `x.shape[0]`, `len(x)`, `batch_size`."""
    if isinstance(node, ast.Call):
        given = node.args[0] if len(node.args) == 1 else None
        is_first = isinstance(given, ast.Constant) and given.value == 0
        return (python_ast.called_name(node) == "size" and is_first) or (
            name_of(node.func) == "len" and given is not None
        )
    if isinstance(node, ast.Subscript):
        is_first = isinstance(node.slice, ast.Constant) and node.slice.value == 0
        return is_first and isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    return bool(_WHOLE.fullmatch(python_ast.dotted(node).rpartition(".")[2]))


def changes(node: ast.AST, name: str) -> bool:
    """Whether a node changes the value of a name: `loss /= 2`."""
    return isinstance(node, ast.AugAssign) and name_of(node.target) == name


def matches(node: ast.expr, named: Callable[[ast.expr], ast.expr] | None = None) -> bool | None:
    """Whether a number is a count of right predictions (True), or an accuracy of a batch (False); None: neither.

    `named` gives the value of a variable: `right = (a == b).float()`, then `right.mean()`.
    """
    node, counts = tensor_of(node), None
    if isinstance(node, ast.Call) and python_ast.dotted(node.func) in ("torch.sum", "torch.mean") and not node.keywords:
        if len(node.args) != 1:
            return None
        counts = python_ast.called_name(node) == "sum"
        node = node.args[0]
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
        if node.func.attr in ("sum", "mean"):
            if counts is not None:
                return None
            counts = node.func.attr == "sum"
        elif node.func.attr not in ("float", "double", "int", "long"):
            return None
        node = node.func.value
        if isinstance(node, ast.Name) and named is not None:
            node = named(node)
    is_equality = isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)
    is_method = isinstance(node, ast.Call) and python_ast.called_name(node) == "eq" and not node.keywords
    return counts if is_equality or is_method else None


def without_weight(node: ast.expr) -> ast.expr:
    """A term without its weight: `loss` of `0.5 * loss`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = [side for side in (node.left, node.right) if numbers.literal(side) is None]
        return sides[0] if len(sides) == 1 else node
    return node


def ends_in_mean(function: FunctionInfo, known: Definitions) -> bool:
    """Whether a function returns the mean of all elements of a tensor: `return -x.mean()`."""
    value = names.returned_value(function)
    for _ in range(_MOST_NAMES):
        if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
            value = value.operand
        elif isinstance(value, ast.Name):
            value = names.only_value(value, known)
    return value is not None and arithmetic.reduced(value, "mean", known) is not None


def bound_by(node: ast.AST) -> str:
    """The variable that a node binds; otherwise empty."""
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""


def _is_hundred(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 100

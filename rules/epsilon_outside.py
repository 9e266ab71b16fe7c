"""Small numbers added to a quotient or logarithm instead of the operand that may be 0."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, variables, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_EPSILON = LazyPattern(r"(?i)^(?:.*[._])?eps(?:ilon)?$")
_SMALL = 1e-4
_MAY_BE_ZERO = LazyPattern(r"^(?:std|norm|sum|var|max|nanstd|nansum|amax)$")
_NAMED = LazyPattern(r"(?i)(?:^|[._])(?:std|sigma|norm|denom\w*|union|\w+_(?:std|norm|sum))$")
_DISTANCE = LazyPattern(r"(?i)(?:^|_)(?:l1|l2|mse|mae)(?:$|_)|l1loss|mseloss|_loss$|criterion")
"""Names of functions and modules that compare two tensors: they are 0 if these are equal."""
_LOGARITHMS = frozenset({"log", "log2", "log10"})
_PROTECTED = LazyPattern(
    r"^(?:log\w*|sqrt|rsqrt|reciprocal|pow|atanh|entr|logit|div|divide|true_divide|kl_div"
    r"|\w*Categorical|Normal|Dirichlet|[mM]ultinomial|WeightedRandomSampler|choices?)$"
)

_BOUNDED = LazyPattern(r"(?i)(?:^|[._])(?:cov\w*|var\w*|sigma2?|std|pi|p|prob\w*|pmf|prior\w*|weights?|w|priorit\w+)$")
"""Names of values for which 0 is no good value, so that a small number is their lower bound."""
_NUMBERS = frozenset({"finfo", "float", "get", "getattr", "max", "min", "tensor"})


class Outside(NamedTuple):
    """The code at `site` adds the small number to the quotient or logarithm at `operation`."""

    site: Site
    operation: Site
    is_division: bool


class EpsilonOutside(Rule):
    """A small number is added to a quotient instead of its denominator.

    ## What it does
    Finds `(x - x.mean()) / x.std() + 1e-8` and `log(x) + eps`. The code adds the small number to the result.

    Not reported:

    - The code then divides by this sum, or takes its logarithm or root.
    - The name of the sum says that it is a variance, a probability or a weight, for which the number is a lower bound.
    - A tensor is added, such as `eps * torch.eye(n)`.

    ## Why is this bad?
    Division comes before addition, so a denominator of 0 stays 0. The quotient is infinite or NaN with or without the
    small number. One batch of equal rewards is enough to turn all weights into NaN after the step.

    ## Example
    ```python
    import torch

    def normalize(rewards: torch.Tensor):
        return (rewards - rewards.mean()) / rewards.std() + 1e-8
    ```

    Use instead:
    ```python
    import torch

    def normalize(rewards: torch.Tensor):
        return (rewards - rewards.mean()) / (rewards.std() + 1e-8)
    ```
    """

    code = "TL530"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"+",), (b"/", b"log"), (b"1e-", b"eps", b"EPS", b"0.00"))

    def ask(self) -> Iterator[Outside]:
        for node in [] if self.model.is_test else self.model.tree.of_type(ast.BinOp):
            if not isinstance(node.op, ast.Add) or not self._is_number(node.right) or self._protects(node):
                continue
            operation = node.left
            is_quotient = isinstance(operation, ast.BinOp) and isinstance(operation.op, ast.Div)
            if is_quotient and self._may_be_zero(operation.right) and not self._has_epsilon(operation.right):
                yield Outside(python_ast.site_of(node.right), python_ast.site_of(operation), True)
            elif isinstance(operation, ast.Call) and python_ast.called_name(operation) in _LOGARITHMS:
                if not any(_is_epsilon(item) for item in python_ast.walk(operation)) and _is_of_value(operation):
                    yield Outside(python_ast.site_of(node.right), python_ast.site_of(operation), False)

    def _is_number(self, epsilon: ast.expr) -> bool:
        """Whether the code adds a small number, not a tensor such as `eps = torch.eye(n) * 1e-6`."""
        if not self._is_small(epsilon):
            return False
        set_to = python_ast.walk(written.value_of(epsilon, self.model.definitions))
        calls = (python_ast.called_name(item) for item in set_to if isinstance(item, ast.Call))
        return _NUMBERS.issuperset(calls)

    def _is_small(self, node: ast.expr) -> bool:
        """Whether an expression is a small constant, also in a variable: `smooth = 1e-5`."""
        value = names.only_value(node, self.model.definitions) if isinstance(node, ast.Name) else None
        return _is_epsilon(node) or (isinstance(value, ast.Constant) and _is_epsilon(value))

    def _may_be_zero(self, node: ast.expr) -> bool:
        """Whether a denominator may be 0: a deviation, norm, sum or distance of two tensors, also in variables."""
        if _may_be_zero(node):
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._may_be_zero(node.left) and self._may_be_zero(node.right)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            factors = [side for side in (node.left, node.right) if not isinstance(side, ast.Constant)]
            return bool(factors) and all(map(self._may_be_zero, factors))
        bound = variables.bindings(node.id, node, self.model.definitions) if isinstance(node, ast.Name) else []
        values = [names.bound_value(item, self.model.tree) for item in bound]
        made = [item for item in values if not (isinstance(item, ast.Constant) and item.value == 0)]
        return bool(made) and all(isinstance(item, ast.Call) and self._vanishes(item) for item in made)

    def _vanishes(self, call: ast.Call) -> bool:
        """Whether a call may return 0: a sum, a norm, or a distance of two tensors."""
        is_distance = len(call.args) == 2 and _DISTANCE.search(python_ast.called_name(call)) is not None
        return is_distance or (isinstance(call.func, ast.Attribute) and _may_be_zero(call))

    def _has_epsilon(self, denominator: ast.expr, depth: int = 3) -> bool:
        """Whether a small number went into a variable of the denominator: `norm = sqrt(total + 1e-4)`."""
        index, function = FileIndex.of(self.model.tree), self.model.tree.function_around(denominator)
        for name in python_ast.names_read(denominator) if depth else ():
            for target in index.bindings_of(name):
                value = names.bound_value(target, self.model.tree)
                is_before = target.lineno < denominator.lineno and self.model.tree.function_around(target) is function
                if value is not None and is_before:
                    if any(map(_is_epsilon, python_ast.walk(value))) or self._has_epsilon(value, depth - 1):
                        return True
        return False

    def _protects(self, node: ast.BinOp) -> bool:
        """Whether an operation after the sum needs a nonzero value."""
        for item in self.model.tree.ancestors(node):
            if isinstance(item, ast.Call) and _PROTECTED.search(python_ast.called_name(item)):
                return True
            if isinstance(item, ast.Attribute) and _PROTECTED.search(item.attr):
                return True
            if isinstance(item, ast.BinOp) and isinstance(item.op, (ast.Div, ast.Pow)):
                return True
            if isinstance(item, ast.stmt):
                is_quotient = isinstance(node.left, ast.BinOp) and not _is_standardized(node.left)
                is_last = isinstance(item, ast.Return) or _BOUNDED.search(_target(item)) is not None
                return self._is_read_so(item) or (is_last and is_quotient)
        return False

    def _is_read_so(self, statement: ast.stmt) -> bool:
        """Whether code later divides by the variable that a statement sets, or takes its logarithm or root."""
        name = _target(statement)
        scope = self.model.tree.scope_around(statement)
        for node in python_ast.walk(scope) if name else ():
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                if python_ast.dotted(node) == name and node.lineno > statement.lineno and self._needs(node):
                    return True
        return False

    def _needs(self, node: ast.expr) -> bool:
        """Whether a name is the operand of a logarithm or root, or the denominator of a division."""
        inner: ast.AST = node
        for item in self.model.tree.ancestors(node):
            if isinstance(item, ast.stmt):
                return False
            if isinstance(item, ast.Call) and _PROTECTED.search(python_ast.called_name(item)):
                return True
            if isinstance(item, ast.BinOp) and isinstance(item.op, (ast.Div, ast.Pow)) and item.right is inner:
                return True
            if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Add) and _is_epsilon(item.right):
                return False  # the sum has its own small number
            inner = item
        return False

    def report_Outside(self, found: Outside) -> None:
        what, where = ("quotient", "denominator") if found.is_division else ("logarithm", "operand")
        self.report(
            found.site,
            f"the small number is added to the {what}: the {where} can still be 0",
            related=[(found.operation, f"the {what} is computed first")],
            help=f"add it to the {where}, inside the parentheses",
        )


def _target(statement: ast.stmt) -> str:
    """The variable that a statement assigns."""
    return python_ast.dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else ""


def _is_epsilon(node: ast.AST) -> bool:
    """Whether an expression is a small constant: `1e-8`, `eps`, `self.eps`."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float) and 0 < node.value <= _SMALL
    return isinstance(node, (ast.Name, ast.Attribute)) and bool(_EPSILON.search(python_ast.dotted(node)))


def _may_be_zero(node: ast.expr) -> bool:
    """Whether a denominator may be 0: a deviation, norm or sum without a small number added to it."""
    if any(_is_epsilon(item) for item in python_ast.walk(node)):
        return False
    while isinstance(node, ast.Call) and python_ast.called_name(node) in (
        "item",
        "detach",
        "unsqueeze",
        "view",
        "float",
    ):
        node = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0]
    if isinstance(node, ast.Call):
        return bool(_MAY_BE_ZERO.search(python_ast.called_name(node)))
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        return _may_be_zero(node.left) and _may_be_zero(node.right)
    return bool(_NAMED.search(python_ast.dotted(node)))


def _is_of_value(call: ast.Call) -> bool:
    """Whether a logarithm is of a variable, not of a constant or a sum with a number."""
    operand = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(operand, (ast.Name, ast.Attribute, ast.Subscript))


def _is_standardized(quotient: ast.expr) -> bool:
    """Whether a quotient is `(x - x.mean()) / x.std()`, which is not the operand of a logarithm."""
    return (
        isinstance(quotient, ast.BinOp)
        and isinstance(quotient.left, ast.BinOp)
        and isinstance(quotient.left.op, ast.Sub)
    )

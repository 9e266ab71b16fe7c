"""Bitwise inversions of Python's booleans."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import names, variables, written
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_TESTS = frozenset({"isinstance", "issubclass", "hasattr", "callable", "bool"})
_OF_TORCH = frozenset("torch.cuda.is_available torch.is_tensor torch.distributed.is_initialized "
                      "torch.distributed.is_available torch.is_grad_enabled".split())  # fmt: skip
_IDENTITY = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
_STEPS = 3


class Inverted(NamedTuple):
    """The expression at `site` inverts the bits of the boolean `operand`."""

    site: Site
    operand: str


class InvertedBool(Rule):
    """The operator `~` is applied to a Python bool and gives a true number.

    ## What it does
    Finds `~` before an expression that is certainly a `bool` of Python: `~self.training`, `~(x is None)`,
    `~isinstance(x, y)`, and variables and attributes that are only set to `True`, `False` or such expressions.

    ## Why is this bad?
    `~` inverts the bits of a tensor of booleans, but a `bool` of Python is an integer: `~True` is -2 and `~False` is
    -1. A condition on either is always true, and a product with it changes the sign. Python 3.16 will raise an error.

    ## Example
    ```python
    from torch import nn

    class Noise(nn.Module):
        def forward(self, x):
            if ~self.training:
                return x
            return x + 0.1
    ```

    Use instead:
    ```python
    from torch import nn

    class Noise(nn.Module):
        def forward(self, x):
            if not self.training:
                return x
            return x + 0.1
    ```

    ## References
    - [What's new in Python 3.12](https://docs.python.org/3/whatsnew/3.12.html#deprecated): bitwise inversion of `bool`
    """

    code = "TL733"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"~",))

    def ask(self) -> Iterator[Inverted]:
        for node in [] if self.model.is_test else self.model.tree.of_type(ast.UnaryOp):
            if isinstance(node.op, ast.Invert) and self._is_bool(node.operand, _STEPS):
                yield Inverted(python_ast.site_of(node), ast.unparse(node.operand))

    def _is_bool(self, node: ast.expr, steps: int) -> bool:
        """Whether an expression is certainly a boolean of Python."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, bool)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.Not)
        if isinstance(node, ast.BoolOp):
            return all(self._is_bool(item, steps) for item in node.values)
        if isinstance(node, ast.Compare):
            is_of_lengths = all(map(_is_length, (node.left, *node.comparators)))
            return is_of_lengths or all(isinstance(item, _IDENTITY) for item in node.ops)
        if isinstance(node, ast.Call):
            is_builtin = isinstance(node.func, ast.Name) and node.func.id in _TESTS
            return is_builtin or names.imported(node.func, self.model.definitions) in _OF_TORCH
        if isinstance(node, ast.Attribute):
            return self._is_flag(node, steps)
        return isinstance(node, ast.Name) and steps > 0 and self._is_variable(node, steps - 1)

    def _is_flag(self, node: ast.Attribute, steps: int) -> bool:
        """Whether an attribute of `self` is the mode of a module, or only ever set to booleans."""
        method = self.model.definitions.method_around(node)
        owner = method.owner if method is not None else None
        if owner is None or method is None or python_ast.dotted(node.value) not in method.parameters[:1]:
            return False
        stores = list(written.stores_of(node.attr, owner))
        if node.attr == "training" and not stores:
            return self.model.program.is_module_class(owner)
        return bool(stores) and steps > 0 and all(self._is_set_to_bool(item, steps - 1) for item in stores)

    def _is_variable(self, node: ast.Name, steps: int) -> bool:
        """Whether all assignments to a variable give it a boolean."""
        if variables.is_parameter(node.id, node, self.model.definitions):
            return False
        bound = variables.bindings(node.id, node, self.model.definitions)
        is_local = bool(bound) and not variables.is_shared(node.id, self.model.definitions)
        return is_local and all(self._is_set_to_bool(item, steps) for item in bound)

    def _is_set_to_bool(self, target: ast.Name | ast.Attribute, steps: int) -> bool:
        statement = self.model.tree.statement(target)
        is_plain = isinstance(statement, (ast.Assign, ast.AnnAssign)) and not isinstance(
            self.model.tree.parent(target), (ast.Tuple, ast.List)
        )
        value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
        return is_plain and value is not None and self._is_bool(value, steps)

    def report_Inverted(self, found: Inverted) -> None:
        self.report(
            found.site,
            f"`{found.operand}` is a bool of Python: `~` makes it -1 or -2, and both are true",
            help="use `not`",
        )


def _is_length(node: ast.expr) -> bool:
    """Whether an expression is the length of something, or a literal number."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
    return is_call or (isinstance(node, ast.Constant) and isinstance(node.value, (int, float)))

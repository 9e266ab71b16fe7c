"""Totals that each iteration divides by the number of iterations."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import batch_sums, numbers, variables
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_ENDS = (ast.Break, ast.Return, ast.Raise)


class DividedAgain(NamedTuple):
    """The statement at `division` divides a total in the same loop in which `addition` adds to it."""

    division: Site
    addition: Site
    total: str


class TotalDividedInLoop(Rule):
    """Each iteration of a loop divides a running total by the number of iterations.

    ## What it does
    Finds a total that starts at 0, and that each iteration of a loop increases and then divides by a count:
    `total += loss.item()`, then `total /= len(loader)` in the same loop.

    ## Why is this bad?
    The division belongs after the loop. Here each iteration divides the earlier values again, so that after a few
    iterations only the last one counts. The reported loss or accuracy is far too low.

    ## Example
    ```python
    import torch

    def evaluate(model, loader, criterion):
        total = 0.0
        for x, y in loader:
            total += criterion(model(x), y).item()
            total /= len(loader)
        return total
    ```

    Use instead:
    ```python
    import torch

    def evaluate(model, loader, criterion):
        total = 0.0
        for x, y in loader:
            total += criterion(model(x), y).item()
        total /= len(loader)
        return total
    ```
    """

    code = "TL661"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"for ",), (b"+",), (b"/",))

    def ask(self) -> Iterator[DividedAgain]:
        for loop in [] if self.model.is_test else self.model.tree.of_type(ast.For):
            for place, statement in enumerate(loop.body):
                total = _quotient(statement)
                if total and not any(isinstance(item, _ENDS) for item in loop.body[place:]):
                    found = self._found(total, statement, loop)
                    if found is not None:
                        yield found

    def _found(self, total: ast.Name, division: ast.stmt, loop: ast.For) -> DividedAgain | None:
        """The finding for a division, if the loop only adds to its total, which starts at 0."""
        addition = None
        for name in variables.bindings(total.id, total, self.model.definitions):
            statement = self.model.tree.statement(name)
            is_inside = loop.lineno <= name.lineno <= (loop.end_lineno or 0)
            if not isinstance(statement, ast.stmt):
                return None
            if is_inside and statement is not division:
                if addition is not None or statement not in loop.body or not _adds_to(statement, total.id):
                    return None
                addition = statement
            elif not is_inside and not _is_zero(statement):
                return None
        if addition is None or addition.lineno > division.lineno or not self._is_count(division, loop):
            return None
        return DividedAgain(python_ast.site_of(division), python_ast.site_of(addition), total.id)

    def _is_count(self, division: ast.stmt, loop: ast.For) -> bool:
        """Whether a divisor counts iterations: `len(loader)`, a counter of the loop, or `i + 1`."""
        divisor = _divisor(division)
        if divisor is None:
            return False
        if isinstance(divisor, ast.Call):
            return batch_sums.counted(divisor) is not None
        index = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
        is_numbered = isinstance(loop.iter, ast.Call) and python_ast.called_name(loop.iter) in ("enumerate", "range")
        if isinstance(divisor, ast.BinOp) and isinstance(divisor.op, ast.Add) and numbers.literal(divisor.right) == 1:
            return is_numbered and python_ast.written_alike(divisor.left, index)
        added = [item for item in loop.body if isinstance(item, ast.AugAssign) and isinstance(item.op, ast.Add)]
        return isinstance(divisor, ast.Name) and any(python_ast.dotted(item.target) == divisor.id for item in added)

    def report_DividedAgain(self, found: DividedAgain) -> None:
        self.report(
            found.division,
            f"each iteration divides `{found.total}` again, with all values that it already contains",
            related=[(found.addition, "each iteration adds to it here")],
            help="divide once, after the loop",
        )


def _quotient(statement: ast.stmt) -> ast.Name | None:
    """The variable `x` of `x /= n` and `x = x / n`."""
    if isinstance(statement, ast.AugAssign):
        target: ast.expr = statement.target
        is_same = isinstance(statement.op, ast.Div)
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.value, ast.BinOp):
        target, value = statement.targets[0], statement.value
        is_same = isinstance(value.op, ast.Div) and python_ast.dotted(value.left) == python_ast.dotted(target)
    else:
        return None
    return target if is_same and isinstance(target, ast.Name) else None


def _divisor(statement: ast.stmt) -> ast.expr | None:
    if isinstance(statement, ast.AugAssign):
        return statement.value
    return (
        statement.value.right if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp) else None
    )


def _adds_to(statement: ast.stmt, name: str) -> bool:
    """Whether a statement is `x += value` or `x = x + value`."""
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, ast.Add)
    value = statement.value if isinstance(statement, ast.Assign) else None
    is_sum = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)
    return is_sum and isinstance(value, ast.BinOp) and python_ast.dotted(value.left) == name


def _is_zero(statement: ast.stmt) -> bool:
    """Whether a statement sets variables to 0: `a = b = 0.0`, `a, b = 0, 0`, or reads the total to divide it."""
    if isinstance(statement, ast.AugAssign):
        return not isinstance(statement.op, ast.Div)
    value = statement.value if isinstance(statement, ast.Assign) else None
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(numbers.literal(item) == 0 for item in parts if item is not None) and value is not None

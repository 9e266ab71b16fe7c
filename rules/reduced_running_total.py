"""Running totals that every iteration reduces over the processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import collectives, names, written
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site


class ReducedTotal(NamedTuple):
    """The call at `site` reduces a total that the addition at `addition` continues to increase."""

    site: Site
    addition: Site
    total: str


class ReducedRunningTotal(Rule):
    """A running total is summed over all processes in each iteration.

    ## What it does
    Finds `all_reduce(total)` in a loop that also adds to `total`, where nothing in the loop resets the total. The call
    may be in a function of the program that receives and returns the totals, for example in a dictionary.

    ## Why is this bad?
    `all_reduce` writes the sum over all processes into the total. In the next iteration, each process already holds
    that sum, and the sums are summed again. With two processes, the first batch counts twice after the second iteration
    and four times after the third. The metric is an average with exponentially growing weights for early batches.

    ## Example
    ```python
    import torch
    import torch.distributed as dist

    def accuracy(model, loader):
        correct = torch.zeros(1)
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum()
            dist.all_reduce(correct)
        return correct / len(loader.dataset)
    ```

    Use instead:
    ```python
    import torch
    import torch.distributed as dist

    def accuracy(model, loader):
        correct = torch.zeros(1)
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum()
        dist.all_reduce(correct)
        return correct / len(loader.dataset)
    ```

    ## References
    - [torch.distributed.all_reduce](https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce)
    """

    code = "TL619"
    category = Category.CORRECTNESS
    triggers = ((b"distributed",), (b"all_reduce",), (b"+=", b" + "))

    def ask(self) -> Iterator[ReducedTotal]:
        for call, _ in names.calls_of({"torch.distributed.all_reduce"}, self.model.definitions):
            given, operation = written.argument(call, 0, "tensor"), written.argument(call, 1, "op")
            is_sum = operation is None or python_ast.dotted(operation).endswith((".SUM", ".AVG"))
            total = python_ast.dotted(given) if given is not None and is_sum else ""
            loop = self.model.tree.loop_around(call) if total else None
            if loop is not None and not self._is_conditional(call, loop):
                addition = self._addition(total, loop)
                if addition is not None and not self._is_set(total, loop, addition):
                    yield ReducedTotal(python_ast.site_of(call), python_ast.site_of(addition), total)
        for assignment in self.model.tree.of_type(ast.Assign):
            yield from self._by_helper(assignment)

    def _by_helper(self, assignment: ast.Assign) -> Iterator[ReducedTotal]:
        """Reductions by `total = reduce(total)` in a loop, where a function of the program sums over the processes."""
        call, total = assignment.value, python_ast.dotted(assignment.targets[0])
        if not isinstance(call, ast.Call) or not total or [python_ast.dotted(item) for item in call.args] != [total]:
            return
        loop = self.model.tree.loop_around(call)
        known = self.model.definitions
        is_sum = loop is not None and (collectives.sums(call, known) or collectives.sums_parts(call, known))
        if loop is None or not is_sum or self._is_conditional(call, loop):
            return
        stores = [
            self.model.tree.statement(node) for node in python_ast.walk(loop)
            if isinstance(node, (ast.Name, ast.Attribute)) and not isinstance(node.ctx, ast.Load)
            and python_ast.dotted(node) == total
        ]  # fmt: skip
        others = [item for item in stores if item is not assignment]
        if len(others) == 1 and _goes_on(others[0], total):
            yield ReducedTotal(python_ast.site_of(call), python_ast.site_of(others[0]), total)

    def _is_conditional(self, call: ast.Call, loop: ast.stmt) -> bool:
        """Whether only some iterations reach a call, such as the last one."""
        for item in self.model.tree.ancestors(call):
            if item is loop:
                return False
            if isinstance(item, ast.If) and not names_only_options(item.test, loop):
                return True
        return False

    def _addition(self, total: str, loop: ast.stmt) -> ast.AugAssign | None:
        for node in names.own_nodes(loop):
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                if python_ast.dotted(node.target) == total:
                    return node
        return None

    def _is_set(self, total: str, loop: ast.stmt, addition: ast.AugAssign) -> bool:
        """Whether the loop may restart a total, by an assignment, `total.zero_()` or a division."""
        for node in python_ast.walk(loop):
            if isinstance(node, (ast.Name, ast.Attribute)) and python_ast.dotted(node) == total:
                around = self.model.tree.parent(node)
                if not written.is_load(node) and around is not addition:
                    return True
                if isinstance(around, ast.Attribute) and around.attr.endswith("_"):
                    return True
        return False

    def report_ReducedTotal(self, found: ReducedTotal) -> None:
        self.report(
            found.site,
            f"`{found.total}` is summed over the processes in each iteration, so earlier batches count again",
            related=[(found.addition, "the loop continues to add here")],
            help="call `all_reduce` once after the loop, or reduce only the value that this iteration adds",
        )


def names_only_options(test: ast.expr, loop: ast.stmt) -> bool:
    """Whether a condition uses no variable that the loop sets: `if distributed:`."""
    stored = {
        node.id for node in python_ast.walk(loop) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    return not stored & {node.id for node in python_ast.walk(test) if isinstance(node, ast.Name)}


def _goes_on(statement: ast.AST, total: str) -> bool:
    """Whether a statement adds to a total: `total += x`, `total = total + x`, `total = update(x, total)`."""
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, ast.Add)
    value = statement.value if isinstance(statement, ast.Assign) else None
    parts = [value.left, value.right] if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) else []
    parts = python_ast.arguments(value) if isinstance(value, ast.Call) else parts
    return any(python_ast.dotted(item) == total for item in parts)

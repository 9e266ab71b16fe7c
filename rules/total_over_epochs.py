"""Totals that accumulate over all epochs but are divided by the count of one epoch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import batch_sums, names, written
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site


class NeverReset(NamedTuple):
    """The total at `division` starts at `start`, before the epoch loop, and is divided by one epoch's count."""

    division: Site
    start: Site
    total: str


class TotalOverEpochs(Rule):
    """A sum that no epoch resets is divided by the count of one epoch.

    ## What it does
    Finds sums that start at 0 before the loop over epochs, grow with each batch, and are divided by the length of the
    loader or its dataset at the end of each epoch.

    ## Why is this bad?
    The loss of the second epoch contains the loss of the first, and so on. The reported loss grows even while the model
    learns. Schedulers, early stopping and the choice of the best epoch use this wrong number.

    ## Example
    ```python
    from torch.utils.data import DataLoader

    def fit(step, loader: DataLoader, epochs):
        total = 0.0
        for epoch in range(epochs):
            for batch in loader:
                total += step(batch).item()
            print(epoch, total / len(loader))
    ```

    Use instead:
    ```python
    from torch.utils.data import DataLoader

    def fit(step, loader: DataLoader, epochs):
        for epoch in range(epochs):
            total = 0.0
            for batch in loader:
                total += step(batch).item()
            print(epoch, total / len(loader))
    ```
    """

    code = "TL620"
    category = Category.CORRECTNESS
    triggers = ((b"+=",), (b"/",), (b"for ",), (b"len",), (b"torch",))

    def ask(self) -> Iterator[NeverReset]:
        if self.model.is_test:
            return
        for addition in self.model.tree.of_type(ast.AugAssign):
            total = batch_sums.name_of(addition.target) if isinstance(addition.op, ast.Add) else ""
            loop = self.model.tree.loop_around(addition)
            if not isinstance(loop, ast.For) or not total or "[" in total:
                continue
            if total.startswith("self."):
                yield from self._of_object(total, addition, loop)
            for division in self._divisions(total, loop):
                epochs = self.model.tree.loop_around(division)
                divisor = division.right if isinstance(division, ast.BinOp) else division.value
                counted = batch_sums.counted(divisor)
                if (
                    isinstance(epochs, ast.For)
                    and counted is not None
                    and counted[0] == batch_sums.loader_of(loop, self.model.definitions)
                ):
                    start = self._start(total, epochs, loop, addition)
                    if start is not None and epochs in [*self.model.tree.ancestors(loop)]:
                        yield NeverReset(python_ast.site_of(division), python_ast.site_of(start), total)

    def _of_object(self, total: str, addition: ast.AugAssign, loop: ast.For) -> Iterator[NeverReset]:
        """An attribute that only `__init__` sets to 0 and that a loop over epochs divides by the count of one epoch."""
        around = self.model.definitions.method_around(addition)
        if around is None or around.owner is None or around.name == "__init__":
            return
        stores = list(written.stores_of(total.removeprefix("self."), around.owner))
        others = [item for item in stores if self.model.tree.statement(item) is not addition]
        first = self.model.definitions.method_around(others[0]) if len(others) == 1 else None
        if first is None or first.name != "__init__":
            return
        for node in python_ast.walk(around.owner.node):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and batch_sums.dividend(node) == total:
                counted = batch_sums.counted(node.right)
                is_of_epoch = counted is not None and counted[0] == batch_sums.loader_of(loop, self.model.definitions)
                if is_of_epoch and self.model.tree.loop_around(node) not in (None, loop):
                    start = python_ast.site_of(self.model.tree.statement(others[0]))
                    yield NeverReset(python_ast.site_of(node), start, total)

    def _divisions(self, total: str, loop: ast.For) -> Iterator[ast.BinOp | ast.AugAssign]:
        """The divisions of a total after a loop, before any other assignment to it. Excludes rescaled quotients."""
        scope = self.model.tree.scope_around(loop)
        for node in names.own_nodes(scope):
            if not isinstance(node, (ast.BinOp, ast.AugAssign)) or not isinstance(node.op, ast.Div):
                continue
            if node.lineno > (loop.end_lineno or 0) and batch_sums.dividend(node) == total:
                around = self.model.tree.parent(node)
                is_scaled = isinstance(around, ast.BinOp) and isinstance(around.op, (ast.Mult, ast.Div))
                if not is_scaled or _is_percent(around):
                    yield node

    def _start(self, total: str, epochs: ast.For, loop: ast.For, addition: ast.AugAssign) -> ast.Assign | None:
        """The place that sets a total to 0 before the epoch loop, if only the addition changes it in the loop."""
        start = None
        scope = self.model.tree.scope_around(loop)
        for node in python_ast.walk(scope):
            if not isinstance(node, (ast.Name, ast.Attribute)) or python_ast.dotted(node) != total:
                continue
            statement = self.model.tree.statement(node)
            if written.is_load(node) or statement is addition:
                around = self.model.tree.parent(node)
                if isinstance(around, ast.Attribute) and around.attr in ("zero_", "fill_", "reset", "clear"):
                    return None
            elif isinstance(statement, ast.Assign) and statement.lineno < epochs.lineno and start is None:
                start = statement
            else:
                return None
        return start

    def report_NeverReset(self, found: NeverReset) -> None:
        self.report(
            found.division,
            f"`{found.total}` accumulates over all epochs, and is divided by the count of one epoch",
            related=[(found.start, "only this line sets it to 0")],
            help="set it to 0 at the start of each epoch",
        )


def _is_percent(around: ast.AST | None) -> bool:
    """Whether an expression is a percentage: `100 * x / n`."""
    sides = [around.left, around.right] if isinstance(around, ast.BinOp) else []
    return any(isinstance(item, ast.Constant) and item.value in (100, 100.0) for item in sides)

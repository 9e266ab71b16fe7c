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


class StaleCount(NamedTuple):
    """The sum of one epoch at `division` is divided by `count`, which starts at `start`, before the epoch loop."""

    division: Site
    start: Site
    total: str
    counter: str


class TotalOverEpochs(Rule):
    """A sum that no epoch resets is divided by the count of one epoch.

    ## What it does
    Finds sums that start at 0 before the loop over epochs, grow with each batch, and are divided by the length of the
    loader or its dataset at the end of each epoch. Also finds the reverse: each epoch resets the sum, and the code
    divides it by a count that no epoch resets.

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
    triggers = ((b"+=",), (b"/",), (b"for ",), (b"torch",))

    def ask(self) -> Iterator[NeverReset | StaleCount]:
        if self.model.is_test:
            return
        yield from self._stale_counts()
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

    def _stale_counts(self) -> Iterator[StaleCount]:
        """The divisions in a loop over epochs by a count that the loop never resets, of a sum that it resets."""
        for division in self.model.tree.of_type(ast.BinOp, ast.AugAssign):
            divisor = division.right if isinstance(division, ast.BinOp) else division.value
            loops = [item for item in self.model.tree.around(division) if isinstance(item, ast.For)]
            if not isinstance(division.op, ast.Div) or not isinstance(divisor, ast.Name) or not loops:
                continue
            epochs = next((item for item in loops if "epoch" in ast.unparse(item.target).lower()), None)
            total = batch_sums.dividend(division)
            for loop in epochs.body if epochs is not None and total else ():
                if not isinstance(loop, ast.For) or (loop.end_lineno or 0) >= division.lineno:
                    continue
                added = [item for item in python_ast.walk(loop) if isinstance(item, ast.AugAssign)]
                counts = [item for item in added if python_ast.dotted(item.target) == divisor.id]
                is_summed = any(batch_sums.name_of(item.target) == total for item in added)
                if len(counts) != 1 or not is_summed or not self._is_reset(total.partition("[")[0], epochs, loop):
                    continue
                start = self._start(divisor.id, epochs, loop, counts[0]) if epochs is not None else None
                if start is not None:
                    sites = python_ast.site_of(division), python_ast.site_of(start)
                    yield StaleCount(*sites, total, divisor.id)

    def _is_reset(self, total: str, epochs: ast.For | None, loop: ast.For) -> bool:
        """Whether each epoch assigns a total before its loop over batches."""
        block = epochs.body if epochs is not None else []
        before = (item for item in block if item.lineno < loop.lineno and isinstance(item, ast.Assign))
        names_set = (part for item in before for target in item.targets for part in python_ast.walk(target))
        return any(isinstance(item, (ast.Name, ast.Attribute)) and python_ast.dotted(item) == total
                   for item in names_set)  # fmt: skip

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

    def report_StaleCount(self, found: StaleCount) -> None:
        self.report(
            found.division,
            f"`{found.total}` is the sum of one epoch, but `{found.counter}` counts over all epochs",
            related=[(found.start, "only this line sets the count to 0")],
            help="set the count to 0 at the start of each epoch",
        )

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

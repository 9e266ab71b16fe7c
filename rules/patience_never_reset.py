"""Early stopping that counts all epochs without progress, not those in a row."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import uses
from torchlint.syntax import python_ast

_RECORD = LazyPattern(r"(?i)(^|_)(best|min|max|lowest|highest)")
_STOP = LazyPattern(r"(?i)stop|done|finish|terminate|exit")
_ORDERED = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)


class NeverReset(NamedTuple):
    """The counter `name` grows at `site`, and nothing sets it back where the score improves, at `better`."""

    site: python_ast.Site
    better: python_ast.Site
    name: str


class CountsImprovements(NamedTuple):
    """The counter `name` grows at `site`, where the score improves, and a limit of it ends the training."""

    site: python_ast.Site
    better: python_ast.Site
    name: str


class PatienceNeverReset(Rule):
    """Early stopping counts all epochs without progress, not only consecutive ones.

    ## What it does
    Finds counters of epochs in which a score does not improve. At a limit, the counter ends the training. The code does
    not set the counter to 0 when the score improves. Also finds the reverse: counters that grow when it improves.

    Not reported where any other code assigns the counter, or passes its object to an unknown function.

    ## Why is this bad?
    Training ends although the score still improves: almost every training has some epochs without progress, and the
    counter adds up all of them.

    ## Example
    ```python
    import torch

    def fit(model, epochs, train, validate, patience):
        best_loss, waited = float("inf"), 0
        for epoch in range(epochs):
            train(model)
            loss = validate(model)
            if loss < best_loss:
                best_loss = loss
                torch.save(model.state_dict(), "best.pt")
            else:
                waited += 1
                if waited >= patience:
                    break
    ```

    Use instead:
    ```python
    import torch

    def fit(model, epochs, train, validate, patience):
        best_loss, waited = float("inf"), 0
        for epoch in range(epochs):
            train(model)
            loss = validate(model)
            if loss < best_loss:
                best_loss = loss
                waited = 0
                torch.save(model.state_dict(), "best.pt")
            else:
                waited += 1
                if waited >= patience:
                    break
    ```
    """

    code = "TL152"
    category = Category.SUSPICIOUS
    triggers = ((b"torch",), (b"best", b"Best", b"min", b"max"), (b"+= 1", b"+=1"), (b"else",))

    def ask(self) -> Iterator[NeverReset | CountsImprovements]:
        for condition in [] if self.model.is_test else self.model.tree.of_type(ast.If):
            test = condition.test
            if not condition.orelse or not isinstance(test, ast.Compare) or not isinstance(test.ops[0], _ORDERED):
                continue
            for better, worse in ((condition.body, condition.orelse), (condition.orelse, condition.body)):
                record = self._replaced(better, test)
                for counter in _counters(worse) if record is not None else ():
                    if self._ends(counter, condition) and self._is_only_counted(counter, condition):
                        sites = python_ast.site_of(counter), python_ast.site_of(record or test)
                        yield NeverReset(*sites, python_ast.dotted(counter.target))
                for counter in _counters(better) if record is not None else ():
                    if self._ends(counter, condition) and _starts_over(counter, worse):
                        sites = python_ast.site_of(counter), python_ast.site_of(record or test)
                        yield CountsImprovements(*sites, python_ast.dotted(counter.target))

    def _replaced(self, branch: list[ast.stmt], test: ast.Compare) -> ast.Assign | None:
        """The assignment of a new best score, which the condition compares, in a branch that ends no loop."""
        compared = {python_ast.dotted(item) for item in python_ast.walk(test)} - {""}
        for statement in branch:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                name = python_ast.dotted(statement.targets[0])
                if name in compared and _RECORD.search(name.rpartition(".")[2]):
                    return statement
        return None

    def _ends(self, counter: ast.AugAssign, condition: ast.If) -> bool:
        """Whether code ends the training when the counter reaches a limit."""
        name = python_ast.dotted(counter.target)
        for branch in (
            item for item in python_ast.walk(self.model.tree.scope_around(condition)) if isinstance(item, ast.If)
        ):
            test = branch.test
            sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
            if len(sides) == 2 and any(python_ast.dotted(item) == name for item in sides):
                return any(_is_end(item) for statement in branch.body for item in python_ast.walk(statement))
        return False

    def _is_only_counted(self, counter: ast.AugAssign, condition: ast.If) -> bool:
        """Whether the addition and the first value are the only assignments, and no epoch assigns that again."""
        others = [item for item in uses.stores(counter.target, self.model) or [] if item is not counter.target]
        loop = self.model.tree.loop_around(counter)
        if len(others) != 1 or (isinstance(counter.target, ast.Name) and loop is None):
            return False
        once_per_epoch = loop if loop is not None else self.model.tree.scope_around(condition)
        return once_per_epoch not in self.model.tree.ancestors(others[0])

    def report_CountsImprovements(self, found: CountsImprovements) -> None:
        self.report(
            found.site,
            f"`{found.name}` counts the epochs in which the score improves, and they end the training",
            related=[(found.better, "the score improves here")],
            help=f"set `{found.name}` to 0 here, and increase it in the other branch",
        )

    def report_NeverReset(self, found: NeverReset) -> None:
        self.report(
            found.site,
            f"nothing sets `{found.name}` to 0 when the score improves: it counts all epochs without progress",
            related=[(found.better, "the score improves here")],
            help=f"set `{found.name}` to 0 where the score improves",
        )


def _counters(branch: list[ast.stmt]) -> Iterator[ast.AugAssign]:
    """The counters that a branch increases by 1."""
    for statement in branch:
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
            value = statement.value
            if isinstance(value, ast.Constant) and value.value == 1 and python_ast.dotted(statement.target):
                yield statement


def _starts_over(counter: ast.AugAssign, branch: list[ast.stmt]) -> bool:
    """Whether a branch sets a counter to 0."""
    name = python_ast.dotted(counter.target)
    stores = (item for item in branch if isinstance(item, ast.Assign) and name in map(python_ast.dotted, item.targets))
    return any(isinstance(item.value, ast.Constant) and item.value.value == 0 for item in stores)


def _is_end(node: ast.AST) -> bool:
    """A `break`, a `return`, or a switch such as `self.early_stop = True`."""
    if isinstance(node, ast.Assign):
        is_on = isinstance(node.value, ast.Constant) and node.value.value is True
        return is_on and bool(_STOP.search(python_ast.dotted(node.targets[0])))
    return isinstance(node, (ast.Break, ast.Return))

"""Learning rates that a training loop changes only in a variable."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import callees, variables, written
from torchlint.pytorch import naming
from torchlint.pytorch.settings import Role, role_of_name
from torchlint.syntax import python_ast

_SHOWING = LazyPattern(
    r"(?i)^(print|log|info|debug|warning|write|format|append|add_scalar|set_postfix|set_description|str|float|round)$"
)
"""Calls that only show a number."""


class Unapplied(NamedTuple):
    """The statement at `site` changes the rate `name`, which the optimizer received at `made`."""

    site: python_ast.Site
    made: python_ast.Site
    name: str


class UnappliedRate(Rule):
    """A training loop changes a learning rate that its optimizer no longer reads.

    ## What it does
    Finds a variable such as `lr` that an optimizer received as its learning rate, and that a loop changes later. The
    code reads the new value only to compute the next one, to show it, or in conditions.

    ## Why is this bad?
    The optimizer has copied the number. The learning rate stays the same for the whole training, although logs show a
    decay.

    ## Example
    ```python
    import torch

    def train(model, epochs, train_one_epoch, lr=0.1):
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        for epoch in range(epochs):
            train_one_epoch(model, optimizer)
            lr = lr * 0.95
    ```

    Use instead:
    ```python
    import torch

    def train(model, epochs, train_one_epoch, lr=0.1):
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        for epoch in range(epochs):
            train_one_epoch(model, optimizer)
            lr = lr * 0.95
            for group in optimizer.param_groups:
                group["lr"] = lr
    ```

    ## References
    - [torch.optim](https://docs.pytorch.org/docs/stable/optim.html): "Per-parameter options"
    """

    code = "TL160"
    category = Category.CORRECTNESS
    triggers = ((b"optim",), (b"lr", b"rate"), (b"for ", b"while "))

    def ask(self) -> Iterator[Unapplied]:
        """One finding for each optimizer."""
        for made in self.model.tree.of_type(ast.Call) if not self.model.is_test else ():
            if naming.is_optimizer_class(python_ast.called_name(made)):
                rate = written.argument(made, 1, "lr")
                if isinstance(rate, ast.Name) and role_of_name(rate.id) is Role.RATE:
                    change = next(self._changes(made, rate), None)
                    if change is not None and not self._is_read(rate, change):
                        yield Unapplied(python_ast.site_of(change), python_ast.site_of(made), rate.id)

    def _changes(self, made: ast.Call, rate: ast.Name) -> Iterator[ast.stmt]:
        """The statements in a later loop that change the rate, if no loop creates the optimizer."""
        if self.model.tree.loop_around(made) is not None or variables.is_shared(rate.id, self.model.definitions):
            return
        for name in variables.bindings(rate.id, made, self.model.definitions):
            statement = self.model.tree.statement(name)
            if isinstance(statement, (ast.Assign, ast.AugAssign)) and name.lineno > made.lineno:
                value = statement.value
                is_own = isinstance(statement, ast.AugAssign) or rate.id in python_ast.names_read(value)
                loop = self.model.tree.loop_around(statement)
                is_change = is_own or (
                    isinstance(value, ast.Constant) and self.model.tree.parent(statement) is not loop
                )
                if is_change and loop is not None and self._trains_with(made, loop):
                    yield statement

    def _trains_with(self, made: ast.Call, loop: ast.AST) -> bool:
        """Whether a loop uses the optimizer, and does not replace it."""
        parent = self.model.tree.parent(made)
        target = python_ast.dotted(parent.targets[0]) if isinstance(parent, ast.Assign) else ""
        places = [item for item in python_ast.walk(loop) if target and python_ast.dotted(item) == target]
        return bool(places) and all(isinstance(getattr(item, "ctx", None), ast.Load) for item in places)

    def _is_read(self, rate: ast.Name, change: ast.stmt) -> bool:
        """Whether code may use a new value of the rate."""
        loop = self.model.tree.loop_around(change)
        around = self.model.definitions.function_around(rate)
        for name in (item for item in FileIndex.of(self.model.tree).reads_of(rate.id) if item is not rate):
            within = self.model.definitions.function_around(name)
            if within is not around:
                if within is not None and within.enclosing is around:
                    return True
                continue
            if name.lineno < rate.lineno and not any(item is loop for item in self.model.tree.ancestors(name)):
                continue
            if not self._is_shown(name, rate.id):
                return True
        scope = around.node if around is not None else self.model.tree.module
        return callees.reads_by_text(scope, self.model.definitions)

    def _is_shown(self, name: ast.Name, rate: str) -> bool:
        """Whether a read only shows the rate, compares it, or computes its next value."""
        statement = self.model.tree.statement(name)
        if isinstance(statement, (ast.Assign, ast.AugAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            return all(isinstance(target, ast.Name) and target.id == rate for target in targets)
        if not isinstance(statement, (ast.Expr, ast.If, ast.While)):
            return False
        around = itertools.takewhile(lambda item: item is not statement, self.model.tree.ancestors(name))
        return all(_SHOWING.search(python_ast.called_name(item)) for item in around if isinstance(item, ast.Call))

    def report_Unapplied(self, found: Unapplied) -> None:
        self.report(
            found.site,
            f"the optimizer does not see this change: it copied `{found.name}` when it was created",
            related=[(found.made, f"the optimizer received `{found.name}` here")],
            help=f'set it in the optimizer: `for group in optimizer.param_groups: group["lr"] = {found.name}`',
        )

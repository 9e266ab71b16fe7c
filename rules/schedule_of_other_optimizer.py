"""Two equal schedules of one optimizer, where another optimizer has none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import written
from torchlint.pytorch import api, naming, triggers
from torchlint.syntax import python_ast


class Repeated(NamedTuple):
    """The schedules at `site` and `first` are equal, and both of `optimizer`; `other` has no schedule."""

    site: python_ast.Site
    first: python_ast.Site
    optimizer: str
    other: str


class ScheduleOfOtherOptimizer(Rule):
    """Two identical schedules change one optimizer, and another optimizer has none.

    ## What it does
    Finds two schedules of one optimizer, created in the same function with the same arguments, if the function has
    another optimizer without a schedule. One of the schedules is probably meant for it.

    ## Why is this bad?
    The learning rate of one optimizer decays twice as fast as intended. The learning rate of the other optimizer never
    changes.

    ## Example
    ```python
    from torch import optim
    from torch.optim.lr_scheduler import StepLR

    def make(generator, discriminator):
        opt_g = optim.Adam(generator.parameters())
        opt_d = optim.Adam(discriminator.parameters())
        schedule_g = StepLR(opt_g, step_size=30)
        schedule_d = StepLR(opt_g, step_size=30)
        return opt_g, opt_d, schedule_g, schedule_d
    ```

    Use instead:
    ```python
    from torch import optim
    from torch.optim.lr_scheduler import StepLR

    def make(generator, discriminator):
        opt_g = optim.Adam(generator.parameters())
        opt_d = optim.Adam(discriminator.parameters())
        schedule_g = StepLR(opt_g, step_size=30)
        schedule_d = StepLR(opt_d, step_size=30)
        return opt_g, opt_d, schedule_g, schedule_d
    ```
    """

    code = "TL158"
    category = Category.CORRECTNESS
    triggers = (triggers.SCHEDULER,)

    def ask(self) -> Iterator[Repeated]:
        scopes = [self.model.tree.module, *self.model.tree.of_type(*python_ast.FUNCTIONS)]
        for scope in [] if self.model.is_test else scopes:
            made: dict[str, ast.Assign] = {}
            for statement in scope.body:
                for assign in self._schedules(statement):
                    code = ast.dump(assign.value)
                    first = made.setdefault(code, assign)
                    is_other = first is not assign and not python_ast.written_alike(first.targets[0], assign.targets[0])
                    if is_other and self._is_used(assign):
                        yield from self._repeated(scope, first, assign)

    def _schedules(self, statement: ast.stmt) -> Iterator[ast.Assign]:
        """The statement, if it creates a schedule for an optimizer."""
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) and statement.value.args:
            if api.makes_scheduler(self.model.definitions.named(statement.value.func)):
                if python_ast.dotted(statement.value.args[0]) and python_ast.dotted(statement.targets[0]):
                    yield statement

    def _is_used(self, assign: ast.Assign) -> bool:
        """Whether code reads the schedule: `scheduler-never-stepped` reports the others."""
        name = python_ast.last_name(assign.targets[0])
        reads = (node for node in self.model.tree.of_type(ast.Name, ast.Attribute) if written.is_load(node))
        return any(python_ast.last_name(node) == name for node in reads)

    def _repeated(self, scope: ast.AST, first: ast.Assign, second: ast.Assign) -> Iterator[Repeated]:
        """The answer, if a function has an optimizer that none of its schedules changes."""
        scheduled = {
            python_ast.dotted(call.args[0])
            for call in python_ast.walk(scope)
            if isinstance(call, ast.Call) and call.args and api.makes_scheduler(self.model.definitions.named(call.func))
        }
        optimizers = {
            python_ast.dotted(node): node
            for node in python_ast.walk(scope)
            if isinstance(node, (ast.Name, ast.Attribute)) and self.model.provenance.is_optimizer(node)
        }
        function = scope if isinstance(scope, python_ast.FUNCTIONS) else None
        given = [item.arg for item in function.args.args] if function is not None else []
        names = [*optimizers, *filter(naming.looks_like_optimizer, given)]
        others = [name for name in names if name and name not in scheduled]
        assert isinstance(second.value, ast.Call)
        name = python_ast.dotted(second.value.args[0])
        for other in others[:1]:
            yield Repeated(python_ast.site_of(second), python_ast.site_of(first), name, other)

    def report_Repeated(self, found: Repeated) -> None:
        self.report(
            found.site,
            f"this is the second schedule of `{found.optimizer}`, and `{found.other}` has none",
            related=[
                (found.first, f"the first schedule of `{found.optimizer}` is created here, with the same settings")
            ],
            help=f"create this schedule for `{found.other}`",
        )

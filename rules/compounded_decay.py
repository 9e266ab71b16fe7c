"""Decays of a learning rate that multiply the rate of the epoch before."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.model.queries import arithmetic, callees, names, variables
from torchlint.syntax import python_ast

_RATE = LazyPattern(r"(?i)(^|_)(lr|learning_?rate|eps(ilon)?|temp(erature)?|tau)(_|$|\d)")
_POWERS = frozenset({"pow", "math.pow", "np.power", "numpy.power"})


class Compounded(NamedTuple):
    """The statement at `site` multiplies `place` by a power of `counter`, although `place` keeps the last product."""

    site: python_ast.Site
    place: str
    counter: str


class CompoundedDecay(Rule):
    """A decay multiplies a learning rate that already contains earlier decays.

    ## What it does
    Finds `lr = lr * 0.1 ** (epoch // 30)` and `group["lr"] *= gamma ** epoch`, where the variable, attribute or entry
    keeps its value between epochs. The factor contains a power of the number of the epoch or step, so it is meant for
    the initial rate.

    Not reported if the code sets the rate to another value first, or for a parameter that callers pass in each time.

    ## Why is this bad?
    The factors of all epochs multiply. From epoch 30 on, the rate falls to a tenth in every epoch, not once in 30
    epochs. After a few epochs the model no longer learns.

    ## Example
    ```python
    import torch

    def adjust(optimizer, epoch):
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * 0.1 ** (epoch // 30)

    def train(optimizer, epochs, train_one_epoch):
        for epoch in range(epochs):
            adjust(optimizer, epoch)
            train_one_epoch(optimizer)
    ```

    Use instead:
    ```python
    import torch

    def adjust(optimizer, epoch, initial_lr):
        for group in optimizer.param_groups:
            group["lr"] = initial_lr * 0.1 ** (epoch // 30)

    def train(optimizer, epochs, train_one_epoch, initial_lr):
        for epoch in range(epochs):
            adjust(optimizer, epoch, initial_lr)
            train_one_epoch(optimizer)
    ```

    ## References
    - [torch.optim.lr_scheduler.StepLR](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.StepLR.html)
    """

    code = "TL159"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"lr", b"rate", b"eps", b"temp", b"tau"), (b"**", b"pow"), (b"for ",))

    def ask(self) -> Iterator[Compounded]:
        for statement in self.model.tree.of_type(ast.Assign, ast.AugAssign) if not self.model.is_test else ():
            changed = _product(statement) or self._returned(statement)
            if changed is None or not _RATE.search(_name(changed[0])):
                continue
            place, factor = changed
            for counter in sorted(_counters(factor)):
                if self._compounds(statement, place, counter):
                    yield Compounded(python_ast.site_of(statement), ast.unparse(place), counter)
                    break

    def _returned(self, statement: ast.Assign | ast.AugAssign) -> tuple[ast.expr, ast.expr] | None:
        """The place and the factor of `lr = decayed(lr, epoch)`, if the function returns their product."""
        call = statement.value
        function = names.function(call.func, self.model.definitions) if isinstance(call, ast.Call) else None
        if function is None or not isinstance(call, ast.Call) or not isinstance(statement, ast.Assign):
            return None
        ends = [item.value for item in python_ast.walk(function.node) if isinstance(item, ast.Return)]
        given = callees.arguments(call, function)
        for side, factor in arithmetic.factors(ends[0]) if len(ends) == 1 and ends[0] is not None else ():
            passed = given.get(python_ast.dotted(side))
            counter = next((given[name] for name in sorted(_counters(factor)) if name in given), None)
            if passed is not None and counter is not None and python_ast.written_alike(passed, statement.targets[0]):
                return statement.targets[0], ast.BinOp(passed, ast.Pow(), counter)
        return None

    def _compounds(self, statement: ast.stmt, place: ast.expr, counter: str) -> bool:
        """Whether a place keeps its product until the counter has another value."""
        loop = self._loop_over(counter, statement)
        if isinstance(place, ast.Name):
            return loop is not None and self._is_carried(place, statement, loop)
        if self._is_set(statement, place) or self._runs_once(statement, counter):
            return False
        return loop is not None or self._is_counted_by_callers(counter, statement)

    def _loop_over(self, counter: str, statement: ast.AST) -> ast.For | None:
        """The loop in the same function whose variable counts."""
        for item in self.model.tree.around(statement):
            if isinstance(item, ast.For) and counter in python_ast.names_bound(item.target):
                return item
        return None

    def _is_carried(self, name: ast.Name, statement: ast.stmt, loop: ast.For) -> bool:
        """Whether a variable is bound before a loop, and by no other statement in it."""
        inside = set(map(id, python_ast.walk(loop)))
        bound = variables.bindings(name.id, statement, self.model.definitions)
        others = [item for item in bound if self.model.tree.statement(item) is not statement]
        is_parameter = variables.is_parameter(name.id, statement, self.model.definitions)
        return (bool(others) or is_parameter) and not any(id(item) in inside for item in others)

    def _is_set(self, statement: ast.stmt, place: ast.expr) -> bool:
        """Whether other code of the function or class may give the place another value."""
        around = self.model.definitions.method_around(statement)
        owner = around.owner.node if around is not None and around.owner is not None else None
        scope = owner or (around.node if around is not None else self.model.tree.module)
        for item in python_ast.walk(scope):
            if isinstance(item, type(place)) and isinstance(getattr(item, "ctx", None), ast.Store):
                function = self.model.definitions.method_around(item)
                is_start = function is not None and function.name == "__init__"
                is_it = self.model.tree.statement(item) is statement
                if not is_start and not is_it and python_ast.written_alike(item, place):
                    return True
        return False

    def _runs_once(self, statement: ast.stmt, counter: str) -> bool:
        """Whether a condition compares the counter with one number: `if epoch == 30:`."""
        for item in self.model.tree.around(statement):
            if isinstance(item, ast.If):
                for test in python_ast.walk(item.test):
                    is_equal = isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Eq, ast.In))
                    if is_equal and any(isinstance(side, ast.Name) and side.id == counter for side in _sides(test)):
                        return True
        return False

    def _is_counted_by_callers(self, counter: str, statement: ast.stmt) -> bool:
        """Whether the counter is a parameter, and a loop calls the function with its variable."""
        function = self.model.definitions.function_around(statement)
        if function is None or counter not in function.parameters:
            return False
        calls = [call for call in self.model.tree.of_type(ast.Call) if self._calls(call, function)]
        return any(
            self._loop_over(name.id, self.model.tree.statement(call)) is not None
            for call in calls
            for name in python_ast.arguments(call)
            if isinstance(name, ast.Name)
        )

    def _calls(self, call: ast.Call, function: definitions.FunctionInfo) -> bool:
        if python_ast.called_name(call) != function.name:
            return False
        return function.is_method or names.function(call.func, self.model.definitions) is function

    def report_Compounded(self, found: Compounded) -> None:
        self.report(
            found.site,
            f"this decay compounds: `{found.place}` already contains the decay of each earlier `{found.counter}`",
            help="multiply the initial value instead",
        )


def _product(statement: ast.Assign | ast.AugAssign) -> tuple[ast.expr, ast.expr] | None:
    """The place and the factor of `place = place * factor` and `place *= factor`."""
    if isinstance(statement, ast.AugAssign):
        return (statement.target, statement.value) if isinstance(statement.op, ast.Mult) else None
    place = statement.targets[0]
    factors = arithmetic.factors(statement.value) if len(statement.targets) == 1 else []
    return next(((place, other) for side, other in factors if python_ast.written_alike(side, place)), None)


def _counters(factor: ast.expr) -> set[str]:
    """The variables of a power that a factor is: `epoch` of `0.1 ** (epoch // 30)` and `(1 - epoch / n) ** 0.9`."""
    if isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Pow):
        return python_ast.names_in(factor.right) or python_ast.names_in(factor.left)
    if isinstance(factor, ast.Call) and python_ast.dotted(factor.func) in _POWERS and len(factor.args) == 2:
        return python_ast.names_in(factor.args[1]) or python_ast.names_in(factor.args[0])
    return set()


def _name(place: ast.expr) -> str:
    """The last name of a place, or its key."""
    if isinstance(place, ast.Subscript) and isinstance(place.slice, ast.Constant):
        return str(place.slice.value)
    return python_ast.last_name(place)


def _sides(test: ast.AST) -> list[ast.expr]:
    return [test.left, *test.comparators] if isinstance(test, ast.Compare) else []

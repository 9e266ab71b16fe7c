"""Learning-rate schedulers that nothing steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model import definitions, events
from torchlint.model.queries import callees, options, uses
from torchlint.pytorch import api, triggers
from torchlint.syntax import commented_code
from torchlint.syntax.python_ast import (
    LOOPS,
    SCOPES,
    arguments,
    called_name,
    dotted,
    is_literal,
    site_of,
    walk,
)

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_SHOWN = frozenset("defaults param_groups state_dict".split())
"""Parts of an optimizer that code reads for display."""
_READ = frozenset(
    "state_dict load_state_dict get_last_lr get_lr print_lr last_epoch base_lrs _last_lr T_max total_steps".split()
)
"""Scheduler attributes whose use does not advance the schedule."""


class NeverStepped(NamedTuple):
    """The scheduler is created at `made` and stored in the variable `name`.

    `step` is a step of its optimizer, `other` the name of another scheduler of that optimizer. `watches` says whether
    it steps by a metric.
    """

    made: Site
    name: str
    step: events.Step | None
    watches: bool
    other: str = ""


class LeftToLightning(NamedTuple):
    """`configure_optimizers` makes a scheduler at `made`, and its module optimizes by hand without stepping it."""

    made: Site


class SchedulerNeverStepped(Rule):
    """A learning-rate scheduler is created, but nothing ever steps it.

    ## What it does
    Finds schedulers of `torch.optim.lr_scheduler` or `transformers` that no code steps. The code only prints, saves or
    loads the scheduler, or passes it to `accelerator.prepare` or to a function that never uses it. Also finds a
    function that returns a new scheduler together with an optimizer, if only the optimizer is stepped. If an option
    chooses the scheduler, as in `if args.decay == "cosine":`, a step under another value of the option does not count.

    Also finds the schedulers of a Lightning module with manual optimization that steps no scheduler. Lightning does not
    step them either.

    Not reported if the step is commented out (`# scheduler.step()`), which is deliberate, or if the code only shows the
    optimizer without training.

    A second scheduler of the same optimizer needs `--preview`, because it is usually a leftover.

    ## Why is this bad?
    Training works, but worse than planned. Only `step` changes the learning rate. Without it, the rate never decays, or
    stays at the first, smallest rate of a warm-up.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            scheduler.step()
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if the learning rate does not change before the program ends, and refutes it
    as soon as the scheduler steps. Let the program run to its end with `--max-steps 0`.

    ## References
    - [torch.optim: how to adjust learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    - [accelerate: Accelerator.prepare](https://huggingface.co/docs/accelerate/package_reference/accelerator)
    """

    code = "TL112"
    category = Category.SUSPICIOUS
    triggers = (triggers.SCHEDULER,)

    def ask(self) -> Iterator[NeverStepped | LeftToLightning]:
        if not self.model.is_test:
            yield from (LeftToLightning(site_of(call)) for call in self.model.cadence.idle_schedules())
        if self._sets_rates_by_hand():
            return
        for statement in self.model.tree.of_type(ast.Assign, ast.AnnAssign):
            variable, calls = _variable(statement), _scheduler_calls(statement.value)
            if variable is None or not calls or not all(map(self._makes_scheduler, calls)):
                continue
            if not self._is_left_alone(variable) or self._is_switched_off(variable.id):
                continue
            if self._is_for_here(statement) and any(map(self._is_for_training, calls)):
                for call in calls:
                    step, other = self._step_of(call, statement), self._other_schedule(call, variable)
                    if not other or not self._is_switched_off(other):
                        yield NeverStepped(site_of(call), variable.id, step, _watches(call), other)
        for statement in self.model.tree.of_type(ast.Assign):
            for variable, calls in self._handed_over(statement):
                if self._is_left_alone(variable) and not self._is_switched_off(variable.id):
                    if (step := self._step_beside(statement)) is not None:
                        yield NeverStepped(site_of(statement.value), variable.id, step, any(map(_watches, calls)))

    def _handed_over(self, statement: ast.Assign) -> Iterator[tuple[ast.Name, list[ast.Call]]]:
        """The variables for a scheduler that a function creates only for them: `_, scheduler = make()`.

        Each comes with the calls that create it.
        """
        target, call = statement.targets[0], statement.value
        if len(statement.targets) > 1 or not isinstance(target, ast.Tuple) or not isinstance(call, ast.Call):
            return
        function = self.model.definitions.defined(dotted(call.func))
        if not isinstance(function, definitions.FunctionInfo) or function.is_method:
            return
        returned = [node.value for node in walk(function.node) if isinstance(node, ast.Return)]
        values = returned[0].elts if len(returned) == 1 and isinstance(returned[0], ast.Tuple) else []
        for variable, value in zip(target.elts, values, strict=False) if len(values) == len(target.elts) else ():
            if isinstance(variable, ast.Name) and variable.id[0] != "_":
                if calls := self._only_makes(function, value):
                    yield variable, calls

    def _step_beside(self, statement: ast.Assign) -> events.Step | None:
        """A step of an optimizer that a function returns with a scheduler.

        The step is in the function that receives both, or in code that receives the optimizer from there.
        """
        target, around = statement.targets[0], self.model.definitions.function_around(statement)
        names = {dotted(item) for item in target.elts} if isinstance(target, ast.Tuple) else set()
        for trace in self.model.program.traces if around is not None else ():
            for step in trace.of(events.Step):
                nodes = [self.model.tree.own_node(site) for site in (*step.calls, step.site)]
                own = [node for node in nodes if node and self.model.definitions.function_around(node) is around]
                is_here = step.name in names and nodes[-1] in own
                if is_here or any(self._trains_with(names, node) for node in own):
                    return step
        return None

    def _trains_with(self, names: set[str], node: ast.AST) -> bool:
        """Whether a call receives one of these names repeatedly, such as once per epoch."""
        given = {dotted(item) for item in arguments(node)} if isinstance(node, ast.Call) else set()
        return not names.isdisjoint(given) and any(isinstance(item, LOOPS) for item in self.model.tree.around(node))

    def _only_makes(self, function: definitions.FunctionInfo, value: ast.expr) -> list[ast.Call]:
        """The calls that create the scheduler returned by a function; empty if it does anything else with it."""
        named = [node for node in walk(function.node) if isinstance(node, ast.Name) and node.id == dotted(value)]
        made = [self.model.tree.parent(node) for node in named if isinstance(node.ctx, ast.Store)]
        values = [item.value for item in made if isinstance(item, ast.Assign)] if named else [value]
        calls = [call for item in values for call in _scheduler_calls(item)]
        is_known = bool(calls) and len(values) == len(calls) and len(named) == (len(calls) + 1 if named else 0)
        is_made = is_known and all(api.makes_scheduler(function.definitions.named(call.func)) for call in calls)
        return calls if is_made else []

    def _sets_rates_by_hand(self) -> bool:
        """Whether the file sets a learning rate itself: `group["lr"] = rate` for an optimizer's groups."""
        stored = (item for item in self.model.tree.of_type(ast.Subscript) if isinstance(item.ctx, ast.Store))
        rates = (item for item in stored if isinstance(item.slice, ast.Constant) and item.slice.value == "lr")
        return any(self._is_group(item.value) for item in rates)

    def _is_group(self, node: ast.expr) -> bool:
        """`optimizer.param_groups[0]`, or the variable of a loop over them."""
        if "param_groups" in self.model.tree.code(site_of(node)):
            return True
        loops = (item for item in self.model.tree.ancestors(node) if isinstance(item, ast.For))
        return any("param_groups" in self.model.tree.code(site_of(loop.iter)) for loop in loops)

    def _is_switched_off(self, name: str) -> bool:
        """Whether commented-out code steps a scheduler or passes it on: the omission is deliberate."""
        calls = commented_code.calls_in_comments(self.model.tree.source.text, name)
        return any(dotted(call.func) == f"{name}.step" or name in map(dotted, arguments(call)) for call in calls)

    def _is_local(self, name: ast.Name) -> bool:
        """Whether a name is a function's own variable."""
        return self.model.definitions.scopes.binding(name.id, name) is not None

    def _makes_scheduler(self, call: ast.Call) -> bool:
        return api.makes_scheduler(self.model.definitions.named(call.func))

    def _is_for_training(self, call: ast.Call) -> bool:
        """Whether a scheduler changes a rate, and its optimizer is used for more than display."""
        optimizer = _optimizer_of(call)
        if any(map(_is_constant, arguments(call)[1:])) or self._is_made_again(call):
            return False
        if not isinstance(optimizer, ast.Name):
            return True
        names = (item for item in self.model.tree.of_type(ast.Name) if item.id == optimizer.id)
        same = (name for name in names if self._is_local(name) is self._is_local(optimizer))
        return any(isinstance(name.ctx, ast.Load) and not self._is_looked_at(name) for name in same)

    def _is_made_again(self, call: ast.Call) -> bool:
        """Whether a loop creates a scheduler in each iteration for an existing optimizer, which resets its rate."""
        loop = self.model.tree.loop_around(call)
        optimizer = dotted(_optimizer_of(call))
        if loop is None or not optimizer:
            return False
        targets = (target for node in walk(loop) if isinstance(node, ast.Assign) for target in node.targets)
        return optimizer not in {dotted(item) for target in targets for item in (target, *getattr(target, "elts", ()))}

    def _is_looked_at(self, name: ast.Name) -> bool:
        """Whether an optimizer is only read, printed, or passed to a scheduler."""
        parent = self.model.tree.parent(name)
        if isinstance(parent, ast.Attribute):
            return parent.attr in _SHOWN
        return isinstance(parent, ast.Call) and (called_name(parent) == "print" or self._makes_scheduler(parent))

    def _is_for_here(self, statement: ast.AST) -> bool:
        """Whether no other code can step a scheduler: it is a local variable, or the file trains by itself."""
        program = self.model.program
        if program.is_test:
            return False
        is_local = program.definitions.function_around(statement) is not None
        return is_local or any(trace.of(events.Backward) and trace.of(events.Step) for trace in program.traces)

    def _other_schedule(self, call: ast.Call, variable: ast.Name) -> str:
        """Another variable with a stepped scheduler of the same optimizer; empty: none."""
        optimizer = dotted(_optimizer_of(call))
        around = self.model.definitions.function_around(variable)
        for statement in self.model.tree.of_type(ast.Assign):
            other, calls = _variable(statement), _scheduler_calls(statement.value)
            is_beside = other is not None and self.model.definitions.function_around(statement) is around
            if other is None or not is_beside or other.id == variable.id or not optimizer:
                continue
            if any(dotted(_optimizer_of(item)) == optimizer and self._makes_scheduler(item) for item in calls):
                return other.id
        return ""

    def _step_of(self, call: ast.Call, statement: ast.AST) -> events.Step | None:
        """A step of the scheduler's optimizer, identified by name."""
        optimizer = dotted(_optimizer_of(call))
        around = self.model.definitions.function_around(statement)
        for trace in self.model.program.traces:
            for step in trace.of(events.Step):
                function = self.model.definitions.function_around(self.model.tree.node(step.site))
                if step.name == optimizer and function is around:
                    return step
        return None

    def _is_left_alone(self, variable: ast.Name) -> bool:
        """Whether no other use of a variable steps its object or passes it on."""
        tree, found = self.model.tree, uses.of_place(variable, self.model)
        scope = next((item for item in tree.ancestors(variable) if isinstance(item, SCOPES)), None)
        if found is None or isinstance(scope, ast.ClassDef):
            return False
        others = (item for item in found if item is not variable)
        return all(self._leaves_alone(item) or self._options.apart(variable, item) for item in others)

    @cached_property
    def _options(self) -> options.Options:
        return options.Options(self.model.program)

    def _leaves_alone(self, name: ast.Name | ast.Attribute) -> bool:
        """Whether a use of a variable neither steps its object, nor passes it on, nor reassigns it."""
        parent = self.model.tree.parent(name)
        around = self.model.tree.parent(parent) if parent is not None else None
        if isinstance(name.ctx, ast.Load) and callees.ignores(name, self.model.definitions):
            return True
        if isinstance(parent, ast.Tuple) and isinstance(name.ctx, ast.Store):
            return _is_prepared(around, dotted(name))
        if isinstance(parent, (ast.Assign, ast.AnnAssign)):
            return isinstance(name.ctx, ast.Store) and _is_none_or_scheduler(parent.value)
        if isinstance(parent, ast.Attribute):
            return parent.attr in _READ
        if isinstance(parent, ast.Call):
            return called_name(parent) == "print" or _is_prepared(around, dotted(name))
        if isinstance(parent, ast.Compare):
            return all(isinstance(item, (ast.Is, ast.IsNot)) for item in parent.ops)
        if isinstance(parent, ast.IfExp):
            return parent.test is name
        return isinstance(parent, (ast.FormattedValue, ast.Delete, ast.If, ast.Expr))

    def report_LeftToLightning(self, found: LeftToLightning) -> None:
        self.report(
            found.made,
            "with manual optimization Lightning steps no scheduler, and this module steps none either",
            help="call `self.lr_schedulers().step()`, once a batch in `training_step` or in `on_train_epoch_end`",
        )

    def report_NeverStepped(self, found: NeverStepped) -> None:
        cost = "the learning rate keeps its initial value"
        advice = f"call `{found.name}.step()` after the optimizer's step, once per batch or once per epoch"
        if found.watches:
            advice = f"call `{found.name}.step(metric)` once per epoch, with a metric such as the validation loss"
        if found.other:
            cost = f"its optimizer has another schedule, `{found.other}`"
            advice = "create it for the right optimizer, or remove it"
        self.report(
            found.made,
            f"`{found.name}` is never stepped: {cost}",
            related=[(found.step.site, "the optimizer steps here")] if found.step is not None else (),
            help=advice,
            confidence=Confidence.LOW if found.other else Confidence.HIGH,
        )


def _watches(call: ast.Call) -> bool:
    """Whether a scheduler steps by a metric, without which its `step` raises."""
    return called_name(call) == "ReduceLROnPlateau"


def _optimizer_of(call: ast.Call) -> ast.expr | None:
    """The optimizer for which a scheduler is created."""
    named = (item.value for item in call.keywords if item.arg == "optimizer")
    return call.args[0] if call.args else next(named, None)


def _variable(statement: ast.Assign | ast.AnnAssign) -> ast.Name | None:
    """The one variable that a statement assigns."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return targets[0] if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def _scheduler_calls(value: ast.expr | None) -> list[ast.Call]:
    """The calls whose result a value may be, possibly under a condition."""
    if isinstance(value, ast.IfExp):
        return [*_scheduler_calls(value.body), *_scheduler_calls(value.orelse)]
    return [value] if isinstance(value, ast.Call) else []


def _is_none_or_scheduler(value: ast.expr | None) -> bool:
    """Whether a value is None, or a call that other code checks and that may create a scheduler."""
    return value is None or isinstance(value, (ast.Call, ast.IfExp)) or is_literal(value, None)


def _is_prepared(statement: ast.AST | None, name: str) -> bool:
    """Whether a statement passes a variable through `prepare`, and assigns the result to the same name."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return False
    returned = [item for target in statement.targets for item in walk(target) if isinstance(item, ast.Name)]
    handed = [item for item in statement.value.args if isinstance(item, ast.Name)]
    is_through = all(any(item.id == name for item in items) for items in (returned, handed))
    return is_through and isinstance(statement.value.func, ast.Attribute) and statement.value.func.attr == "prepare"


def _is_constant(factor: ast.expr) -> bool:
    """Whether the factor of a rate never changes: `lambda step: 1.0`, or several of these."""
    if isinstance(factor, (ast.List, ast.Tuple)):
        return bool(factor.elts) and all(map(_is_constant, factor.elts))
    return isinstance(factor, ast.Lambda) and isinstance(factor.body, ast.Constant)

"""Learning-rate schedulers that step before their optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from torchlint import Category, Rule, edits
from torchlint.model import dataflow, events, program, values
from torchlint.model.relations import cadence
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_THIS_WAY_SINCE = (1, 1)
"""The first release in which the optimizer should step first."""
NOT_YET, IN_ORDER = "not yet", "in order"
State: TypeAlias = "events.ScheduleStep | str"
"""Neither has stepped; or the optimizer has, first; or the scheduler has, but not the optimizer."""


class EarlySchedule(NamedTuple):
    """`schedule`, the scheduler's first step, comes before `step`, its optimizer's first, on every path."""

    schedule: events.ScheduleStep
    step: events.Step


class SchedulerBeforeOptimizer(Rule):
    """A learning-rate scheduler steps before its optimizer: the first rate is skipped.

    ## What it does
    Finds `scheduler.step()` in a loop, if the optimizer of the scheduler steps for the first time only after it. Both
    may be under the same condition, such as `if phase == "train":`.

    Not reported: `scheduler.step(epoch)`, `ReduceLROnPlateau`, and projects that support PyTorch before 1.1, in which
    this order was right.

    ## Why is this bad?
    Training never uses the first learning rate. The scheduler sets the first rate when it is created, and the next one
    in each `step`. So the whole schedule is one step early. If it steps once per epoch, it is a whole epoch early.
    PyTorch prints a warning when this happens.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
        for epoch in range(epochs):
            scheduler.step()
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

    ## Fix safety
    The fix moves the call after the optimizer's step. It is unsafe because it changes the learning rates.

    ## What verify shows
    `torchlint verify` confirms the finding if the line advances the schedule before the first step of its optimizer,
    and refutes it if the line does so only after a step of the optimizer.

    ## References
    - [torch.optim: how to adjust learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    """

    code = "TL109"
    category = Category.SUSPICIOUS
    triggers = (triggers.SCHEDULER, triggers.STEP)

    def ask(self) -> Iterator[EarlySchedule]:
        if self.model.torch.highest < _THIS_WAY_SINCE:
            return
        for trace in self.model.program.traces:
            schedules = [event for event in trace.of(events.ScheduleStep) if not event.by]
            for optimizer in dict.fromkeys(map(cadence.optimizer_of, schedules)):
                if optimizer is not None:
                    yield from self._early_in(trace, optimizer)

    def _early_in(self, trace: program.Trace, optimizer: values.Value) -> Iterator[EarlySchedule]:
        """The steps of a scheduler that come before the first of its optimizer."""
        first: dict[events.Step, set[State]] = {}

        def transfer(event: events.Event, states: frozenset[State]) -> frozenset[State]:
            if isinstance(event, events.ScheduleStep) and cadence.optimizer_of(event) is optimizer:
                return frozenset(event if state == NOT_YET else state for state in states)
            if isinstance(event, events.Step):
                answer = self._is_of(event, optimizer)
                if answer is values.Answer.YES:
                    first.setdefault(event, set()).update(states)
                return states if answer is values.Answer.NO else frozenset({IN_ORDER})
            return frozenset({IN_ORDER}) if self._may_step(event, optimizer) else states

        happening = trace.only(events.ScheduleStep, events.Step, events.Yield, events.MayClear)
        dataflow.Flow(transfer).run(happening, frozenset({NOT_YET}))
        is_always = NOT_YET not in set().union(*first.values())
        for step, states in first.items():
            early = (state for state in states if isinstance(state, events.ScheduleStep))
            for item in early:
                if (is_always or self._is_decided(item, step)) and _repeat_together(item, step, trace):
                    yield EarlySchedule(item, step)

    def _is_decided(self, schedule: events.ScheduleStep, step: events.Step) -> bool:
        """Whether the schedule always comes first where it steps at all."""
        if schedule.order > step.order:
            return False  # it comes later in the iteration: only a loop without a batch puts it first
        return self._is_always_or_never(schedule, step) or self._is_decided_alike(schedule, step)

    def _is_decided_alike(self, schedule: events.ScheduleStep, step: events.Step) -> bool:
        """Whether each condition of the schedule is one of the step as well: `if phase == "train":` around both."""
        shared = [loop for loop in events.repeating(schedule.loops) if loop in step.loops]
        around = self.model.tree.node(shared[-1].site) if shared else None
        own = self._conditions(schedule)
        if not own or not isinstance(around, ast.For) or schedule.calls != step.calls:
            return False
        inside = (node for item in around.body for node in python_ast.walk(item))
        bound = {python_ast.dotted(node) for node in inside if isinstance(getattr(node, "ctx", None), ast.Store)}
        is_fixed = all(bound.isdisjoint(python_ast.names_read(test)) for test, _ in own)
        others = {(ast.dump(test), arm) for test, arm in self._conditions(step)}
        return is_fixed and all(_is_plain(test) and (ast.dump(test), arm) in others for test, arm in own)

    def _conditions(self, event: events.Event) -> list[tuple[ast.expr, int]]:
        """The tests of the branches on the path to an event, each with its arm; empty if another branch decides."""
        nodes = [(self.model.tree.node(item.site), arm) for item, arm in event.path if isinstance(item, events.Branch)]
        tests = [(node.test, arm) for node, arm in nodes if isinstance(node, ast.If)]
        return tests if len(tests) == len(event.path) else []

    def _is_always_or_never(self, schedule: events.ScheduleStep, step: events.Step) -> bool:
        """Whether only conditions that the loop does not change decide about the schedule: `if use_schedule:`."""
        loops = [loop for loop in events.repeating(schedule.loops) if loop in step.loops]
        own = [branch for branch, _ in schedule.path if branch not in {other for other, _ in step.path}]
        nodes = [self.model.tree.node(branch.site) if isinstance(branch, events.Branch) else None for branch in own]
        return bool(loops and own) and all(
            isinstance(node, ast.If) and self._is_fixed(node, loops[-1]) for node in nodes
        )

    def _is_fixed(self, node: ast.If, loop: events.Loop) -> bool:
        """Whether a condition in a loop only asks for options, or whether something is None."""
        around = self.model.tree.node(loop.site)
        if around not in self.model.tree.ancestors(node) or not all(map(_asks_for_option, python_ast.walk(node.test))):
            return False
        changed = self.model.definitions.assigned_names(around)
        return changed.isdisjoint(python_ast.names_read(node.test)) and not any(
            self._is_stored_later(item) for item in python_ast.walk(node.test) if isinstance(item, ast.Attribute)
        )

    def _is_stored_later(self, attribute: ast.Attribute) -> bool:
        """Whether code outside `__init__` sets an attribute of this name."""
        for store in self.model.stores_of(attribute.attr):
            elsewhere = python_ast.elsewhere_of(store)
            tree = elsewhere.tree if elsewhere is not None else self.model.tree
            method = tree.function_around(store)
            if method is None or method.name != "__init__":
                return True
        return False

    def _may_step(self, event: events.Event, optimizer: values.Value) -> bool:
        """Whether code that torchlint does not follow may step an optimizer; its other own methods do not."""
        if isinstance(optimizer, values.Optimizer) and event.order < optimizer.order:
            return False  # it does not exist yet
        if not isinstance(event, events.MayClear):
            return isinstance(event, events.Yield)
        is_method = event.receiver is not None and values.resolved(event.receiver) is optimizer
        return not is_method and self.model.ownership.is_handed(event, optimizer)

    def _is_of(self, step: events.Step, optimizer: values.Value) -> values.Answer:
        """Whether a step belongs to an optimizer."""
        inner = values.resolved(step.optimizer).part("optimizer")  # an engine's
        stepped = {item for value in (step.optimizer, inner) if value is not None for item in values.inputs_of(value)}
        if not stepped.isdisjoint(values.inputs_of(optimizer)):
            return values.Answer.YES
        if self._is_of_torch(optimizer) and all(map(self._is_of_torch, stepped)):
            return values.Answer.NO  # each was created separately, and steps separately
        other = self.model.ownership.clears(step.optimizer, optimizer) is values.Answer.NO
        return values.Answer.NO if other else values.Answer.UNKNOWN

    def _is_of_torch(self, optimizer: values.Value) -> bool:
        """Whether this file creates an optimizer of a PyTorch class, which wraps no other one."""
        made = self.model.tree.node(optimizer.site) if isinstance(optimizer, values.Optimizer) else None
        return isinstance(made, ast.Call) and self.model.definitions.named(made.func).startswith("torch.optim.")

    # -- report -----------------------------------------------------------------------------------------

    def report_EarlySchedule(self, early: EarlySchedule) -> None:
        call = self.model.tree.own_node(early.schedule.site)
        written = python_ast.dotted(call.func).rpartition(".")[0] if isinstance(call, ast.Call) else ""
        name = written or early.schedule.scheduler.label or "the scheduler"
        self.report(
            early.schedule.site,
            f"`{name}` steps before `{early.step.name}`: the schedule is one step ahead from the start",
            related=[(early.step.site, "the optimizer steps here")],
            help="step the scheduler after the optimizer",
            fix=self._fix(early.schedule.site, early.step.site),
        )

    def _fix(self, schedule: Site, step: Site) -> edits.Change | None:
        """The scheduler's step moved after the optimizer's, where both are statements of one block."""
        tree, code = self.model.tree, self.model.tree.code(schedule)
        nodes = [tree.node(site) for site in (schedule, step)]
        block = tree.block(nodes[0])
        if not all(tree.stands_alone(node) and tree.statement(node) in block for node in nodes) or "\n" in code:
            return None
        old = self.written(schedule)
        new = self.written(step)
        if old is None or new is None:
            return None
        return edits.Change("move the call after the step", [edits.Delete(old), edits.InsertAfter(new, code)])


def _is_plain(test: ast.expr) -> bool:
    """Whether a test only compares variables and constants: `phase == "train"`."""
    plain = (ast.Name, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.boolop, ast.cmpop, ast.unaryop)
    return all(isinstance(item, (*plain, ast.expr_context)) for item in python_ast.walk(test))


def _asks_for_option(node: ast.AST) -> bool:
    """Whether a part of a condition names something, or compares it with None."""
    if isinstance(node, ast.Compare):
        return all(isinstance(item, (ast.Is, ast.IsNot)) for item in node.ops)
    return isinstance(
        node,
        (
            ast.Name,
            ast.Attribute,
            ast.Constant,
            ast.BoolOp,
            ast.UnaryOp,
            ast.boolop,
            ast.cmpop,
            ast.unaryop,
            ast.expr_context,
        ),
    )


def _repeat_together(schedule: events.ScheduleStep, step: events.Step, trace: program.Trace) -> bool:
    """Whether both are in one loop, or in a function that is called repeatedly."""
    if events.repeating(schedule.loops) or events.repeating(step.loops):
        return not set(events.repeating(schedule.loops)).isdisjoint(step.loops)
    return trace.root is not None

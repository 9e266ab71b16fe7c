"""Gradients that a step has already used, and to which the next backward adds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model.definitions import ClassInfo
from torchlint.model.events import (
    Backward,
    Clear,
    Item,
    Loop,
    Step,
)
from torchlint.model.ownership import MAX_OPTIMIZERS, Ownership
from torchlint.model.program import Program, Trace
from torchlint.model.queries import names, written
from torchlint.model.relations.gradients.put_back import PutBack
from torchlint.model.relations.gradients.step_paths import Paths
from torchlint.model.relations.gradients.timed_loops import only_times
from torchlint.model.values import (
    Answer,
    Attribute,
    CallResult,
    Instance,
    ModuleOutput,
    Parameters,
    Tensor,
    UnknownObject,
    Value,
    class_of,
    drawn_from,
    inputs_of,
    resolved,
)
from torchlint.pytorch import api, naming
from torchlint.syntax.python_ast import dotted


class StaleGradients(NamedTuple):
    """`backward` adds to gradients that already went into `step`, and `following` uses them again.

    Nothing clears them in between.
    """

    backward: Backward
    step: Step
    following: Step
    loop: Loop | None
    cleared_elsewhere: bool
    """Whether something clears them, or may, but not between these steps."""


class GradientsBetweenSteps:
    """The state of an optimizer's gradients between its steps, as a typestate."""

    def __init__(self, program: Program, ownership: Ownership) -> None:
        self.program = program
        self.tracking = ownership.tracking
        self.ownership = ownership
        self._put_back = PutBack(ownership)

    def regions(self, trace: Trace) -> Iterator[tuple[Step, Loop | None]]:
        """Each step with the innermost loop around it that contains a backward, or None for the function itself."""
        if self.program.is_benchmark:
            return
        losses = trace.of(Backward)
        for step in trace.of(Step):
            around = trace.training_loop(step)
            if around is not None:
                yield step, around
            elif losses and self._repeated_by_callers(trace, step, losses):
                yield step, None

    def _repeated_by_callers(self, trace: Trace, step: Step, losses: list[Backward]) -> bool:
        """Whether a function without a loop is one iteration of training.

        It computes the loss it steps on, its callers are elsewhere, and no code in this module clears for it.
        """
        if trace.root is None or trace.called or step.manual or self.program.is_test:
            return False
        if not any(self._computed_here(backward.loss) for backward in losses):
            return False
        optimizer = resolved(step.optimizer)
        if _is_made_in(optimizer, trace):
            return False
        return not any(
            self._is_for(event, other, optimizer, trace)
            for other in self.program.traces
            if other is not trace
            for event in other.of(Clear)
        )

    def _computed_here(self, loss: Value) -> bool:
        """Whether the function itself computes the forward pass of a loss, rather than receiving the loss."""
        return any(
            isinstance(item, (ModuleOutput, CallResult)) or (isinstance(item, Tensor) and item.leaf)
            for item in self.tracking.graph(loss)
        )

    def _is_for(self, clear: Clear, other: Trace, optimizer: Value, trace: Trace) -> bool:
        """Whether a clearing elsewhere may be for the optimizer of a function that does not clear itself."""
        if clear.target is not None and self.ownership.clears(clear.target, optimizer) is Answer.YES:
            return True
        same_class = other.receiver is not None and other.receiver is trace.receiver
        return same_class and self.ownership.clears(clear.target, optimizer) is not Answer.NO

    def can_clear(self, step: Step) -> bool:
        """Whether the optimizer of a step has a `zero_grad`, as far as torchlint knows."""
        optimizer = resolved(step.optimizer)
        if optimizer.has_use("zero_grad"):
            return True
        if not isinstance(optimizer, Instance):
            return not self._is_of_imported_class(optimizer)
        inherits = any(isinstance(item, str) for item in optimizer.info.ancestors())
        return inherits or optimizer.info.method("zero_grad") is not None

    def _is_of_imported_class(self, optimizer: Value) -> bool:
        """Whether an unknown imported class created it: a wrapper may behave differently from the wrapped optimizer."""
        made = self.program.tree.node(optimizer.site)
        name = self.program.definitions.named(made.func) if isinstance(made, ast.Call) else ""
        last = name.rpartition(".")[2]
        known = api.package(name) == "torch" or last in self.program.definitions.class_names
        return naming.is_class_name(last) and not known and not naming.is_algorithm(last)

    def clearings_of(self, optimizer: Value) -> Iterator[Clear]:
        """The clearings, anywhere in the module, that clear or may clear the gradients an optimizer steps on."""
        return (event for event in self.ownership.clearings if self.ownership.may_clear(event, optimizer))

    def stale(self) -> Iterator[StaleGradients]:
        """Steps between which no path clears, although at least one adds to the gradients."""
        for trace in self.program.traces:
            done: dict[Loop | None, set[Value]] = {}
            for step, loop in self.regions(trace):
                optimizer, asked = resolved(step.optimizer), done.setdefault(loop, set())
                if optimizer in asked or len(asked) == MAX_OPTIMIZERS or _is_part_of_data(optimizer, loop):
                    continue
                asked.add(optimizer)
                if isinstance(optimizer, Attribute) and _is_other_object(optimizer, self.program):
                    continue
                found = list(self._stale_in(self.ownership.touching(loop or trace), loop, optimizer))
                if found and not (loop is not None and only_times(loop, trace, self.program.definitions)):
                    yield from found

    def _stale_in(self, items: list[Item], loop: Loop | None, optimizer: Value) -> Iterator[StaleGradients]:
        def gives(backward: Backward) -> bool:
            return self.ownership.reaches(backward, optimizer) and not _is_bare_leaf(backward.loss)

        is_cleared = any(self.clearings_of(optimizer))
        paths = Paths(
            lambda step: resolved(step.optimizer) is optimizer,
            gives,
            lambda event: self.ownership.may_clear(event, optimizer),
            lambda event: self.ownership.may_change(event, optimizer),
            lambda event: self._put_back.taken(event, optimizer) if is_cleared else None,
        )
        for last, step, backwards in paths.stale(items, loop):
            backward = self._plainest(backwards, optimizer)
            yield StaleGradients(backward, last, step, loop, is_cleared)

    def _plainest(self, backwards: list[Backward], optimizer: Value) -> Backward:
        """The first backward pass that surely reaches an optimizer; else the first."""
        return min(backwards, key=lambda event: (not self.ownership.surely_reaches(event, optimizer), event.order))


def _is_part_of_data(optimizer: Value, loop: Loop | None) -> bool:
    """Whether the iterable of a loop holds an optimizer, and may clear for it when it yields the next batch."""
    data = set(drawn_from(loop.over)) if loop is not None and loop.over is not None else set()
    owner = optimizer
    while data.isdisjoint(inputs_of(owner)):
        if not isinstance(owner, Attribute) or not owner.parents:
            return False
        owner = owner.parents[0]
    return bool(data)


def _is_other_object(attribute: Attribute, program: Program) -> bool:
    """Whether a class only stores objects of other classes of the program there: `self.averager = Averager(net)`."""
    owner = class_of(attribute.parents[0]) if attribute.parents else None
    if owner is None:
        return False
    home = owner.definitions
    made = [names.bound_value(store, home.tree) for store in written.stores_of(attribute.label, owner)]
    classes = [home.defined(dotted(value.func)) if isinstance(value, ast.Call) else None for value in made]
    return bool(classes) and all(
        isinstance(item, ClassInfo) and not program.is_optimizer_class(item) for item in classes
    )


def _is_made_in(optimizer: Value, trace: Trace) -> bool:
    """Whether a function creates its optimizer of unknown class, by a call with the values that it steps on."""
    made = isinstance(optimizer, (CallResult, UnknownObject)) and optimizer.order > trace.start
    return made and any(
        isinstance(item, Parameters) or bool(naming.MODULE.search(item.label)) for item in optimizer.parents
    )


def _is_bare_leaf(loss: Value) -> bool:
    """`parameter.backward(gradient)`: a gradient set by hand, as in tests of optimizers."""
    return isinstance(loss, Tensor) and loss.leaf

"""Gradients of a part of an optimizer's parameters that stay when the others are cleared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model.events import Backward, Clear, Event, Fresh, GradRead, Loop, MayClear, Step
from torchlint.model.held_parameters import sources_of
from torchlint.model.lineage import ancestry
from torchlint.model.module_values import has_parameters, is_module
from torchlint.model.ownership import MAX_OPTIMIZERS
from torchlint.model.program import Trace
from torchlint.model.queries.gradient_users import says_what_requires_grad
from torchlint.model.relations.gradients.stale import GradientsBetweenSteps
from torchlint.model.relations.gradients.step_paths import Paths
from torchlint.model.values import (
    Answer,
    Container,
    Iteration,
    Module,
    ModuleOutput,
    ModuleParameter,
    Optimizer,
    Parameters,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch.api import GradMode


class StalePart(NamedTuple):
    """`backward` adds to gradients of `part` that already went into `step`; clearings in between miss it."""

    part: Value
    backward: Backward
    step: Step
    following: Step


class StaleParts:
    """Checks each module and parameter that an optimizer is known to hold."""

    def __init__(self, gradients: GradientsBetweenSteps) -> None:
        self.program = gradients.program
        self.tracking = gradients.tracking
        self.ownership = gradients.ownership
        self.gradients = gradients

    def answers(self) -> Iterator[StalePart]:
        """The stale parts, each once per loop."""
        if says_what_requires_grad(self.program.tree):
            return
        for trace in self.program.traces:
            done: set[tuple[Loop | None, Value]] = set()
            for step, loop in self.gradients.regions(trace):
                for part in self._parts(resolved(step.optimizer), loop, trace)[:MAX_OPTIMIZERS]:
                    found = self._stale_in(part, loop, trace) if (loop, part) not in done else None
                    done.add((loop, part))
                    if found is not None:
                        yield found

    def _parts(self, optimizer: Value, loop: Loop | None, trace: Trace) -> list[Value]:
        """The values an optimizer holds, if known; a module of this file as its parts if some of them are cleared."""
        held, known = self.ownership.held_by(optimizer)
        if not known or not isinstance(optimizer, Optimizer):
            return []
        cleared = [self._cleared(event) for event in trace.of(Clear, (loop,) if loop is not None else ())]
        targets = {target for sources in cleared for target in sources or ()}
        parts: list[Value] = []
        for item in held:
            inside = self._parts_of(item)
            parts += inside if not targets.isdisjoint(inside) and item not in targets else [item]
        return sorted(parts, key=lambda part: part.order) if len(parts) > 1 else []

    def _parts_of(self, module: Value) -> list[Value]:
        """The modules and parameters that the class of a module stores."""
        if not isinstance(module, Module) or module.info is None:
            return []
        stored = self.program.attributes_of(module.info).values()
        return [item for item in stored if _may_learn(item)]

    def _stale_in(self, part: Value, loop: Loop | None, trace: Trace) -> StalePart | None:
        """The first pass that surely adds to gradients of a part that a step has used."""
        paths = Paths(
            lambda step: part in self._held_parts(step),
            lambda backward: self._surely_reaches(backward, part),
            lambda event: self._may_clear(event, part, trace),
            lambda event: isinstance(event, GradRead) and event.changes,
        )
        for last, step, backwards in paths.stale(self.ownership.touching(loop or trace), loop):
            return StalePart(part, min(backwards, key=lambda backward: backward.order), last, step)
        return None

    def _held_parts(self, step: Step) -> set[Value]:
        held, known = self.ownership.held_by(resolved(step.optimizer))
        if step.manual or not known:
            return set()
        return held | {part for item in held for part in self._parts_of(item)}

    def _surely_reaches(self, backward: Backward, part: Value) -> bool:
        """Whether a loss depends on a part: it runs with gradients, itself or in the `forward` of its module."""
        return any(self._runs(value, part) for value in self.tracking.pass_through(backward.loss))

    def _runs(self, value: Value, part: Value) -> bool:
        if not isinstance(value, Tensor) or value.mode is not GradMode.ON:
            return False
        operands = {resolved(item) for item in value.parents}
        if part in operands:
            return isinstance(value, ModuleOutput) or isinstance(part, Tensor)
        whole = resolved(value.parents[0]) if isinstance(value, ModuleOutput) else None
        if not isinstance(whole, Module) or whole.info is None or part not in self._parts_of(whole):
            return False
        returned = self.program.returned_by(whole.info)
        inside = ancestry([returned]) if returned is not None else set()
        return any(self._runs(item, part) for item in inside if item is not value)

    # -- clearings --------------------------------------------------------------------------------------

    def _may_clear(self, event: Event, part: Value, trace: Trace) -> bool:
        """Whether an event clears gradients of a part, or may clear them."""
        if isinstance(event, Clear):
            sources = self._cleared(event)
            return sources is None or self.ownership.overlap(sources, {part})
        if isinstance(event, Fresh) and event.value is part:
            return True
        if isinstance(event, MayClear) and any(part in inputs_of(item) for item in event.handed):
            return True
        optimizers = (item for item in self.ownership.optimizers(trace) if part in self.ownership.held_by(item)[0])
        return any(self.ownership.may_clear(event, item) for item in (*optimizers, part))

    def _cleared(self, event: Clear) -> set[Value] | None:
        """The modules and parameters whose gradients are cleared; None if that is not certain."""
        target = resolved(event.target) if event.target is not None else None
        if target is None:
            return _source_of(event.of) if event.of is not None else None
        if isinstance(target, Optimizer):
            sources, known = self.ownership.held_by(target)
            return sources if known else None
        return {target} if is_module(target) is Answer.YES else None


def _may_learn(value: Value) -> bool:
    return (isinstance(value, Module) and has_parameters(value)) or (isinstance(value, Tensor) and value.leaf)


def _source_of(parameter: Value) -> set[Value] | None:
    """The module of a parameter, or the modules of the optimizer group that contains it."""
    parameter = resolved(parameter)
    if isinstance(parameter, ModuleParameter):
        return {resolved(item) for item in parameter.parents}
    if isinstance(parameter, Tensor) and parameter.leaf:
        return {parameter}
    if isinstance(parameter, Iteration) and parameter.parents:
        group = _group(resolved(parameter.parents[0]))
        found, known = sources_of([group]) if group is not None else (set(), False)
        return found if known else None
    return None


def _group(parameters: Value) -> Value | None:
    """The optimizer group whose `["params"]` a value is; the optimizer's whole list if it may be any group."""
    group = resolved(parameters.parents[0]) if isinstance(parameters, Unknown) and parameters.parents else None
    groups = resolved(group.parents[0]) if isinstance(group, Unknown) and group.parents else None
    if group is None or groups is None or groups.label != "param_groups" or not groups.parents:
        return None
    optimizer = resolved(groups.parents[0])
    given = resolved(optimizer.parents[0]) if isinstance(optimizer, Optimizer) and optimizer.parents else None
    if given is None or not isinstance(given, Container):
        return given if isinstance(given, Parameters) else None
    if isinstance(group, Iteration):
        return given
    numbers = range(-len(given.parents), len(given.parents))
    return next((given.parents[number] for number in numbers if groups.part(f"[{number}]") is group), None)

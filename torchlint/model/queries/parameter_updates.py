"""Optimizer steps that change parameters between a forward pass and its backward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint.model.events import Backward, Compute, Step, apart
from torchlint.model.held_parameters import parameters_of
from torchlint.model.program import Program, Trace
from torchlint.model.tracking import Tracking
from torchlint.model.values import Answer, Module, ModuleOutput, Value, resolved

if TYPE_CHECKING:
    from torchlint.model.relations.gradients import Gradients


@dataclass(frozen=True)
class ParametersChanged:
    """`step` updates parameters that the forward pass `saver` used, before its `backward`."""

    step: Step
    saver: Compute
    backward: Backward


class ParameterUpdates:
    """Answers about steps between a forward pass and its backward."""

    def __init__(self, program: Program, tracking: Tracking, gradients: Gradients) -> None:
        self.program = program
        self.tracking = tracking
        self.gradients = gradients

    def across_backward(self) -> Iterator[ParametersChanged]:
        """Steps between a forward pass and the backward of its loss, of parameters that both use."""
        for trace in self.program.traces:
            for step in trace.events:
                if isinstance(step, Step) and not step.manual:
                    modules, known = parameters_of(resolved(step.optimizer))
                    found = self._forward_across(step, modules, trace) if known else None
                    if found is not None and self.gradients.may_use_some(trace, step):
                        yield found

    def step_across(self, backward: Backward) -> Step | None:
        """The step that updates parameters between a forward pass and the backward through it, if there is one."""
        return next((item.step for item in self.across_backward() if item.backward is backward), None)

    def _forward_across(self, step: Step, modules: set[Value], trace: Trace) -> ParametersChanged | None:
        savers = [event for event in trace.of(Compute) if self._is_used_before(event, step, modules)]
        for backward in trace.of(Backward) if savers else ():
            if backward.loops != step.loops or apart(backward, step):
                continue
            is_dragged = backward.order < step.order  # the graph of an earlier iteration, carried along
            if is_dragged and not step.loops:
                continue
            own = self.tracking.surely_through(backward.loss)
            whole = self.tracking.pass_through(backward.loss)
            for saver in savers:
                used = saver.value in own
                if is_dragged:
                    used = saver.value in whole and (not used or self._carries_itself(saver.value))
                if used and not apart(saver, step):
                    return ParametersChanged(step, saver, backward)
        return None

    def _is_used_before(self, saver: Compute, step: Step, modules: set[Value]) -> bool:
        return saver.order <= step.order and saver.loops == step.loops and self._uses(saver, modules)

    def _carries_itself(self, value: Value) -> bool:
        """Whether a forward pass feeds itself in the next iteration, with its graph."""
        return any(value in self.tracking.graph(parent) for parent in value.parents)

    def _uses(self, saver: Compute, modules: set[Value]) -> bool:
        """Whether a forward pass needs the values of a module's weights in backward."""
        if not isinstance(saver.value, ModuleOutput) or resolved(saver.value.parents[0]) not in modules:
            return False
        module = resolved(saver.value.parents[0])
        layered = isinstance(module, Module) and (module.info is not None or module.name.endswith(".Sequential"))
        return layered or any(self.tracking.tracked(item) is Answer.YES for item in saver.value.parents[1:])

"""Backward passes through losses that were computed with gradients off."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from torchlint.model.events import Backward, Branch, Call, Compute, Event, Exit, Item, Step, events_in
from torchlint.model.ownership import parameters_of
from torchlint.model.program import Program
from torchlint.model.tracking import Tracking, ancestry
from torchlint.model.values import (
    Answer,
    Phi,
    Tensor,
    Unknown,
    Value,
    resolved,
)
from torchlint.pytorch.api import GRAD_MODES, SET_GRAD_MODE
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import FUNCTIONS, Site, dotted, site_of


@dataclass(frozen=True)
class LossWithoutGraph:
    """`backward` on a loss whose forward ran with gradients off; `switch` is what switched them off."""

    backward: Backward
    switch: Site | None


@dataclass(frozen=True)
class UntrainedModule:
    """A module whose every forward pass, `forward`, runs with gradients off, though `step` updates its parameters."""

    forward: Event
    name: str
    step: Step
    switch: Site | None


class GradModes:
    """Answers about the grad mode of what is backpropagated."""

    def __init__(self, program: Program, tracking: Tracking) -> None:
        self.program = program
        self.tracking = tracking

    def losses_without_graph(self) -> Iterator[LossWithoutGraph]:
        """Backward passes that fail, or train nothing, because of the grad mode of their forward."""
        for trace in self.program.traces:
            for event in trace.events:
                if isinstance(event, Backward) and self._fails(event) and self._is_reached(event):
                    value = self._made_without_grad(event.loss)
                    if value is not None:
                        yield LossWithoutGraph(event, self._switch(value, event))

    def _fails(self, backward: Backward) -> bool:
        """Whether a backward pass finds no graph."""
        return self.tracking.tracked(backward.loss) is Answer.NO

    def _is_reached(self, backward: Backward) -> bool:
        """Whether a function that is called with gradients off surely goes backward: a condition in it that the
        call does not decide may well mean training."""
        others = [arm for branch, taken in backward.undecided for arm in _other_arms(branch, taken)]
        return all(_raises(arm) or self._goes_backward(arm) for arm in others) and all(
            isinstance(branch, Branch) and _raises(branch.arms[arm]) for branch, arm in backward.escaped
        )

    def _goes_backward(self, arm: list[Item]) -> bool:
        return any(isinstance(event, Backward) and self._fails(event) for event in events_in(arm))

    def _made_without_grad(self, loss: Value) -> Value | None:
        """The operator or call, of those the loss comes from, that ran with gradients off."""
        seen: set[Value] = set()
        stack = [loss]
        while stack:
            value = stack.pop(0)
            if value in seen:
                continue
            seen.add(value)
            if isinstance(value, (Tensor, Unknown)) and value.mode is GradMode.OFF and _is_computed(value):
                return value
            if isinstance(value, (Tensor, Phi)) or (
                isinstance(value, Unknown) and value.origin in ("attribute", "element")
            ):
                stack.extend(value.parents)
        return None

    def untrained_modules(self) -> Iterator[UntrainedModule]:
        """Modules that an optimizer steps on and a loss comes from, but that never run with gradients on."""
        for trace in self.program.traces:
            done: set[Value] = set()
            for step in trace.events:
                if not isinstance(step, Step) or step.manual or step.optimizer in done:
                    continue
                done.add(step.optimizer)
                modules, known = parameters_of(resolved(step.optimizer))
                for module in modules if known else ():
                    forward = self._untrained(module, step, trace.events)
                    if forward is not None:
                        yield UntrainedModule(forward, module.label, step, self._switch(_result(forward), forward))

    def _untrained(self, module: Value, step: Step, events: list[Event]) -> Event | None:
        """The forward pass of a module, if all of them run with gradients off and a loss beside the step needs one."""
        used = [event for event in events if isinstance(event, (Compute, Call)) and module in _operands(event)]
        passes = [event for event in used if _callee(event) is module]
        if not passes or len(used) > len(passes) or any(event.mode is not GradMode.OFF for event in passes):
            return None
        losses = [event for event in events if isinstance(event, Backward) and event.loops == step.loops]
        losses = [event for event in losses if self.tracking.tracked(event.loss) is not Answer.NO]
        needed: set[Value] = set()
        for backward in losses:
            needed |= ancestry([backward.loss])
        return next((event for event in passes if _result(event) in needed and event.loops == step.loops), None)

    def _switch(self, value: Value, backward: Event) -> Site | None:
        """The `with`, decorator or statement that switched gradients off."""
        tree = self.program.tree
        for site in (value.site, *reversed(backward.calls)):
            for item in tree.ancestors(tree.node(site)) if site is not None else ():
                if isinstance(item, (ast.With, ast.AsyncWith)):
                    if any(self._switches_off(part.context_expr) for part in item.items):
                        return site_of(item.items[0].context_expr)
                if isinstance(item, FUNCTIONS):
                    for decorator in item.decorator_list:
                        if self._switches_off(decorator):
                            return tree.decorator_site(decorator)
        for call in tree.of_type(ast.Call):
            if self.program.definitions.qualified(dotted(call.func), call) in SET_GRAD_MODE:
                return site_of(tree.statement(call))
        return None

    def _switches_off(self, node: ast.AST) -> bool:
        name = self.program.definitions.qualified(dotted(node.func if isinstance(node, ast.Call) else node), node)
        return GRAD_MODES.get(name) is GradMode.OFF or name in SET_GRAD_MODE


def _other_arms(branch: object, taken: int) -> list[list[Item]]:
    if not isinstance(branch, Branch):
        return [[]]  # the handler of a `try`, whose body may do without it
    return [arm for number, arm in enumerate(branch.arms) if number != taken]


def _raises(arm: list[Item]) -> bool:
    return any(isinstance(item, Exit) and item.kind == "raise" for item in arm)


def _result(event: Event) -> Value:
    assert isinstance(event, (Compute, Call))
    return event.value


def _operands(event: Compute | Call) -> list[Value]:
    return [resolved(item) for item in (*event.value.parents, _callee(event)) if item is not None]


def _callee(event: Compute | Call) -> Value | None:
    value = event.value
    if isinstance(value, Tensor):
        return resolved(value.parents[0]) if value.op == "module" else None
    return resolved(value.callee) if value.callee is not None else None


def _is_computed(value: Tensor | Unknown) -> bool:
    return (isinstance(value, Tensor) and value.op != "new") or (
        isinstance(value, Unknown) and value.origin in ("call", "object")
    )

"""Backward passes through losses that were computed with gradients off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchlint.model.definitions import dotted
from torchlint.model.events import Backward, events_in
from torchlint.model.knowledge import GRAD_MODES, SET_GRAD_MODE
from torchlint.model.program import Program
from torchlint.model.tracking import Tracking
from torchlint.model.values import Answer, GradMode, Phi, Tensor, Unknown, Value


@dataclass(frozen=True)
class LossWithoutGraph:
    """`backward` on a loss whose forward ran with gradients off; `switch` is what switched them off."""

    backward: Backward
    switch: cst.CSTNode | None


class GradModes:
    """Answers about the grad mode of what is backpropagated."""

    def __init__(self, program: Program, tracking: Tracking) -> None:
        self.program = program
        self.tracking = tracking

    def losses_without_graph(self) -> Iterator[LossWithoutGraph]:
        """Backward passes that fail, or train nothing, because of the grad mode of their forward."""
        for trace in self.program.traces:
            for event in events_in(trace.items):
                if isinstance(event, Backward) and self.tracking.tracked(event.loss) is Answer.NO:
                    value = self._made_without_grad(event.loss)
                    if value is not None:
                        yield LossWithoutGraph(event, self._switch(value, event))

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

    def _switch(self, value: Value, backward: Backward) -> cst.CSTNode | None:
        """The `with`, decorator or statement that switched gradients off."""
        tree = self.program.tree
        for node in (value.node, *reversed(backward.calls)):
            for item in tree.ancestors(node) if node is not None else ():
                if isinstance(item, cst.With) and any(self._switches_off(part.item) for part in item.items):
                    return item.items[0].item
                if isinstance(item, cst.FunctionDef):
                    for decorator in item.decorators:
                        if self._switches_off(decorator.decorator):
                            return decorator
        for call in tree.of_type(cst.Call):
            if self.program.definitions.qualified(dotted(call.func)) in SET_GRAD_MODE:
                return tree.statement(call)
        return None

    def _switches_off(self, node: cst.CSTNode) -> bool:
        name = self.program.definitions.qualified(dotted(node.func if isinstance(node, cst.Call) else node))
        return GRAD_MODES.get(name) is GradMode.OFF or name in SET_GRAD_MODE


def _is_computed(value: Tensor | Unknown) -> bool:
    return (isinstance(value, Tensor) and value.op != "new") or (
        isinstance(value, Unknown) and value.origin in ("call", "object")
    )

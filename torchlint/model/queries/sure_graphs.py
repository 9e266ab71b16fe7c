"""The certain part of a graph: the values that a backward pass certainly reaches despite unknowns."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from torchlint.model.events import Backward, Step
from torchlint.model.frozen import Frozen
from torchlint.model.lineage import graph_inputs, opened, result_of_call
from torchlint.model.module_values import has_parameters
from torchlint.model.ownership import Ownership
from torchlint.model.program import Trace
from torchlint.model.tracking import Tracking
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import (
    Answer,
    CallResult,
    Component,
    Container,
    Iteration,
    Module,
    ModuleOutput,
    Optimizer,
    Phi,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import api, naming
from torchlint.pytorch.api import GradMode
from torchlint.pytorch.autograd_table import OPERATORS

_MOST_CHOICES = 6
"""Maximum number of optimizers per option, and of such options."""
_PASSING = OPERATORS.keys() | api.PASSING_METHODS | frozenset("add sub mul div pow matmul neg scale getitem".split())


class SureGraphs:
    """Answers about graphs for rules that predict an error of PyTorch."""

    def __init__(self, tracking: Tracking, ownership: Ownership, frozen: Frozen) -> None:
        self.tracking = tracking
        self.ownership = ownership
        self.frozen = frozen
        self._known: dict[Value, set[Value]] = {}
        self._trained: dict[Value, bool] = {}

    def of(self, value: Value) -> set[Value]:
        """The values that a backward pass surely goes through, back to the start of an iteration."""
        if value not in self._known:
            self._known[value] = self._graph(value)
        return self._known[value]

    def _graph(self, value: Value) -> set[Value]:
        found: set[Value] = set()
        given: set[Value] = set()
        stack = [_only_meaning(value)]
        while stack:
            item = stack.pop()
            if item not in found:
                found.add(item)
                parts = opened(map(_only_meaning, self._sources(item)), item, given)
                stack.extend(map(_only_meaning, parts))
        return found | given

    def is_trained_call(self, value: Value) -> bool:
        """Whether a value is the output of a module in training: it saves tensors that its backward frees."""
        callee: Value | None = None
        if isinstance(value, CallResult) and value in self.tracking.backpropagated:
            callee = value.callee
        elif isinstance(value, ModuleOutput) and self.tracking.tracked(value) is Answer.YES:
            callee = value.parents[0]
        return callee is not None and self._is_trained(resolved(callee))

    def computed(self, trace: Trace, backward: Backward) -> set[Value]:
        """The values that compute a loss in an iteration that ends in a step; modules and calls may be unknown.

        A loss before an optimizer's step is no sum of leaves, so its computation saves tensors.
        """
        if not any(step.loops == backward.loops for step in trace.of(Step)):
            return set()
        return {item for item in self.of(backward.loss) if item.loops == backward.loops and self._is_computed(item)}

    def _is_computed(self, value: Value) -> bool:
        """Whether a value with a graph comes from a module, or from a call with arguments or a loss's name."""
        if isinstance(value, Tensor):
            return isinstance(value, ModuleOutput) and self.tracking.tracked(value) is Answer.YES
        call = result_of_call(value)  # the call computes `model(x).loss`
        is_loss = isinstance(call, CallResult) and (bool(call.parents) or _is_loss(call))
        return is_loss and value in self.tracking.backpropagated

    @cached_property
    def _is_held(self) -> Callable[[Value], bool]:
        """A test whether a stepping optimizer surely holds parameters of a module, for every value of the options."""
        found = [resolved(item) for item in self.ownership.stepped]
        surely = self.ownership.held_by_any(
            {item for item in found if isinstance(item, Optimizer) or is_kind(item, Kind.ENGINE)}
        )
        choices = [list(inputs_of(item)) for item in found if isinstance(item, Phi)][:_MOST_CHOICES]
        known = [each for each in choices if all(isinstance(item, Optimizer) for item in each[: _MOST_CHOICES + 1])]
        few = [each for each in known if len(each) <= _MOST_CHOICES]
        of_each = [[self.ownership.held_by_any({item}) for item in each] for each in few]
        return lambda module: surely(module) or any(all(holds(module) for holds in each) for each in of_each)

    def _is_trained(self, module: Value) -> bool:
        if module not in self._trained:
            is_free = not self.frozen.may_be_partly(module) and has_parameters(module)
            self._trained[module] = is_free and self._is_held(module)
        return self._trained[module]

    def _sources(self, value: Value) -> tuple[Value, ...]:
        """The operands from which a value surely gets its graph; empty if there are none."""
        if isinstance(value, Container):
            return tuple(value.elements())
        if isinstance(value, Iteration):
            return value.parents  # each part of a state, `(h, c)`, is a state as well
        if isinstance(value, Unknown) and _is_loss(value):
            given = [item for item in value.parents if self.tracking.tracked(item) is not Answer.NO]
            return tuple(given) if len(given) == 1 else ()
        if not isinstance(value, Tensor) or value.leaf:
            return ()
        tracked = self.tracking.tracked(value)
        if tracked is Answer.UNKNOWN and value.mode is GradMode.ON and value.op in _PASSING:
            return graph_inputs(value)  # e.g. of a parameter of `forward`: the caller's argument may have a graph
        if tracked is not Answer.YES:
            return ()
        if isinstance(value, ModuleOutput):
            return self._sources_of_module(value, value.body)
        if isinstance(value, Component):
            return self._sources_of_component(value)
        return graph_inputs(value) if value.op in _PASSING else ()

    def _sources_of_component(self, value: Tensor) -> tuple[Value, ...]:
        """The sources of one of a module's results: the module's, or those its class gives for this result."""
        whole = value.parents[0]
        if not isinstance(whole, ModuleOutput):
            return ()
        module, key = resolved(whole.parents[0]), whole.key_of(value)
        if not isinstance(module, Module) or module.info is None:
            is_recurrent = isinstance(module, Module) and module.name.rpartition(".")[2] in api.RECURRENT
            return (whole,) if is_recurrent else ()
        returned = whole.body.element_at(key) if isinstance(whole.body, Container) else None
        return self._sources_of_module(whole, returned) if returned is not None else ()

    def _sources_of_module(self, value: Tensor, body: Value | None) -> tuple[Value, ...]:
        """The arguments of a module's call on which its result depends, as far as its class is known."""
        module = resolved(value.parents[0])
        if not isinstance(module, Module):
            return ()
        if module.info is None:
            return value.parents[1:]
        forward = module.info.method("forward")
        if body is None or forward is None or self.tracking.tracked(body) is Answer.NO:
            return ()
        needed = {item.label for item in self.of(body) if isinstance(item, Unknown)}
        names = forward.parameters[1:]
        return tuple(item for name, item in zip(names, value.parents[1:], strict=False) if name in needed)


def _only_meaning(value: Value) -> Value:
    """The only meaning of a value; a state that starts as None is the tensor it becomes.

    A loop's state stays as it is.
    """
    if isinstance(value, Phi) and value.is_loop:
        return value
    return resolved(value)


def _is_loss(value: Unknown) -> bool:
    """Whether a value is the result of a callee that is named like a loss function."""
    label = value.callee.label if isinstance(value, CallResult) and value.callee is not None else ""
    return bool(naming.LOSS.search(label))

"""Marks of losses: values that surely received a backward pass, and modules that it trained."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from torchlint.model.graph_answers import GraphAnswers
from torchlint.model.graph_cuts import CUTTING
from torchlint.model.lineage import graph_inputs, result_of_call
from torchlint.model.module_graphs import ModuleGraphs
from torchlint.model.module_values import called_like_module, is_forward
from torchlint.model.values import (
    Attribute,
    CallResult,
    Component,
    Container,
    Element,
    Iteration,
    ModuleOutput,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    resolved,
)
from torchlint.pytorch import losses
from torchlint.pytorch.effects import GradMode

_TERMS = frozenset("add sub neg scale to cuda cpu float double half mean sum stack squeeze view reshape".split())


class LossMarks:
    """Gives tracking the facts that losses show, before it answers anything."""

    def __init__(self, tracking: GraphAnswers, modules: ModuleGraphs) -> None:
        self._tracking = tracking
        self._modules = modules
        self._from_module: dict[Value, bool] = {}
        """Whether values come from a module, for the values asked so far."""

    def mark(self, loss: Value) -> None:
        """Mark the loss, the terms of its sum, and every value that is the only possible source of its graph."""
        stack, seen = [(loss, True)], set[Value]()
        while stack:
            value, certain = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if certain or self._is_loss(value):
                self._tracking.backpropagated.add(value)
                if isinstance(value, Iteration):
                    self._from_module.clear()  # it is not data
            if isinstance(value, (Phi, Container)):
                parts = value.elements() if isinstance(value, Container) else value.parents
                is_one = isinstance(value, Phi) and value.is_keyed
                left_out = _taken_apart(parts)
                stack.extend((item, certain and not is_one) for item in parts if item not in left_out)
            elif isinstance(value, Tensor) and value.mode is GradMode.OFF and value.base is not None:
                stack.append((value.base, certain))
            elif isinstance(value, Tensor) and value.mode is not GradMode.OFF and value.op not in CUTTING:
                is_component = isinstance(value, Component)  # the other parts of the whole may be data
                only = self._only_source(value) if not is_component else None
                if only is not None:
                    stack.append((only, certain))
                elif value.op in _TERMS:
                    stack.extend((item, False) for item in value.parents)

    def mark_module_calls(self, graph: Iterable[Value]) -> None:
        """Mark the results of module-like calls in a loss's graph, made with gradients on, as part of the graph."""
        for value in graph:
            if isinstance(value, CallResult) and value.mode is GradMode.ON:
                if value.callee is not None and is_forward(value):
                    self._tracking.backpropagated.add(value)
                    self._tracking.trained.update((resolved(value.callee), value.site))

    def _only_source(self, value: Tensor) -> Value | None:
        """The only possible source of a tensor's graph: the other operands are numbers, data or detached."""
        if isinstance(value, ModuleOutput):
            return None
        sources = [item for item in graph_inputs(value) if not self._cannot_track(item)]
        if len(sources) > 1:
            sources = [
                item for item in sources if self._comes_from_module(item) and not self._modules.is_of_frozen(item)
            ]
        return sources[0] if len(sources) == 1 else None

    def _cannot_track(self, value: Value) -> bool:
        value = resolved(value)
        if isinstance(value, Tensor):
            return value.op in CUTTING or (value.mode is GradMode.OFF and not value.leaf and value.base is None)
        return not isinstance(value, (Unknown, Phi, Container)) or self._tracking.is_data(value)

    def _comes_from_module(self, value: Value) -> bool:
        """Whether a value is computed by a module, or by a callee that is called like one."""
        user: dict[Value, Value | None] = {}
        """Each visited value, with the value that is computed from it."""
        stack: list[tuple[Value, Value | None]] = [(value, None)]
        while stack:
            item, used_by = stack.pop()
            if item in user or self._from_module.get(item) is False or self._cannot_track(item):
                continue
            user[item] = used_by
            if self._from_module.get(item) or _is_made_by_module(item):
                self._from_module.update(dict.fromkeys(_chain(item, user), True))
                return True
            if isinstance(item, (Tensor, Phi, Element, Attribute)):
                stack.extend((parent, item) for parent in item.parents)
        self._from_module.update(dict.fromkeys(user, False))
        return False

    def _is_loss(self, value: Value) -> bool:
        """Whether a term of a loss is a loss itself: the result of a call or of a loss function."""
        if isinstance(value, Unknown):
            return isinstance(value, CallResult) or (
                isinstance(value, (Attribute, Element)) and result_of_call(value) is not None
            )
        if not isinstance(value, Tensor) or self._modules.is_of_frozen(value):
            return False
        return isinstance(value, (ModuleOutput, Component)) or value.op in losses.OPERATORS


def _taken_apart(values: Collection[Value]) -> set[Value]:
    """Numbers, and values of which another alternative is a part: in `out[0] if both else out`, the rest is unknown."""
    numbers = {item for item in values if isinstance(item, Plain)}
    return numbers | {item.parents[0] for item in values if isinstance(item, Component)}


def _chain(value: Value, user: dict[Value, Value | None]) -> Iterator[Value]:
    """A value, its user, and so on."""
    item: Value | None = value
    while item is not None:
        yield item
        item = user[item]


def _is_made_by_module(value: Value) -> bool:
    """Whether a value is a leaf, or the result of a module or of a callee that is called like one."""
    if isinstance(value, Tensor):
        return isinstance(value, ModuleOutput) or value.leaf
    callee = value.callee if isinstance(value, CallResult) else None
    return callee is not None and called_like_module(callee)

"""Modes of modules: which call of `train` or `eval` each path to a forward pass has come past last."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterator
from typing import Literal

from torchlint.model.dataflow import Flow
from torchlint.model.events import Backward, Call, Compute, Event, MayClear, ModeSwitch, Step, repeating
from torchlint.model.module_values import has_parameters, is_module
from torchlint.model.parts import Parts
from torchlint.model.program import Trace
from torchlint.model.tracking import Tracking
from torchlint.model.values import (
    Answer,
    BoundMethod,
    CallResult,
    ModuleOutput,
    ModuleParameter,
    Tensor,
    Value,
    meanings,
    resolved,
)
from torchlint.pytorch import naming

MAX_MODULES = 50
"""Modules of one function that are followed; of others nothing is known."""
Pass = Compute | Call
"""A forward pass of a module."""
Modes = frozenset[ModeSwitch | None]
"""The last switch on each path to an event; None: a path on which there is none."""
Known = ModeSwitch | Literal["as it was", "unknown"]
"""What is known of a mode: the last switch, that there was none, or that a call may have switched it since."""


class ModuleModes:
    """Answers about the modes of modules."""

    def __init__(self, tracking: Tracking, parts: Parts) -> None:
        self.tracking = tracking
        self.parts = parts
        self._covered: dict[tuple[ModeSwitch, Value], bool] = {}
        self._arrivals: dict[Trace, dict[frozenset[ModeSwitch], dict[Event, Modes]]] = {}

    def passes(self, trace: Trace) -> Iterator[tuple[Pass, Value]]:
        """The forward passes of what surely is a module with parameters, each with that module."""
        for event in trace.of_kinds(Compute, Call):
            module = module_of(event)
            if module is not None and has_parameters(module) and is_module(module) is Answer.YES:
                yield event, module

    def by_module(self, trace: Trace) -> dict[Value, list[Pass]]:
        """The forward passes of each module."""
        found: dict[Value, list[Pass]] = defaultdict(list)
        for forward, module in self.passes(trace):
            found[module].append(forward)
        return found

    def is_trained(self, trace: Trace, forward: Pass) -> bool:
        """Whether a backward that is repeated goes through a forward pass, and something may step on what it gives."""
        passed = (item for item in trace.of(Backward) if repeating(item.loops) and _is_for_a_step(item, trace))
        return any(forward.value in self.tracking.pass_through(backward.loss, carried=False) for backward in passed)

    def at(self, trace: Trace, event: Pass, module: Value) -> Modes:
        """The last switches of a module, or of what it is a part of, on the paths to a forward pass."""
        own = frozenset(switch for switch in trace.of(ModeSwitch) if self.covers(switch, module))
        known = self._arrivals.setdefault(trace, {})
        if own and own not in known and len(known) < MAX_MODULES:
            known[own] = self._flow(trace, own)
        return known.get(own, {}).get(event, frozenset()) if own else frozenset({None})

    def _flow(self, trace: Trace, own: frozenset[ModeSwitch]) -> dict[Event, Modes]:
        arrivals: dict[Event, Modes] = defaultdict(frozenset)

        def transfer(event: Event, states: Modes) -> Modes:
            if isinstance(event, ModeSwitch):
                return frozenset({event}) if event in own else states
            arrivals[event] |= states
            return states

        Flow(transfer).run(trace.only(ModeSwitch, Compute, Call), frozenset({None}))
        return arrivals

    def known_at(self, trace: Trace, module: Value) -> dict[Event, frozenset[Known]]:
        """What is known of the mode of a module on the paths to each event but switches."""
        found: dict[Event, frozenset[Known]] = defaultdict(frozenset)

        def transfer(event: Event, states: frozenset[Known]) -> frozenset[Known]:
            if isinstance(event, ModeSwitch):
                return frozenset({event}) if self.covers(event, module) else states
            if isinstance(event, MayClear):
                return frozenset({"unknown"}) if self._may_switch(event, module) else states
            found[event] |= states
            return states

        Flow(transfer).run(trace.only(ModeSwitch, MayClear, Compute, Call), frozenset({"as it was"}))
        return found

    def _may_switch(self, event: MayClear, module: Value) -> bool:
        """Whether an unknown call gets hold of a module, and may switch its mode."""
        if naming.is_harmless_to_model(event.name) and not naming.SWITCHING_MODE.search(event.name):
            return False
        return self.parts.part_of_any([resolved(item) for item in event.handed])(module)

    def covers(self, switch: ModeSwitch, module: Value) -> bool:
        """Whether a switch is one of a module, of what it is a part of, or of one of several of which it is one."""
        key = switch, module
        if key not in self._covered:
            switched = [resolved(switch.module), *meanings(switch.module)]
            self._covered[key] = self.parts.part_of_any(switched)(module)
        return self._covered[key]


def module_of(event: Pass) -> Value | None:
    """What a forward pass calls: `model` of `model(x)`."""
    value = event.value
    if isinstance(value, Tensor):
        return resolved(value.parents[0]) if isinstance(value, ModuleOutput) else None
    callee = resolved(value.callee) if value.callee is not None and isinstance(value, CallResult) else None
    is_method = isinstance(callee, BoundMethod)
    return None if callee is None or is_method else callee


def _is_for_a_step(backward: Backward, trace: Trace) -> bool:
    """Whether a step is taken in or around the loops of a backward; others are for an input, as those of attacks."""
    steps = (step for step in trace.of(Step) if not _is_of_input(step))
    pairs = ((backward.loops, step.loops) for step in steps)
    return backward.framework is not None or any(all(map(operator.eq, *pair)) for pair in pairs)


def _is_of_input(step: Step) -> bool:
    """An update by hand of what is no parameter of a module: `delta.data = delta + rate * delta.grad.sign()`."""
    stepped = resolved(step.optimizer)
    return step.manual and isinstance(stepped, Tensor) and not isinstance(stepped, ModuleParameter)

"""Mode: training or evaluation mode on each path to a forward pass, and the call that set it."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import NamedTuple

from torchlint.index import FileIndex
from torchlint.model.dataflow import Flow
from torchlint.model.events import Backward, Call, Compute, Event, MayClear, ModeSwitch, Step, repeating
from torchlint.model.held_parameters import parameters_of
from torchlint.model.module_values import has_parameters, is_module
from torchlint.model.parts import Parts
from torchlint.model.program import Program, Trace
from torchlint.model.relations._part_modes import PartModes, SwitchedBack
from torchlint.model.relations.answer import Answer as Text
from torchlint.model.relations.answer import lines
from torchlint.model.tracking import Tracking
from torchlint.model.values import (
    Answer,
    BoundMethod,
    CallResult,
    External,
    Instance,
    Module,
    ModuleOutput,
    ModuleParameter,
    Tensor,
    Value,
    class_of,
    meanings,
    resolved,
)
from torchlint.pytorch import naming

__all__ = ["MAX_MODULES", "Mode", "Pass", "Setting", "SwitchedBack", "module_of"]

MAX_MODULES = 50
"""Maximum number of modules followed per function; nothing is known about the others."""
Pass = Compute | Call
"""A forward pass of a module."""


class Setting(NamedTuple):
    """The mode of a module at the end of one path."""

    switch: ModeSwitch | None
    """The last switch; None if the module is still in its initial mode."""
    undone: ModeSwitch | None = None
    """The call of `eval()` that `train()` undid before the module had run."""
    since: MayClear | None = None
    """An unknown call since then that may have switched the module."""
    is_used: bool = False
    """Whether the module has run since the switch to evaluation."""
    outer: ModeSwitch | None = None
    """The call of `eval()` in a function whose callee has switched the mode since."""

    @property
    def is_evaluating(self) -> bool:
        return self.switch is not None and self.switch.training is False


Settings = frozenset[Setting]


class Mode:
    """Answers about the modes of modules."""

    def __init__(self, program: Program, tracking: Tracking, parts: Parts) -> None:
        self._program = program
        self._tracking = tracking
        self._parts = parts
        self._covered: dict[tuple[ModeSwitch, Value], bool] = {}
        self._arrivals: dict[Trace, dict[Value, dict[Event, Settings]]] = defaultdict(dict)

    def passes(self, trace: Trace) -> Iterator[tuple[Pass, Value]]:
        """The forward passes of certain modules with parameters, each with the module."""
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
        """Whether a repeated backward goes through a forward pass, and something may step on its gradients."""
        passed = (item for item in trace.of(Backward) if repeating(item.loops) and _is_for_a_step(item, trace))
        return any(
            resolved(item.loss) is forward.value
            or forward.value in self._tracking.pass_through(item.loss, carried=False)
            for item in passed
        )

    def at(self, trace: Trace, event: Pass, module: Value) -> Settings:
        """The modes of a module on the paths to a forward pass; empty if the pass is unreachable, or not followed."""
        known = self._arrivals[trace]
        if module not in known and len(known) < MAX_MODULES:
            known[module] = self._flow(trace, module)
        return known.get(module, {}).get(event, Settings())

    def switch(self, trace: Trace, event: Pass, module: Value, *, training: bool) -> ModeSwitch | None:
        """A call that surely sets this mode for a forward pass; None if any path has another mode."""
        settings = self.at(trace, event, module)
        switches = [item.switch for item in settings if item.since is None]
        if not settings or len(switches) != len(settings):
            return None
        return switches[0] if all(item is not None and item.training is training for item in switches) else None

    def starts_in_training(self, trace: Trace, module: Value) -> bool:
        """Whether a trace creates a module in training mode; pretrained `transformers` models start in evaluation."""
        callee = module.callee if isinstance(module, CallResult) else None
        if isinstance(callee, External) and callee.label == "from_pretrained":
            return False
        return trace.root is None or module.order > trace.start > 0

    def loads(self, trace: Trace) -> Iterator[Call]:
        """The calls that load weights into modules."""
        for call in trace.of(Call):
            callee = call.value.callee
            if callee is not None and callee.label == "load_state_dict" and call.value.parents:
                yield call

    def covers(self, switch: ModeSwitch, module: Value) -> bool:
        """Whether a switch covers a module: the switched value is the module, contains it, or may be either."""
        key = switch, module
        if key not in self._covered:
            switched = [resolved(switch.module), *meanings(switch.module)]
            self._covered[key] = self._parts.part_of_any(switched)(module)
        return self._covered[key]

    def switched_back(self, trace: Trace, module: Value, passes: Sequence[Pass]) -> list[SwitchedBack]:
        """The parts of a module that run in training mode in these passes, although `eval()` was called on them.

        If there are none, the parts with frozen parameters.
        """
        found = list(self._of_parts.switched_back(trace, module, passes))
        for forward in passes if not found else ():
            settings = self.at(trace, forward, module)
            switches = [item.switch for item in settings if item.switch is not None and item.switch.training]
            if switches and len(switches) == len(settings):
                first = min(switches, key=lambda item: item.order)
                parts = self._of_parts.frozen_parts(trace, module)
                found += [SwitchedBack(part, module, first, None) for part in parts]
        return found

    @cached_property
    def _of_parts(self) -> PartModes:
        return PartModes(self._program, self._parts)

    # -- paths ------------------------------------------------------------------------------------------

    def _flow(self, trace: Trace, module: Value) -> dict[Event, Settings]:
        arrivals: dict[Event, Settings] = defaultdict(Settings)
        switches = cache(lambda event: self._may_switch(event, module))  # a flow reaches an event repeatedly
        runs = cache(lambda event: self._runs(event, module))

        def after(event: Event, settings: Settings) -> Settings:
            if isinstance(event, MayClear) and switches(event):
                return Settings(item._replace(since=event) for item in settings)
            if any(item.is_evaluating and not item.is_used for item in settings) and runs(event):
                return Settings(item._replace(is_used=item.is_evaluating) for item in settings)
            return settings

        def transfer(event: Event, settings: Settings) -> Settings:
            if isinstance(event, ModeSwitch):
                is_own = self.covers(event, module)
                return Settings(_switched(item, event) for item in settings) if is_own else settings
            if not isinstance(event, MayClear):
                arrivals[event] |= settings
            return after(event, settings)

        start = Setting(self._before(trace, module))
        Flow(transfer).run(trace.only(ModeSwitch, MayClear, Compute, Call), Settings({start}))
        return arrivals

    def _runs(self, event: Event, module: Value) -> bool:
        """Whether a module or a part of it runs, or a call receives it and may run it."""
        if isinstance(event, MayClear):
            return self._parts.part_of_any([resolved(item) for item in event.handed])(module)
        run = module_of(event) if isinstance(event, (Compute, Call)) else None
        return run is not None and self._parts.is_part(run, module)

    def _may_switch(self, event: MayClear, module: Value) -> bool:
        """Whether an unknown call has access to a module, and may switch its mode."""
        if naming.is_harmless_to_model(event.name) and not naming.SWITCHING_MODE.search(event.name):
            return False
        return self._parts.part_of_any([resolved(item) for item in event.handed])(module)

    def _before(self, trace: Trace, module: Value) -> ModeSwitch | None:
        """The `eval()` that `__init__` calls before any other method runs; None if others may switch back."""
        owner = trace.receiver
        info = class_of(owner) if isinstance(owner, Instance) else None
        if info is None or trace.root is None or trace.root.name == "__init__":
            return None
        begun = self._program.observations.begun.get(info, ())
        switches = (item for item in reversed(begun) if isinstance(item, ModeSwitch))
        last = next((item for item in switches if self.covers(item, module)), None)
        if last is None or last.training is not False or last.path:
            return None
        return last if trace.root.node in FileIndex.of(info.definitions.tree).methods_in_evaluation else None

    # -- in words ---------------------------------------------------------------------------------------

    def answers(self) -> Iterator[Text]:
        """For each forward pass, the mode in which it runs."""
        for trace in self._program.traces:
            for forward, module in self.passes(trace):
                if settings := self.at(trace, forward, module):
                    yield Text(forward.site, self._said(trace, module, settings))
                elif module not in self._arrivals[trace]:
                    yield Text(forward.site, f"unknown: the function has more than {MAX_MODULES} modules")

    def _said(self, trace: Trace, module: Value, settings: Settings) -> str:
        """The modes of all paths: "evaluates, since line 4"."""
        if unknown := [item.since for item in settings if item.since is not None]:
            return f"unknown: {self._lines(unknown)} may switch the mode"
        parts = []
        for training, word in ((False, "evaluates"), (True, "trains"), (None, "in a mode that a variable decides")):
            since = [item.switch for item in settings if item.switch is not None and item.switch.training is training]
            parts += [f"{word}, since {self._lines(since)}"] if since else []
        if any(item.switch is None for item in settings):
            is_made = self.starts_in_training(trace, module) and isinstance(module, Module)
            parts.append("trains, since it was created" if is_made else "unknown: nothing here switches it")
        undone = [item.undone for item in settings if item.undone is not None]
        is_undone = len(undone) == len(settings)
        return "; or ".join(parts) + (f"; `eval()` of {self._lines(undone)} is undone" if is_undone else "")

    def _lines(self, events: Iterable[Event]) -> str:
        return lines(self._program.tree, (event.site for event in events))


def module_of(event: Pass) -> Value | None:
    """The module that a forward pass calls: `model` of `model(x)`."""
    value = event.value
    if isinstance(value, Tensor):
        return resolved(value.parents[0]) if isinstance(value, ModuleOutput) else None
    callee = resolved(value.callee) if value.callee is not None and isinstance(value, CallResult) else None
    is_method = isinstance(callee, BoundMethod)
    return None if callee is None or is_method else callee


def _switched(setting: Setting, switch: ModeSwitch) -> Setting:
    """The mode after a switch. An `eval()` undone by `train()` is remembered until the next `eval()`."""
    around = (setting.outer, setting.switch) if setting.is_evaluating else ()
    outer = next((item for item in around if item is not None and _is_in_callee(switch, item)), None)
    if switch.training is False:
        return Setting(switch, outer=outer)
    if switch.training is not True or setting.switch is None:
        return Setting(switch)
    is_undone = setting.is_evaluating and not setting.is_used and setting.since is None
    return Setting(switch, setting.switch if is_undone else setting.undone, outer=outer)


def _is_in_callee(event: Event, outer: Event) -> bool:
    """Whether a function that contains `outer` calls the one that contains an event."""
    return len(event.calls) > len(outer.calls) and event.calls[: len(outer.calls)] == outer.calls


def _is_for_a_step(backward: Backward, trace: Trace) -> bool:
    """Whether a step is in or around the loops of a backward; others update an input, as attacks do."""
    steps = (step for step in trace.of(Step) if not _is_of_input(step))
    pairs = ((backward.loops, step.loops) for step in steps)
    return backward.framework is not None or any(all(map(operator.eq, *pair)) for pair in pairs)


def _is_of_input(step: Step) -> bool:
    """An update of tensors that are no module's parameters: `delta.data += delta.grad.sign()`, or of `SGD([image])`."""
    stepped = resolved(step.optimizer)
    held, is_complete = parameters_of(stepped) if not step.manual else ({stepped}, True)
    others = [it for it in map(resolved, held) if not isinstance(it, Tensor) or isinstance(it, ModuleParameter)]
    return is_complete and bool(held) and not others

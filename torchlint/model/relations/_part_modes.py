"""Modes of parts: a part in evaluation mode that `train()` of the whole switches back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from torchlint.model.dataflow import Flow
from torchlint.model.definitions import ClassInfo
from torchlint.model.events import Call, Compute, Event, Fresh, MayClear, ModeSwitch
from torchlint.model.parts import Parts
from torchlint.model.program import Program, Trace
from torchlint.model.values import (
    CallResult,
    Element,
    Iteration,
    Module,
    ModuleOutput,
    ModuleParameter,
    Tensor,
    Value,
    class_of,
    inputs_of,
    resolved,
)
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import walk

_ALL_LAYERS = frozenset("modules named_modules children named_children".split())
_PLAIN_BASES = frozenset({"torch.nn.Module", "torch.nn.modules.module.Module"})


class PartMode(NamedTuple):
    """A part of a module on one path: the `eval()` of the part, and the `train()` of the whole that undid it."""

    switch: ModeSwitch | None = None
    undone_by: ModeSwitch | None = None
    is_used: bool = False
    """Whether the whole or the part has run with the part in evaluation mode."""
    evaluates_whole: bool = False
    """Whether `eval()` of the whole followed while the part was frozen: runs are then evaluations of the whole."""


PartModesOnPaths = frozenset[PartMode]


class SwitchedBack(NamedTuple):
    """A part that is in training mode again since `switch` of the whole, when the whole is trained."""

    part: Value
    whole: Value
    switch: ModeSwitch
    evaluated: ModeSwitch | None
    """The `eval()` of the part; None if only its parameters are frozen."""


class PartModes:
    """Answers about parts that the program switches separately."""

    def __init__(self, program: Program, parts: Parts) -> None:
        self._program = program
        self._parts = parts

    def switched_back(self, trace: Trace, module: Value, passes: Iterable[Compute | Call]) -> Iterator[SwitchedBack]:
        """The part put into evaluation mode, but in training mode on each path to one of these passes."""
        modes = self._at_passes(trace, module)
        for forward in passes:
            switches = [(item.undone_by, item.switch) for item in modes[forward] if item.switch is not None]
            undone = [(by, switch) for by, switch in switches if by is not None]
            if undone and len(undone) == len(switches):
                by, switch = min(undone, key=lambda item: (item[0].order, item[1].order))
                yield SwitchedBack(self.part_of(switch), module, by, switch)

    def _at_passes(self, trace: Trace, module: Value) -> dict[Event, PartModesOnPaths]:
        """The modes of the part that was switched last, on the paths to each forward pass of the whole."""
        arrivals: dict[Event, PartModesOnPaths] = defaultdict(PartModesOnPaths)
        if not self.keeps_modes(module):
            return arrivals

        def transfer(event: Event, modes: PartModesOnPaths) -> PartModesOnPaths:
            if isinstance(event, Fresh) and event.value is module:
                return PartModesOnPaths({self._as_made(module)})
            if _called_by(event) is module:
                arrivals[event] |= modes
            if isinstance(event, ModeSwitch) and any(item.is_used for item in modes):
                modes = PartModesOnPaths(item._replace(is_used=True) for item in modes)  # a loop may run zero times
            return PartModesOnPaths(self._after(event, module, item, frozen) for item in modes)

        frozen = [item for item in self._program.observations.frozen if item.order > trace.start]
        start, owner = PartMode(), class_of(trace.receiver) if trace.receiver is not None else None
        for event in self._program.observations.begun.get(owner, ()) if owner is not None else ():
            start = self._after(event, module, start)
        kinds = (Fresh, ModeSwitch, MayClear, Compute, Call)
        Flow(transfer).run(trace.only(*kinds), PartModesOnPaths({start}))
        return arrivals

    def frozen_parts(self, trace: Trace, module: Value) -> Iterator[Value]:
        """The parts of a module with frozen parameters that nothing switches separately."""
        told = (part for item in self._frozen() for part in inputs_of(item))
        inits = (event for info in self._classes_in(module) for event in self._program.observations.begun.get(info, ()))
        switches = [event for event in (*inits, *trace.of(ModeSwitch)) if isinstance(event, ModeSwitch)]
        switched = {part for item in switches if item.training is False for part in inputs_of(self.part_of(item))}
        for part in dict.fromkeys(told):
            if part is not module and self._parts.is_part(part, module) and self.keeps_modes(module):
                if not any(self._parts.is_part(item, part) or self._parts.is_part(part, item) for item in switched):
                    yield part

    def part_of(self, switch: ModeSwitch) -> Value:
        """The module that a switch switches; for each layer of a module in turn, that module."""
        value = resolved(switch.module)
        while isinstance(value, (Element, Iteration)) and value.parents:
            value = resolved(value.parents[0])
        callee = resolved(value.callee) if isinstance(value, CallResult) and value.callee is not None else None
        is_of_all = callee is not None and callee.label in _ALL_LAYERS
        return resolved(value.parents[0]) if is_of_all and value.parents else resolved(switch.module)

    def keeps_modes(self, module: Value) -> bool:
        """Whether a module has PyTorch's own `train()`, and its `forward` switches no mode."""
        info = class_of(module)
        if info is None:
            return not isinstance(module, Module) or module.info is None
        bases = [item for item in info.ancestors() if isinstance(item, str)]
        if info.method("train") is not None or not _PLAIN_BASES.issuperset(bases):
            return False
        forward = info.method("forward")
        return forward is not None and not any(getattr(node, "attr", "") == "eval" for node in walk(forward.node))

    def _frozen(self) -> Iterator[Value]:
        """The modules of which the program freezes parameters, in order."""
        return map(_frozen_module, sorted(self._program.observations.frozen, key=lambda item: item.order))

    # -- paths ------------------------------------------------------------------------------------------

    def _as_made(self, module: Value) -> PartMode:
        """The mode of a module's parts after `__init__`."""
        mode = PartMode()
        for info in self._classes_in(module):
            for event in self._program.observations.begun.get(info, ()):
                mode = self._after(event, module, mode)
        return mode

    def _classes_in(self, module: Value) -> Iterator[ClassInfo]:
        """The classes of a module and of the modules that its `__init__` creates."""
        info = class_of(module)
        if info is not None:
            yield info
            parts = map(resolved, self._program.attributes_of(info).values())
            yield from (part.info for part in parts if isinstance(part, Module) and part.info not in (None, info))

    def _after(self, event: Event, module: Value, mode: PartMode, frozen: Iterable[Value] = ()) -> PartMode:
        """The mode after an event; `frozen` are the values that the trace freezes."""
        if isinstance(event, ModeSwitch):
            return self._switched(event, module, mode, frozen)
        if isinstance(event, MayClear):
            may_switch = naming.SWITCHING_MODE.search(event.name) or not naming.is_harmless_to_model(event.name)
            is_handed = self._parts.part_of_any([resolved(item) for item in event.handed])(module)
            return PartMode() if may_switch and is_handed and event.name not in _ALL_LAYERS else mode
        if mode.switch is None or mode.undone_by is not None or mode.evaluates_whole:
            return mode
        is_used = _called_by(event) in (module, self.part_of(mode.switch))
        return mode._replace(is_used=is_used or mode.is_used)

    def _switched(self, switch: ModeSwitch, module: Value, mode: PartMode, frozen: Iterable[Value]) -> PartMode:
        """The mode after a switch of the whole, or of a part of it."""
        if self._parts.is_part(module, resolved(switch.module)):
            if mode.switch is None or mode.undone_by is not None:
                return mode
            if switch.training is False:
                part, before = self.part_of(mode.switch), (item for item in frozen if item.order < switch.order)
                parts = list(inputs_of(part))
                is_frozen = any(self._parts.is_part(_frozen_module(item), each) for item in before for each in parts)
                return mode._replace(evaluates_whole=is_frozen)
            return PartMode() if mode.is_used or switch.training is None else mode._replace(undone_by=switch)
        part = self.part_of(switch)
        if part is not module and not self._parts.is_part(part, module):
            return mode
        return PartMode(switch) if switch.training is False else PartMode()


def _called_by(event: Event) -> Value | None:
    """The module that an event runs."""
    value = event.value if isinstance(event, (Compute, Call)) else None
    if isinstance(value, Tensor):
        return resolved(value.parents[0]) if isinstance(value, ModuleOutput) else None
    return resolved(value.callee) if isinstance(value, CallResult) and value.callee is not None else None


def _frozen_module(value: Value) -> Value:
    """The module that the program freezes; of a parameter, its module."""
    return resolved(value.parents[0]) if isinstance(value, ModuleParameter) else value

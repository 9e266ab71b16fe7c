"""The gradients an event affects: which optimizer holds the parameters of which module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property

from torchlint.model.dataflow import pruned
from torchlint.model.events import (
    Backward,
    Call,
    Clear,
    Event,
    Fresh,
    Grad,
    GradRead,
    Item,
    Loop,
    MayClear,
    Mutate,
    Step,
    Uncalled,
    Yield,
)
from torchlint.model.held_parameters import parameters_of, sources_of
from torchlint.model.lineage import ancestry, with_owners
from torchlint.model.module_values import called_like_module, has_parameters, is_forward, is_module, is_module_like
from torchlint.model.parts import Group, Parts
from torchlint.model.program import Program, Trace
from torchlint.model.tracking import Tracking
from torchlint.model.values import (
    Answer,
    Attribute,
    CallResult,
    Container,
    Instance,
    Module,
    ModuleOutput,
    Optimizer,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    class_of,
    inputs_of,
    resolved,
)
from torchlint.pytorch import naming
from torchlint.pytorch.effects import Clears, GoesBackward
from torchlint.pytorch.table import methods_with

MAX_OPTIMIZERS = 50
"""The maximum number of optimizers per loop or function; the time grows with their square."""
TOUCHING = (Step, Backward, Clear, Fresh, MayClear, Call, Mutate, Uncalled, Yield, GradRead)
"""The events that may affect the gradients of an optimizer, or put its parameters back."""
GIVING = (Backward, GradRead, Grad, Yield, Clear, MayClear, Uncalled, Call)
"""The events that may give gradients to an optimizer."""
_CLEARING = methods_with(Clears)
_GOING_BACKWARD = methods_with(GoesBackward)
"""Methods that clear or go backward. Naming one without calling it counts, too: that is another defect."""


class Ownership:
    """Relates optimizers, modules and the events that affect their gradients."""

    def __init__(self, program: Program, tracking: Tracking, parts: Parts) -> None:
        self.program = program
        self.tracking = tracking
        self.traces = program.traces
        self._parts = parts
        self._filled = {
            owner for owner, value in parts.stored if isinstance(owner, Unknown) and not isinstance(value, Plain)
        }
        """Objects of unknown classes, such as graphs and batches, in which the program stores something."""
        self._states = _stored_in_modules(parts.stored)
        self._behind: dict[Value, set[Value]] = {}
        self._reached: dict[tuple[Backward, Value], bool] = {}
        self._cleared: dict[tuple[Event, Value], bool] = {}
        self._handed: dict[tuple[MayClear, Value], bool] = {}
        self._touching: dict[Loop | Trace, list[Item]] = {}
        self._stepped: dict[Trace, list[Value]] = {}
        self._held: dict[Value, tuple[set[Value], bool]] = {}
        self._modules: dict[Value, tuple[set[Value], bool]] = {}
        self.stepped = {step.optimizer for step in self._steps() if not step.manual}
        """Optimizers with a step. An update by hand may change parameters that one of them holds."""

    def _steps(self) -> Iterator[Step]:
        for trace in self.traces:
            yield from trace.of(Step)

    @cached_property
    def clearings(self) -> list[Clear]:
        """All clearings of the module."""
        return [event for trace in self.traces for event in trace.of(Clear)]

    def touching(self, region: Loop | Trace) -> list[Item]:
        """The events that may affect gradients in a loop or a trace, for a `Flow`."""
        if region not in self._touching:
            self._touching[region] = pruned(region.body if isinstance(region, Loop) else region.items, TOUCHING)
        return self._touching[region]

    def optimizers(self, trace: Trace) -> list[Value]:
        """The optimizers that step in a trace, in order: the first `MAX_OPTIMIZERS`."""
        if trace not in self._stepped:
            self._stepped[trace] = list(dict.fromkeys(resolved(step.optimizer) for step in trace.of(Step)))
        return self._stepped[trace][:MAX_OPTIMIZERS]

    def reaches(self, backward: Backward, optimizer: Value) -> bool:
        """Whether a backward pass may reach parameters of an optimizer.

        Not if all modules behind the loss are known to be others.
        """
        key = (backward, optimizer)
        if key not in self._reached:
            ours, known = self.held_by(optimizer)
            self._reached[key] = not known or self._may_reach(self.modules_behind(backward), ours)
        return self._reached[key]

    def held_by(self, optimizer: Value) -> tuple[set[Value], bool]:
        """`parameters_of` an optimizer, computed once."""
        if optimizer not in self._held:
            self._held[optimizer] = parameters_of(optimizer)
        return self._held[optimizer]

    def modules_behind(self, backward: Backward) -> tuple[set[Value], bool]:
        """The modules behind a loss, and whether the list is complete."""
        if backward.loss not in self._modules:
            self._modules[backward.loss] = self.modules_in(self.tracking.pass_through(backward.loss))
        return self._modules[backward.loss]

    def surely_reaches(self, backward: Backward, optimizer: Value) -> bool:
        """Whether a loss surely depends on a module that an optimizer holds."""
        ours, known = self.held_by(optimizer)
        return known and self._surely_overlap(ours, self.modules_behind(backward)[0])

    def may_use(self, value: Value, ours: set[Value]) -> bool:
        """Whether a forward pass may run any of these modules."""
        modules, complete = self.modules_in({value})
        return not complete or self.overlap(ours, modules)

    def _may_reach(self, through: tuple[set[Value], bool], ours: set[Value]) -> bool:
        """Whether a graph through some modules, perhaps a complete list, may include one of ours."""
        modules, complete = through
        return not complete or not modules or self.overlap(ours, modules)

    def modules_in(self, graph: set[Value]) -> tuple[set[Value], bool]:
        """The modules with parameters in a graph, and whether the list is complete."""
        modules: set[Value] = set()
        complete = True
        for item in graph:
            if isinstance(item, ModuleOutput):
                modules.update(self._run_by(item.parents[0]), _modules_in(item.parents[1:]))
                complete = complete and self._filled.isdisjoint(item.parents[1:])
            elif isinstance(item, Tensor) and item.leaf:
                modules.update((item, *item.parents))
            elif isinstance(item, CallResult):
                if item.callee is not None and called_like_module(item.callee):
                    modules.update(self._run_by(item.callee), _modules_in(item.parents))
                    complete = complete and self._filled.isdisjoint(item.parents)
                else:
                    complete = False
            elif isinstance(item, Unknown) and item.parents and isinstance(item.parents[0], Module):
                modules.add(item.parents[0])
                complete = complete and not _is_set_later(item)
            elif isinstance(item, Unknown) and item in self.tracking.backpropagated:
                complete = False
        return {item for item in modules if not isinstance(item, Module) or has_parameters(item)}, complete

    def _run_by(self, module: Value) -> set[Value]:
        """A module, and those whose outputs the program stored in it, such as the first hidden state of a decoder."""
        modules = set(inputs_of(module))
        return modules.union(*map(self._behind_states_of, modules))

    def _behind_states_of(self, module: Value) -> set[Value]:
        if module not in self._behind:
            self._behind[module] = set()  # a state of its own forward pass depends on it anyway
            graphs = [self.tracking.pass_through(state) for state in self._states.get(module, ())]
            self._behind[module] = self.modules_in(set().union(*graphs))[0]
        return self._behind[module]

    def may_clear(self, event: Event, optimizer: Value) -> bool:
        """Whether an event clears an optimizer's gradients, or may clear them."""
        if not isinstance(event, (Clear, Fresh, MayClear)):
            return isinstance(event, Yield) or (isinstance(event, Uncalled) and event.name in _CLEARING)
        key = (event, optimizer)
        if key not in self._cleared:
            self._cleared[key] = self._may_clear(event, optimizer)
        return self._cleared[key]

    def _may_clear(self, event: Clear | Fresh | MayClear, optimizer: Value) -> bool:
        if isinstance(event, Clear):
            return self.clears(event.target, optimizer) is not Answer.NO
        if isinstance(event, Fresh):
            return event.value is optimizer or event.value in self.held_by(optimizer)[0]
        return self.is_handed(event, optimizer)

    def may_change(self, event: Event, optimizer: Value) -> bool:
        """Whether an event changes an optimizer's gradients in place, or may change them."""
        if not isinstance(event, GradRead) or not event.changes:
            return False
        return event.of is None or self.holds(optimizer, event.of) is not Answer.NO

    def holds(self, optimizer: Value, parameters: Value) -> Answer:
        """Whether an optimizer holds some of these parameters: a list of them, or the result of `parameters()`."""
        parameters = resolved(parameters)
        if parameters is optimizer:
            return Answer.YES
        ours, ours_known = self.held_by(optimizer)
        theirs, theirs_known = _sources_of(parameters)
        answer = self._overlap_of(ours, theirs)
        return answer if answer is not Answer.NO or (ours_known and theirs_known) else Answer.UNKNOWN

    def held_by_any(self, optimizers: Collection[Value]) -> Callable[[Value], bool]:
        """A test whether an optimizer surely holds some of these parameters, in time independent of their number."""
        group = Group(self._parts, {item for one in optimizers for item in self.held_by(one)[0]}, derived=True)
        return lambda parameters: parameters in optimizers or group.overlaps(_sources_of(parameters)[0])

    def clears(self, target: Value | None, optimizer: Value) -> Answer:
        """Whether clearing the gradients of `target` clears those that `optimizer` steps on."""
        if target is None:
            return Answer.UNKNOWN
        target = resolved(target)
        if optimizer in with_owners(target) or not set(inputs_of(target)).isdisjoint(inputs_of(optimizer)):
            return Answer.YES
        options = list(inputs_of(target))
        if len(options) > 1 and all(isinstance(option, Optimizer) for option in options):
            answers = {self.clears(option, optimizer) for option in options}
            return answers.pop() if len(answers) == 1 else Answer.UNKNOWN
        ours, known = self.held_by(optimizer)
        if isinstance(target, (Optimizer, Unknown, Phi)) and is_module(target) is not Answer.YES:
            theirs, theirs_known = self.held_by(target)
            if known and theirs_known:
                return self._overlap_of(ours, theirs)
            both_step = target in self.stepped and optimizer in self.stepped
            return Answer.NO if both_step and not self._is_inherited_beside(optimizer, target) else Answer.UNKNOWN
        if not known:
            return Answer.UNKNOWN
        return self._overlap_of(ours, set(inputs_of(target)))

    def _is_inherited_beside(self, optimizer: Value, other: Value) -> bool:
        """Whether an optimizer comes from the base class of another module, in an object with an optimizer of its own.

        Both may hold the same parameters.
        """
        owner = resolved(optimizer.parents[0]) if isinstance(optimizer, Unknown) and optimizer.parents else None
        if not isinstance(owner, (Instance, Module)) or owner.info is None or not isinstance(optimizer, Unknown):
            return False
        ancestors = list(owner.info.ancestors())
        elsewhere = any(isinstance(item, str) and not item.startswith(("torch.", "builtins.")) for item in ancestors)
        owners = (*self._parts.holders(other), *other.parents[:1])
        return (
            isinstance(optimizer, Attribute)
            and elsewhere
            and not owner.info.writers(optimizer.label)
            and owner in owners
        )

    def may_give_gradients(self, event: Event, optimizer: Value) -> bool:
        """Whether an event gives gradients to an optimizer, or may."""
        if isinstance(event, Backward):
            return self.reaches(event, optimizer)
        if isinstance(event, GradRead):
            return not event.measures
        if isinstance(event, (Grad, Yield)) or (isinstance(event, Clear) and event.target is None):
            return True
        if isinstance(event, MayClear):  # a backward outside PyTorch is one by hand
            return event.name in _GOING_BACKWARD or self.is_handed(event, optimizer)
        if isinstance(event, Uncalled):
            return event.name in _GOING_BACKWARD
        if isinstance(event, Call):
            return self.may_go_backward(event)
        return False

    def may_go_backward(self, call: Call) -> bool:
        """Whether an unresolved call receives a possible loss."""
        callee = call.value.callee
        name = callee.label if callee is not None else ""
        if callee is None or called_like_module(callee) or naming.only_computes(name):
            return False
        given = list(map(resolved, call.value.parents))
        if any(isinstance(item, Tensor) and self.tracking.tracked(item) is not Answer.NO for item in given):
            return True
        is_statement = self.program.tree.stands_alone(self.program.tree.own_node(call.site))
        return is_statement and any(map(_is_made_of_outputs, given))

    def is_handed(self, event: MayClear, optimizer: Value) -> bool:
        """Whether an unresolved call has access to the values that an optimizer steps on."""
        key = (event, optimizer)
        if key not in self._handed:
            self._handed[key] = any(self._reaches(event, item, optimizer) for item in event.handed)
        return self._handed[key]

    def _reaches(self, event: MayClear, item: Value, optimizer: Value) -> bool:
        """Whether a call that receives `item` may clear the gradients that `optimizer` steps on."""
        item = resolved(item)
        if isinstance(item, Phi):
            return any(self._reaches(event, part, optimizer) for part in inputs_of(item))
        if isinstance(item, Container):
            return any(
                self._reaches(event, part, optimizer)
                for part in item.elements()
                if not isinstance(part, (Container, Phi))
            )
        if optimizer in with_owners(item):
            return not naming.is_harmless_to_optimizer(event.name)
        if isinstance(item, Parameters):
            clears = naming.is_clearing(event.name)
            return clears and any(self.clears(module, optimizer) is not Answer.NO for module in item.parents)
        if naming.is_harmless_to_model(event.name) or self._only_computes(event, item):
            return False
        if self._parts.is_part(optimizer, item):
            return True
        if isinstance(item, Instance):
            return self._holds(item, optimizer)
        if isinstance(item, Optimizer) or (is_module_like(item) and not self._is_data(item)):
            return self.clears(item, optimizer) is not Answer.NO
        return False

    def _is_data(self, item: Value) -> bool:
        """Whether a value is part of a loader's batch, whatever its name."""
        return isinstance(item, Unknown) and self.tracking.tracked(item) is Answer.NO

    def _only_computes(self, event: MayClear, item: Value) -> bool:
        """Whether it is a method of a module whose name has nothing to do with gradients."""
        if event.receiver is None or not is_module_like(item) or item not in set(inputs_of(event.receiver)):
            return False
        return not naming.may_touch_gradients(event.name)

    def _holds(self, item: Instance, optimizer: Value) -> bool:
        """Whether an object of this module has the optimizer, or a model that the optimizer may step on."""
        stored, heap = self.program.observations.stored, self.program.interpreter.state.heap
        for (owner, _), value in (*stored.items(), *heap.items()):
            if owner is item and (
                resolved(value) is optimizer
                or (is_module_like(value) and self.clears(value, optimizer) is not Answer.NO)
            ):
                return True
        return any(
            is_module_like(part) and self.clears(part, optimizer) is not Answer.NO for part in item.known_parts.values()
        )

    def overlap(self, first: set[Value], second: set[Value]) -> bool:
        """Whether a module is in both sets, or contains or is part of one in the other."""
        return Group(self._parts, first, derived=True).overlaps(second)

    def _surely_overlap(self, first: set[Value], second: set[Value]) -> bool:
        """Whether modules overlap, and not only because the same setting was given to both."""
        return Group(self._parts, first, derived=True).surely_overlaps(second, is_module_like)

    def _overlap_of(self, first: set[Value], second: set[Value]) -> Answer:
        if not self.overlap(first, second):
            return Answer.NO
        return Answer.YES if self._surely_overlap(first, second) else Answer.UNKNOWN


def _sources_of(parameters: Value) -> tuple[set[Value], bool]:
    """The modules and leaves that own parameters, perhaps another optimizer's, and whether the list is complete."""
    return sources_of(parameters.parents if isinstance(parameters, Optimizer) else (parameters,))


def _stored_in_modules(stored: Iterable[tuple[Value, Value]]) -> dict[Value, list[Value]]:
    found: dict[Value, list[Value]] = {}
    for owner, value in stored:
        if isinstance(value, (Tensor, Unknown, Phi)):
            for module in filter(is_module_like, inputs_of(owner)):
                found.setdefault(module, []).append(value)
    return found


def _modules_in(handed: Iterable[Value]) -> list[Value]:
    """The modules that a forward pass receives as arguments, to run them inside."""
    return [item for value in handed for item in inputs_of(value) if is_module(item) is Answer.YES]


def _is_made_of_outputs(item: Value) -> bool:
    """Whether a value is an unresolved call's result on a module's output: perhaps a loss."""
    is_result = isinstance(item, CallResult)
    return is_result and any(map(is_forward, ancestry(list(item.parents))))


def _is_set_later(item: Unknown) -> bool:
    """Whether a module's own methods set an attribute: what `forward` stores depends on the arguments of the call."""
    info = class_of(item.parents[0])
    return isinstance(item, Attribute) and info is not None and bool(info.writers(item.label) - info.builders())

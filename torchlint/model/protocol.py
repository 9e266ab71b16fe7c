"""The training-step protocol: what happens to an optimizer's gradients between its steps, as a typestate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torchlint.model import hints
from torchlint.model.events import (
    Backward,
    Call,
    Clear,
    Compute,
    Event,
    Flow,
    Fresh,
    Grad,
    GradRead,
    Item,
    Loop,
    MayClear,
    Step,
    events_in,
    exclusive,
)
from torchlint.model.program import Program, Trace
from torchlint.model.tracking import Tracking, called_like_module, has_parameters, is_module
from torchlint.model.values import (
    Answer,
    Container,
    GradMode,
    Instance,
    Module,
    Optimizer,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)


@dataclass(frozen=True)
class StaleGradients:
    """`backward` adds to gradients that already went into `step`; nothing clears them in between."""

    backward: Backward
    step: Step
    loop: Loop | None


@dataclass(frozen=True)
class ClearedGradients:
    """`clear` throws away what `backward` computed before `step` could use it."""

    clear: Clear
    backward: Backward
    step: Step


@dataclass(frozen=True)
class EmptyStep:
    """`step` comes before any `backward`; one follows it in the same iteration, or (None) there is none."""

    step: Step
    backward: Backward | None


History = tuple[Step | None, bool, bool]
"""The last step, whether gradients were (perhaps) cleared since, and whether a backward added to stale ones."""
Pending = tuple[Backward | None, Event | None]
"""The backward whose gradients wait for the step, and what cleared them; no backward but an event: unknown."""


class Protocol:
    """Answers about the steps of every trace."""

    def __init__(self, program: Program, tracking: Tracking) -> None:
        self.program = program
        self.tracking = tracking
        self.traces = program.traces
        self.events = {trace: list(events_in(trace.items)) for trace in self.traces}
        self._holders: dict[Value, list[Value]] = {}
        for (owner, _), value in program.interpreter.stored.items():
            for item in (value, *(value.parents if isinstance(value, (Module, Container)) else ())):
                self._holders.setdefault(resolved(item), []).append(owner)
        self._reached: dict[tuple[Backward, Value], bool] = {}
        self.stepped = {step.optimizer for step in self._steps()}

    def _steps(self) -> Iterator[Step]:
        for events in self.events.values():
            yield from (event for event in events if isinstance(event, Step))

    # -- regions ------------------------------------------------------------------------------------

    def _regions(self, trace: Trace) -> Iterator[tuple[Step, Loop | None]]:
        """Each step with the innermost loop that holds it and a backward, or None for the function itself."""
        losses = [event for event in self.events[trace] if isinstance(event, Backward)]
        for step in self.events[trace]:
            if not isinstance(step, Step):
                continue
            around = [loop for loop in reversed(step.loops) if any(loop in backward.loops for backward in losses)]
            if around:
                yield step, around[0]
            elif losses and self._repeated_by_callers(trace, step, losses):
                yield step, None

    def _repeated_by_callers(self, trace: Trace, step: Step, losses: list[Backward]) -> bool:
        """Whether a function without a loop is one iteration of training: it computes the loss it steps on,
        its callers are elsewhere, and nobody in this module clears for it."""
        if trace.root is None or trace.called or step.manual:
            return False
        if not any(self._computed_here(backward.loss) for backward in losses):
            return False
        optimizer = resolved(step.optimizer)
        return not any(
            isinstance(event, Clear) and self._is_for(event, other, optimizer, trace)
            for other, events in self.events.items()
            if other is not trace
            for event in events
        )

    def _computed_here(self, loss: Value) -> bool:
        """Whether the forward pass of a loss is in the function, and the loss not just handed to it."""
        return any(
            (isinstance(item, Tensor) and (item.op == "module" or item.leaf))
            or (isinstance(item, Unknown) and item.origin == "call")
            for item in self.tracking.graph(loss)
        )

    def _is_for(self, clear: Clear, other: Trace, optimizer: Value, trace: Trace) -> bool:
        """Whether a clearing elsewhere may be meant for the optimizer of a function that does not clear itself."""
        if clear.target is not None and self.clears(clear.target, optimizer) is Answer.YES:
            return True
        same_class = other.receiver is not None and other.receiver is trace.receiver
        return same_class and self.clears(clear.target, optimizer) is not Answer.NO

    # -- stale gradients ----------------------------------------------------------------------------

    def stale_gradients(self) -> Iterator[StaleGradients]:
        """Steps between which no path clears, though at least one adds to the gradients."""
        for trace in self.traces:
            done: set[tuple[Loop | None, Value]] = set()
            for step, loop in self._regions(trace):
                optimizer = resolved(step.optimizer)
                if (loop, optimizer) in done:
                    continue
                done.add((loop, optimizer))
                yield from self._stale_in(loop.body if loop is not None else trace.items, loop, optimizer)

    def _stale_in(self, items: list[Item], loop: Loop | None, optimizer: Value) -> Iterator[StaleGradients]:
        arrivals: dict[tuple[Step, Step], set[tuple[bool, bool]]] = {}
        stale: dict[Step, list[Backward]] = {}

        def transfer(event: Event, states: frozenset[History]) -> frozenset[History]:
            if isinstance(event, Step) and resolved(event.optimizer) is optimizer:
                for last, cleared, added in states:
                    if last is not None:
                        arrivals.setdefault((last, event), set()).add((cleared, added))
                return frozenset({(event, False, False)})
            if isinstance(event, Backward):
                if not self.reaches(event, optimizer) or _is_bare_leaf(event.loss):
                    return states
                for last, cleared, _ in states:
                    if last is not None and not cleared:
                        stale.setdefault(last, []).append(event)
                return frozenset((last, cleared, added or not cleared) for last, cleared, added in states)
            if self.may_clear(event, optimizer):
                return frozenset((last, True, added) for last, _, added in states)
            return states

        flow = Flow(transfer)
        once = flow.run(items, frozenset({(None, False, False)})) | flow.exits.get("continue", frozenset())
        if loop is None:
            once |= flow.exits.get("return", frozenset())
        flow.exits.clear()
        again = flow.run(items, once) | flow.exits.get("continue", frozenset())
        flow.run(items, again)
        for (last, step), paths in arrivals.items():
            if any(added for _, added in paths) and not any(cleared for cleared, _ in paths):
                yield StaleGradients(min(stale[last], key=lambda event: event.order), step, loop)

    def reaches(self, backward: Backward, optimizer: Value) -> bool:
        """Whether a backward pass may put gradients where an optimizer takes them: unless all the modules that
        its loss went through are known to be others."""
        ours, known = parameters_of(optimizer)
        if not known:
            return True
        key = (backward, optimizer)
        if key not in self._reached:
            self._reached[key] = self._may_reach(self.tracking.graph(backward.loss), ours)
        return self._reached[key]

    def _may_reach(self, graph: set[Value], ours: set[Value]) -> bool:
        modules: set[Value] = set()
        for item in graph:
            if isinstance(item, Tensor) and item.op == "module":
                modules.update(inputs_of(item.parents[0]))
            elif isinstance(item, Tensor) and item.leaf:
                modules.update((item, *item.parents))
            elif isinstance(item, Unknown) and item.origin == "call":
                if item.callee is None or not called_like_module(item.callee):
                    return True
                modules.update(inputs_of(item.callee))
            elif isinstance(item, Unknown) and item.parents and isinstance(item.parents[0], Module):
                modules.add(item.parents[0])
            elif isinstance(item, Unknown) and item in self.tracking.backpropagated:
                return True
        modules = {item for item in modules if not isinstance(item, Module) or has_parameters(item)}
        return not modules or any(self._overlap(ours, {module}) for module in modules)

    def may_clear(self, event: Event, optimizer: Value) -> bool:
        """Whether an event clears the gradients of an optimizer, or cannot be told not to."""
        if isinstance(event, Clear):
            return self.clears(event.target, optimizer) is not Answer.NO
        if isinstance(event, Fresh):
            return event.value is optimizer or event.value in parameters_of(optimizer)[0]
        if isinstance(event, MayClear):
            return self._handed(event, optimizer)
        return False

    def clears(self, target: Value | None, optimizer: Value) -> Answer:
        """Whether clearing the gradients of `target` clears those that `optimizer` steps on."""
        if target is None:
            return Answer.UNKNOWN
        target = resolved(target)
        if target is optimizer or not set(inputs_of(target)).isdisjoint(_alternatives(optimizer)):
            return Answer.YES
        ours, known = parameters_of(optimizer)
        if isinstance(target, (Optimizer, Unknown, Phi)) and is_module(target) is not Answer.YES:
            theirs, theirs_known = parameters_of(target)
            if known and theirs_known:
                return Answer.YES if self._overlap(ours, theirs) else Answer.NO
            both_step = target in self.stepped and optimizer in self.stepped
            return Answer.NO if both_step else Answer.UNKNOWN
        if not known:
            return Answer.UNKNOWN
        return Answer.YES if self._overlap(ours, {target}) else Answer.NO

    def _handed(self, event: MayClear, optimizer: Value) -> bool:
        return any(self._reaches(event, item, optimizer) for item in event.handed)

    def _reaches(self, event: MayClear, item: Value, optimizer: Value) -> bool:
        """Whether a call that is handed `item` may clear what `optimizer` steps on."""
        item = resolved(item)
        if isinstance(item, Phi):
            return any(self._reaches(event, part, optimizer) for part in inputs_of(item))
        if isinstance(item, Container):
            return any(
                self._reaches(event, part, optimizer)
                for part in item.elements()
                if not isinstance(part, (Container, Phi))
            )
        if item is optimizer:
            return not hints.is_harmless_to_optimizer(event.name)
        if hints.is_harmless_to_model(event.name) or self._only_computes(event, item):
            return False
        if self._is_part_of(optimizer, item):
            return True
        if isinstance(item, Instance):
            return self._holds(item, optimizer)
        if isinstance(item, Optimizer) or _module_like(item):
            return self.clears(item, optimizer) is not Answer.NO
        return False

    def _only_computes(self, event: MayClear, item: Value) -> bool:
        """A method of a module whose name has nothing to do with gradients."""
        if event.receiver is None or not _module_like(item) or item not in set(inputs_of(event.receiver)):
            return False
        return not hints.may_touch_gradients(event.name)

    def _holds(self, item: Instance, optimizer: Value) -> bool:
        """Whether an object of this module has the optimizer, or a model that it may step on."""
        interpreter = self.program.interpreter
        for (owner, _), value in (*interpreter.stored.items(), *interpreter.heap.items()):
            if owner is item and (
                resolved(value) is optimizer or (_module_like(value) and self.clears(value, optimizer) is not Answer.NO)
            ):
                return True
        return any(
            _module_like(part) and self.clears(part, optimizer) is not Answer.NO for part in item.known_parts.values()
        )

    def _overlap(self, first: set[Value], second: set[Value]) -> bool:
        """Whether a module is in both sets, or holds or is held by one in the other."""
        return any(self._is_part_of(a, b) or self._is_part_of(b, a) for a in first for b in second)

    def _is_part_of(self, part: Value, whole: Value) -> bool:
        """Whether a value is another, an attribute or element of it, or stored in it by `__init__`."""
        given = [resolved(item) for item in whole.parents] if isinstance(whole, Module) else []
        seen: set[Value] = set()
        stack = [part]
        while stack:
            item = stack.pop()
            if item is whole or item in given or _is_template_of(item, whole):
                return True
            if item in seen:
                continue
            seen.add(item)
            stack.extend(self._holders.get(item, ()))
            if isinstance(item, Phi) or (
                isinstance(item, Unknown) and item.origin in ("attribute", "element", "iteration")
            ):
                stack.extend(item.parents)
        return False

    # -- cleared before the step ----------------------------------------------------------------------

    def cleared_gradients(self) -> Iterator[ClearedGradients]:
        """Steps that every path reaches with the fresh gradients just cleared."""
        for trace in self.traces:
            for optimizer in dict.fromkeys(
                resolved(step.optimizer) for step in self.events[trace] if isinstance(step, Step)
            ):
                yield from self._cleared_in(trace, optimizer)

    def _cleared_in(self, trace: Trace, optimizer: Value) -> Iterator[ClearedGradients]:
        """A state is the backward whose gradients are pending, and what cleared them; or that nobody knows."""
        arrivals: dict[Step, set[Pending]] = {}

        def transfer(event: Event, states: frozenset[Pending]) -> frozenset[Pending]:
            if isinstance(event, Step) and resolved(event.optimizer) is optimizer:
                arrivals.setdefault(event, set()).update(states)
                return frozenset({(None, None)})
            if isinstance(event, Backward):
                return frozenset({(event, None)}) if self.reaches(event, optimizer) else states
            if isinstance(event, Clear) and event.explicit and self.clears(event.target, optimizer) is Answer.YES:
                return frozenset((backward, clear or event if backward else None) for backward, clear in states)
            if isinstance(event, GradRead) or self.may_clear(event, optimizer):
                return frozenset({(None, event)})
            return states

        Flow(transfer).run(trace.items, frozenset({(None, None)}))
        for step, paths in arrivals.items():
            pending = [(backward, clear) for backward, clear in paths if backward is not None]
            unknown = any(backward is None and clear is not None for backward, clear in paths)
            if unknown or not pending or not all(isinstance(clear, Clear) for _, clear in pending):
                continue
            for backward, clear in sorted(pending, key=lambda pair: (pair[1].order, pair[0].order)):  # type: ignore[union-attr]
                assert isinstance(clear, Clear)
                yield ClearedGradients(clear, backward, step)

    # -- steps without a backward -----------------------------------------------------------------------

    def empty_steps(self) -> Iterator[EmptyStep]:
        """Steps that no backward precedes: with one below in the same loop (late), or with none at all."""
        for trace in self.traces:
            if trace.called:
                continue
            for optimizer in dict.fromkeys(
                resolved(step.optimizer) for step in self.events[trace] if isinstance(step, Step)
            ):
                if _surely_optimizer(optimizer):
                    yield from self._empty_in(trace, optimizer)

    def _empty_in(self, trace: Trace, optimizer: Value) -> Iterator[EmptyStep]:
        """Whether each step of an optimizer is reached, first or always, before any backward."""
        events = self.events[trace]
        for step in events:
            if not isinstance(step, Step) or step.manual or resolved(step.optimizer) is not optimizer:
                continue
            earlier = [event for event in events if event.order < step.order and not exclusive(event.path, step.path)]
            if any(self._may_give_gradients(event, optimizer) for event in earlier):
                continue
            forward = self._forward_before(step, earlier)
            around = _repeating(step)
            later = [event for event in events if event.order > step.order and around and around[-1] in event.loops]
            late = [event for event in later if self._may_give_gradients(event, optimizer)]
            if not late:
                if forward is not None:
                    yield EmptyStep(step, None)
            elif isinstance(late[0], Backward) and late[0].path == step.path and late[0].loops == step.loops:
                yield EmptyStep(step, late[0])

    def _may_give_gradients(self, event: Event, optimizer: Value) -> bool:
        """Whether an event gives an optimizer gradients to step on, or might."""
        if isinstance(event, Backward):
            return self.reaches(event, optimizer)
        if isinstance(event, (GradRead, Grad)) or (isinstance(event, Clear) and not event.explicit):
            return True
        if isinstance(event, MayClear):
            return self._handed(event, optimizer)
        if isinstance(event, Call):
            return self._may_go_backward(event)
        return False

    def _may_go_backward(self, call: Call) -> bool:
        """An unresolved call that is handed what may be a loss."""
        callee = call.value.callee if isinstance(call.value, Unknown) else None
        name = callee.label if callee is not None else ""
        if callee is None or called_like_module(callee) or hints.is_harmless_to_model(name):
            return False
        return any(
            self.tracking.tracked(item) is not Answer.NO for item in call.value.parents if isinstance(item, Tensor)
        )

    def _forward_before(self, step: Step, earlier: list[Event]) -> Event | None:
        """A forward pass in the same iteration, whose loss is not used."""
        loops = _repeating(step)
        for event in earlier:
            if isinstance(event, Compute) and event.value.op == "module" and event.value.mode is GradMode.ON:
                computed = True
            elif isinstance(event, Call) and isinstance(event.value, Unknown) and event.value.callee is not None:
                computed = called_like_module(event.value.callee) and event.value.mode is GradMode.ON
            else:
                continue
            if computed and (not loops or loops[-1] in event.loops):
                return event
        return None


def _repeating(step: Step) -> list[Loop]:
    return [loop for loop in step.loops if not loop.implicit]


def _is_bare_leaf(loss: Value) -> bool:
    """`parameter.backward(gradient)`: a gradient set by hand, as tests of optimizers do."""
    return isinstance(loss, Tensor) and loss.leaf


def _is_template_of(item: Value, whole: Value) -> bool:
    """Whether a value stands for all objects of the class that another is an object of."""
    info = getattr(whole, "info", None)
    return info is not None and item.node is info.node and getattr(item, "info", None) is info


def _alternatives(optimizer: Value) -> set[Value]:
    return set(inputs_of(optimizer))


def parameters_of(optimizer: Value) -> tuple[set[Value], bool]:
    """The modules and leaves whose parameters an optimizer holds, and whether that is all of them."""
    found: set[Value] = set()
    known = True
    stack = [
        item
        for option in inputs_of(optimizer)
        for item in (option.parents if isinstance(option, Optimizer) else (None,))
    ]
    seen: set[Value] = set()
    if not stack:
        return found, False
    while stack:
        item = stack.pop()
        if item is None:
            known = False
            continue
        if item in seen:
            continue
        seen.add(item)
        item = resolved(item)
        if isinstance(item, Parameters):
            stack.extend(resolved(parent) for parent in item.parents)
        elif isinstance(item, Container):
            stack.extend(item.elements())
        elif isinstance(item, Phi) or (isinstance(item, Tensor) and item.op == "parameter"):
            stack.extend(item.parents)
        elif isinstance(item, Module) or (isinstance(item, Tensor) and item.leaf):
            found.add(item)
        elif isinstance(item, Tensor) and item.op == "add":
            stack.extend(item.parents)
        elif isinstance(item, Unknown) and (
            is_module(item) is Answer.YES or item.origin in ("attribute", "parameter", "object")
        ):
            found.add(item)
        elif not isinstance(item, Plain):
            known = False
    return found, known and bool(found)


def _given(optimizer: Value) -> tuple[Value | None, ...]:
    """What an optimizer was made from; `critic.optimizer` holds the parameters of `critic`. None: not known."""
    if isinstance(optimizer, Optimizer):
        return optimizer.parents
    if isinstance(optimizer, Unknown) and optimizer.origin == "attribute" and _module_like(optimizer.parents[0]):
        return optimizer.parents
    return (None,)


def _module_like(item: Value) -> bool:
    """Whether a value is, or by its name may be, a module; or an object of unknown class that `super()` stands for."""
    item = resolved(item)
    if isinstance(item, Unknown):
        if item.origin == "call" and item.callee is not None and _module_like(item.callee):
            return False
        return is_module(item) is Answer.YES or item.origin == "super" or bool(hints.MODULE.search(item.label))
    return is_module(item) is Answer.YES


def _surely_optimizer(value: Value) -> bool:
    if isinstance(value, Phi):
        return all(isinstance(item, Optimizer) for item in inputs_of(value))
    return isinstance(value, Optimizer) or (isinstance(value, Unknown) and value.has_use("zero_grad"))

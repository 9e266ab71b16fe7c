"""Training events in flow order: a tree of what a program does to gradients, graphs and memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from torchlint.model.heap import BackEdge
from torchlint.model.values import (
    Tensor,
    Unknown,
    Value,
)
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import Site

Path = tuple[tuple[object, int], ...]
"""The arms of the branches that lead to an event: pairs of a branch and the number of its arm."""


@dataclass(eq=False, repr=False)
class Event:
    """Something that matters to training, at a site. The place fields are set when it is recorded."""

    site: Site
    mode: GradMode = field(default=GradMode.ON, init=False)
    order: int = field(default=0, init=False)
    path: Path = field(default=(), init=False)
    passed: Path = field(default=(), init=False)
    """The arms that it comes after, and that leave: by `return`, `raise`, `break` or `continue`."""
    loops: tuple[Loop, ...] = field(default=(), init=False)
    calls: tuple[Site, ...] = field(default=(), init=False)
    """The calls through which the event was reached, outermost first."""
    call_path: Path = field(default=(), init=False)
    """The part of `path` that lies outside the function the event stands in."""
    undecided: Path = field(default=(), init=False)
    """The part of `path` since a function was called with gradients off: nobody knows whether it gets here."""
    escaped: Path = field(default=(), init=False)
    """The part of `passed` since then."""

    def place_in(self, loop: Loop | None) -> Site:
        """Where the body of a loop, or of a function without one, makes it happen: itself, or the call that leads to
        it."""
        return (*self.calls[loop.depth if loop is not None else 0 :], self.site)[0]


@dataclass(eq=False, repr=False)
class Backward(Event):
    """A backward pass; `retain` and `create` are None where the argument is not a literal."""

    loss: Value
    retain: bool | None = False
    create: bool | None = False
    framework: Value | None = None
    """The accelerator, engine or module of Lightning that is told to make it."""
    given_gradient: bool | None = False
    """Whether it is told how the values of the loss count; None: that is not known, as with `*args`."""
    given_inputs: bool = False
    """Whether it is told for which tensors gradients are wanted: it goes no further than these."""

    @property
    def outputs(self) -> Value:
        """What the pass starts from, as for `Grad`."""
        return self.loss

    @property
    def keeps_graph(self) -> bool | None:
        """Whether the graph can be gone through again: it is retained where a graph of the gradients is made, too."""
        if True in (self.retain, self.create):
            return True
        return None if None in (self.retain, self.create) else False


@dataclass(eq=False, repr=False)
class Grad(Event):
    """`torch.autograd.grad`: a pass through the graph that leaves `.grad` alone."""

    outputs: Value
    inputs: Value | None = None
    """The tensors for which gradients are computed."""
    allows_unused: bool = False
    """Whether it gives None for those that are outside the graph, or may; else it raises."""


@dataclass(eq=False, repr=False)
class Clear(Event):
    """Gradients are cleared: of an optimizer, a module or (None) of something unknown."""

    target: Value | None
    explicit: bool = True
    of: Value | None = None
    """Of a clearing that is written by hand, the parameter whose gradient it is."""


@dataclass(eq=False, repr=False)
class MayClear(Event):
    """An unresolved call of this name that is handed these values: it may clear, or do, anything to them."""

    name: str
    handed: tuple[Value, ...]
    receiver: Value | None = None


@dataclass(eq=False, repr=False)
class Uncalled(Event):
    """A method of this name is named as a statement, and not called."""

    name: str
    owner: Value


@dataclass(eq=False, repr=False)
class Yield(Event):
    """A generator hands control to its consumer, who may do anything before the next value."""


@dataclass(eq=False, repr=False)
class Step(Event):
    """An optimizer's step; `name` is what the program calls it, `manual` an update written by hand.

    `expression` is what the optimizer is written as there: `opts[i]` of `opts[i].step()` and of `scaler.step(opts[i])`.
    """

    optimizer: Value
    name: str
    manual: bool = False
    expression: Site | None = None
    scaler: Value | None = None
    """The gradient scaler that makes the step."""


@dataclass(eq=False, repr=False)
class Unscale(Event):
    """A gradient scaler divides the gradients of an optimizer by its scale."""

    optimizer: Value
    scaler: Value


@dataclass(eq=False, repr=False)
class ScheduleStep(Event):
    """A learning-rate scheduler's step; `by` is what it is given: an epoch or a metric."""

    scheduler: Value
    by: tuple[Value, ...] = ()


@dataclass(eq=False, repr=False)
class GradRead(Event):
    """Gradients are read, copied or changed."""

    changes: bool = False
    """Whether they are changed in place: scaled, clamped, averaged."""
    of: Value | None = None
    """The tensor whose gradient a change is about; None: several, or not known."""


@dataclass(eq=False, repr=False)
class Clip(Event):
    """Gradients of these parameters are clipped to a bound; None where it is not given."""

    parameters: Value | None = None
    bound: Value | None = None


class Keeping(Enum):
    """What a `Keep` does; the value is the word of `trace` for it."""

    APPEND = "append"
    """A container takes the value, beside those it holds."""
    ADD = "add"
    """The value is added to a sum."""
    SLOT = "slot"
    """The value is stored at an index or a key."""
    CLEAR = "clear"
    """The container lets go of what it held."""


@dataclass(eq=False, repr=False)
class Keep(Event):
    """A value is put where it outlives the statement; with `CLEAR`, what was put there is thrown away."""

    container: Value
    value: Value
    how: Keeping
    name: str
    local: bool = False
    """Whether it is a variable of a call under way, which begins anew with the next call."""


@dataclass(eq=False, repr=False)
class Compute(Event):
    """An operator or module ran."""

    value: Tensor


@dataclass(eq=False, repr=False)
class Call(Event):
    """An unresolved call; `value` is its result."""

    value: Unknown


@dataclass(eq=False, repr=False)
class Mutate(Event):
    """A tensor is changed in place. `how` names the operation, `by` what it was called with."""

    target: Value
    how: str
    result: Value
    by: tuple[Value, ...] = ()


@dataclass(eq=False, repr=False)
class Read(Event):
    """A name that holds a value which is changed somewhere is read again; other values are read without an event."""

    value: Value
    name: str


@dataclass(eq=False, repr=False)
class EmptyCache(Event):
    """`torch.cuda.empty_cache()` and its kin."""


@dataclass(eq=False, repr=False)
class MemoryProbe(Event):
    """Memory is being measured, or its counters are reset."""

    resets: bool


@dataclass(eq=False, repr=False)
class Anomaly(Event):
    """Anomaly detection is switched; `on` is None where a variable decides."""

    on: bool | None


@dataclass(eq=False, repr=False)
class ModeSwitch(Event):
    """A module is switched to training or evaluation; `training` is None where a variable decides."""

    module: Value
    training: bool | None


@dataclass(eq=False, repr=False)
class Returned(Event):
    """A value leaves the function that a trace begins with; what is returned to a caller that is seen is none."""

    value: Value


@dataclass(eq=False, repr=False)
class Fresh(Event):
    """Something with gradients of its own is made: an optimizer, a module, a leaf."""

    value: Value


class Exit(Enum):
    """Control leaves; the value is the statement by which it does."""

    RETURN = "return"
    RAISE = "raise"
    BREAK = "break"
    CONTINUE = "continue"


@dataclass(frozen=True, eq=False, repr=False)
class Period:
    """A branch takes an arm in every `length`-th iteration of a loop, beginning with that number; else the other."""

    loop: Loop
    length: int
    first: int
    arm: int

    def arm_in(self, iteration: int) -> int:
        """The arm that is taken in an iteration, which are counted from 0."""
        return self.arm if iteration % self.length == self.first else 1 - self.arm


@dataclass(eq=False, repr=False)
class Branch:
    """One of several sequences happens."""

    site: Site
    arms: list[list[Item]]
    period: Period | None = None
    after_overflow: int | None = None
    """The arm that is taken only where gradients were infinite, so that a scaler has left out the step."""


@dataclass(eq=False, repr=False)
class Try:
    """The body, perhaps cut short, then perhaps a handler."""

    site: Site
    body: list[Item]
    handlers: list[list[Item]]


@dataclass(eq=False, repr=False)
class Loop:
    """A sequence that repeats; `implicit` for a function that its callers repeat."""

    site: Site
    body: list[Item]
    implicit: bool = False
    depth: int = 0
    """How many calls deep the loop stands."""
    path: Path = ()
    """The arms of branches in which the loop as a whole stands."""
    certain: bool = False
    """Whether it comes to one iteration at least."""
    over: Value | None = None
    """What it goes over."""
    edge: BackEdge | None = None
    """What an iteration changes; None where none comes to its end."""

    @cached_property
    def always_leaves(self) -> bool:
        """Whether each iteration that gets so far ends by `break`, `return`, `continue` or `raise`."""
        return any(isinstance(item, Exit) for item in self.body)


@dataclass(eq=False, repr=False)
class Inlined:
    """The body of a function of this module, at a call."""

    site: Site
    body: list[Item]
    start: int
    """When the call began, in the order of values and events."""
    result: Value
    """What it returns."""
    receiver: Value | None = None
    """What it is a method of."""


Item = Event | Branch | Try | Loop | Inlined | Exit


def items_in(items: list[Item]) -> Iterator[Item]:
    """All items below, in flow order, the outer before the inner."""
    for item in items:
        yield item
        if isinstance(item, Branch):
            for arm in item.arms:
                yield from items_in(arm)
        elif isinstance(item, Try):
            for part in (item.body, *item.handlers):
                yield from items_in(part)
        elif isinstance(item, (Loop, Inlined)):
            yield from items_in(item.body)


def events_in(items: list[Item]) -> Iterator[Event]:
    """All events below, in flow order."""
    return (item for item in items_in(items) if isinstance(item, Event))


def without_yields(items: list[Item]) -> list[Item]:
    """Items, of which no generator hands control to anybody."""
    for item in items_in(items):
        if isinstance(item, Branch):
            item.arms = [_kept(arm) for arm in item.arms]
        elif isinstance(item, Try):
            item.body, item.handlers = _kept(item.body), [_kept(handler) for handler in item.handlers]
        elif isinstance(item, (Loop, Inlined)):
            item.body = _kept(item.body)
    return _kept(items)


def _kept(items: list[Item]) -> list[Item]:
    return [item for item in items if not isinstance(item, Yield)]


def repeating(loops: tuple[Loop, ...]) -> list[Loop]:
    """The loops of the program: without an optimizer's own, over its closure."""
    return [loop for loop in loops if not loop.implicit]


def exclusive(first: Path, second: Path) -> bool:
    """Whether two paths never happen in one pass: they take different arms of one branch, where they first differ."""
    for (branch, arm), (other, taken) in zip(first, second, strict=False):
        if branch is not other or arm != taken:
            return branch is other
    return False


def handlers(path: Path) -> Path:
    """The handlers of exceptions that a path leads through."""
    return tuple((branch, arm) for branch, arm in path if isinstance(branch, Try))


def apart(first: Event, second: Event) -> bool:
    """Whether two events never happen in one pass: on different arms, or one after the arm of the other has left."""
    return (
        exclusive(first.path, second.path)
        or not set(second.passed).isdisjoint(first.path)
        or not set(first.passed).isdisjoint(second.path)
    )

"""Training events in flow order: a tree of a program's effects on gradients, graphs and memory."""

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
    """Something relevant to training, at a site. The place fields are set on recording."""

    site: Site
    mode: GradMode = field(default=GradMode.ON, init=False)
    order: int = field(default=0, init=False)
    path: Path = field(default=(), init=False)
    passed: Path = field(default=(), init=False)
    """The arms before it that leave: by `return`, `raise`, `break` or `continue`."""
    loops: tuple[Loop, ...] = field(default=(), init=False)
    calls: tuple[Site, ...] = field(default=(), init=False)
    """The calls through which the event was reached, outermost first."""
    call_path: Path = field(default=(), init=False)
    """The part of `path` outside the function that contains the event."""
    undecided: Path = field(default=(), init=False)
    """The part of `path` since a call with gradients off: it is unknown whether execution gets here."""
    escaped: Path = field(default=(), init=False)
    """The part of `passed` since then."""

    def place_in(self, loop: Loop | None) -> Site:
        """The site in the body of a loop or trace: the event's own, or that of the call leading to it."""
        return (*self.calls[loop.depth if loop is not None else 0 :], self.site)[0]


@dataclass(eq=False, repr=False)
class Backward(Event):
    """A backward pass; `retain` and `create` are None if the argument is not a literal."""

    loss: Value
    retain: bool | None = False
    create: bool | None = False
    framework: Value | None = None
    """The accelerator, engine or Lightning module that runs it."""
    given_gradient: bool | None = False
    """Whether it receives a gradient for the loss; None if that is not known, as with `*args`."""
    given_inputs: bool = False
    """Whether it receives `inputs`: then it computes gradients for these tensors only."""

    @property
    def outputs(self) -> Value:
        """The tensors the pass starts from, as for `Grad`."""
        return self.loss

    @property
    def keeps_graph(self) -> bool | None:
        """Whether a second pass through the graph is possible: `create_graph` retains the graph as well."""
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
    """Whether it gives None for inputs outside the graph, or may; otherwise it raises."""


@dataclass(eq=False, repr=False)
class Clear(Event):
    """Gradients are cleared: those of an optimizer, a module or (None) something unknown."""

    target: Value | None
    explicit: bool = True
    of: Value | None = None
    """The parameter whose gradient a clearing written by hand clears."""


@dataclass(eq=False, repr=False)
class MayClear(Event):
    """An unresolved call with this name that receives these values: it may clear them, or have any other effect."""

    name: str
    handed: tuple[Value, ...]
    receiver: Value | None = None


@dataclass(eq=False, repr=False)
class Uncalled(Event):
    """A statement that names a method and does not call it."""

    name: str
    owner: Value


@dataclass(eq=False, repr=False)
class Yield(Event):
    """A generator yields to its consumer, which may do anything before the next value."""


@dataclass(eq=False, repr=False)
class Step(Event):
    """An optimizer's step; `name` is its name in the program, `manual` marks an update written by hand.

    `expression` is the optimizer as written: `opts[i]` of `opts[i].step()` and of `scaler.step(opts[i])`.
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
    """A learning-rate scheduler's step; `by` is its argument: an epoch or a metric."""

    scheduler: Value
    by: tuple[Value, ...] = ()


@dataclass(eq=False, repr=False)
class GradRead(Event):
    """Gradients are read, copied or changed."""

    changes: bool = False
    """Whether they are changed in place, such as scaled, clamped or averaged."""
    of: Value | None = None
    """The tensor whose gradient changes; None if there are several, or it is not known."""
    measures: bool = False
    """Whether the code only measures them: their norm, a test for NaN."""


@dataclass(eq=False, repr=False)
class Clip(Event):
    """Clipping of these parameters' gradients to a bound; None if the call has no bound."""

    parameters: Value | None = None
    bound: Value | None = None


class Keeping(Enum):
    """The effect of a `Keep`; the value is the word that `trace` prints for it."""

    APPEND = "append"
    """A container takes the value in addition to its contents."""
    ADD = "add"
    """The value is added to a sum."""
    SLOT = "slot"
    """The value is stored at an index or a key."""
    CLEAR = "clear"
    """A container drops its contents."""


@dataclass(eq=False, repr=False)
class Keep(Event):
    """A value is stored beyond the statement; with `CLEAR`, the stored values are dropped."""

    container: Value
    value: Value
    how: Keeping
    name: str
    local: bool = False
    """Whether it is a variable of a running call, which starts over with the next call."""


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
    """A name is read again whose value changes somewhere; reads of other values have no event."""

    value: Value
    name: str


@dataclass(eq=False, repr=False)
class EmptyCache(Event):
    """`torch.cuda.empty_cache()` and similar functions."""


@dataclass(eq=False, repr=False)
class MemoryProbe(Event):
    """Code measures memory, or resets the counters."""

    resets: bool


@dataclass(eq=False, repr=False)
class Anomaly(Event):
    """Code switches anomaly detection; `on` is None if a variable decides."""

    on: bool | None


@dataclass(eq=False, repr=False)
class ModeSwitch(Event):
    """Code switches a module to training or evaluation; `training` is None if a variable decides."""

    module: Value
    training: bool | None


@dataclass(eq=False, repr=False)
class Returned(Event):
    """A value leaves the function that a trace begins with; returns to a visible caller do not count."""

    value: Value


@dataclass(eq=False, repr=False)
class Saved(Event):
    """`torch.save` writes a value to a file."""

    value: Value


@dataclass(eq=False, repr=False)
class Fresh(Event):
    """An object with gradients of its own is created: an optimizer, a module, a leaf."""

    value: Value


class Exit(Enum):
    """Control leaves a block; the value is the statement that leaves."""

    RETURN = "return"
    RAISE = "raise"
    BREAK = "break"
    CONTINUE = "continue"


@dataclass(frozen=True, eq=False, repr=False)
class Period:
    """A branch takes one arm in every `length`-th iteration of a loop, starting with that number; else the other."""

    loop: Loop
    length: int
    first: int
    arm: int

    def arm_in(self, iteration: int) -> int:
        """The arm that runs in an iteration; iterations count from 0."""
        return self.arm if iteration % self.length == self.first else 1 - self.arm


@dataclass(eq=False, repr=False)
class Branch:
    """One of several sequences runs."""

    site: Site
    arms: list[list[Item]]
    period: Period | None = None
    after_overflow: int | None = None
    """The arm taken only after infinite gradients, for which a scaler skipped the step."""


@dataclass(eq=False, repr=False)
class Try:
    """The body, perhaps interrupted, then perhaps a handler."""

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
    """The number of calls around the loop."""
    path: Path = ()
    """The arms of branches around the whole loop."""
    certain: bool = False
    """Whether it runs at least one iteration."""
    over: Value | None = None
    """The iterable."""
    edge: BackEdge | None = None
    """The changes an iteration makes; None if no iteration reaches its end."""

    @cached_property
    def always_leaves(self) -> bool:
        """Whether each iteration that gets this far ends by `break`, `return`, `continue` or `raise`."""
        return any(isinstance(item, Exit) for item in self.body)


@dataclass(eq=False, repr=False)
class Inlined:
    """The body of a function of this module, at a call."""

    site: Site
    body: list[Item]
    start: int
    """When the call began, in the order of values and events."""
    result: Value
    """The return value."""
    receiver: Value | None = None
    """The object whose method it is."""


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
    """Items without the yields of generators."""
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
    """The loops of the program, without an optimizer's own loop over its closure."""
    return [loop for loop in loops if not loop.implicit]


def is_in_each(loop: Loop, event: Event) -> bool:
    """Whether each iteration of a loop reaches an event, and there may be more than one iteration."""
    return not loop.always_leaves and event.path == loop.path and not event.passed


def exclusive(first: Path, second: Path) -> bool:
    """Whether two paths exclude each other in one pass: where they first differ, they take different arms."""
    for (branch, arm), (other, taken) in zip(first, second, strict=False):
        if branch is not other or arm != taken:
            return branch is other
    return False


def handlers(path: Path) -> Path:
    """The exception handlers on a path."""
    return tuple((branch, arm) for branch, arm in path if isinstance(branch, Try))


def apart(first: Event, second: Event) -> bool:
    """Whether two events exclude each other in one pass: in different arms, or one after the other's arm has left."""
    return (
        exclusive(first.path, second.path)
        or not set(second.passed).isdisjoint(first.path)
        or not set(first.passed).isdisjoint(second.path)
    )

"""The state of an interpretation: names, attributes, grad mode, events, and the position in the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from torchlint.model.arguments import Arguments
from torchlint.model.definitions import Definitions, FunctionInfo
from torchlint.model.events import Branch, Event, Item, Loop
from torchlint.model.frames import Frame
from torchlint.model.heap import AS_MADE, Change, Contents
from torchlint.model.observations import Observations
from torchlint.model.position import Position, Snapshot
from torchlint.model.values import Container, Function, Origin, Phi, Plain, Slot, Unknown, UnknownObject, Value
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import Site

Made = TypeVar("Made", bound=Value)
Key = TypeVar("Key", str, tuple[Value, str], Value)


MAX_DEPTH = 8
"""Calls inlined into each other; deeper ones are unknown."""
MAX_STATEMENTS = 4_000
"""Statements interpreted from one root; beyond that, calls of local functions are unknown."""
MAX_ELSEWHERE = 2_000
"""Statements of other modules interpreted for one module; beyond that, calls of their functions are unknown."""


class State:
    """Names and attributes as dictionaries, copied at branches and merged into Phis where they meet."""

    def __init__(self, definitions: Definitions, budget: int, *, follows: bool = False) -> None:
        self.observations = Observations()
        """The observations of the current root."""
        self.asides = self.observations.of_same_classes()
        """The observations of code interpreted aside from the program, once for all roots."""
        self.of_module = self.observations
        """The observations of the module's statements, from which all roots continue."""
        self.module_frame = Frame(None, None, definitions=definitions)
        self.follows = follows
        """Whether imports are followed; otherwise only the bases of classes are known."""
        self.frame = self.module_frame
        self.callers: list[Frame] = []
        """The frames of the running functions that have called others, the outermost first."""
        self.heap: dict[tuple[Value, str], Value] = {}
        self.certain: dict[tuple[Value, str], Value] = {}
        """Attributes with a certain value, until the next assignment."""
        self.contents: dict[Value, Value] = {}
        """The contents of containers; `AS_MADE` if there is no entry."""
        self.mode = GradMode.ON
        self.entered_from: list[GradMode] = []
        """The grad modes to restore after the open `with` blocks."""
        self.alive = True
        self.position = Position()
        self.items: list[Item] = []
        """The items, in order; if the position is in an arm, a loop or a call, the items of that."""
        self.statements = 0
        """Statements of this module interpreted since the current root began."""
        self.budget = budget
        """Remaining number of statements to interpret in all."""
        self.elsewhere = 0
        """Statements of other modules interpreted so far."""
        self.clock = 0
        self.before: Callable[[tuple[Value, str]], Value | None] = lambda key: None
        """The value of an attribute before any assignment on the way here; None if it is not known."""
        self._frames = {definitions: self.module_frame}

    # -- the position -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start a root without a caller, before any event."""
        self.statements, self.items, self.position = 0, [], Position()
        self.observations = self.of_module.of_next()

    def at(self, position: Position, items: list[Item]) -> _Visit:
        """Move to a position, record events in `items`, and move back."""
        return _Visit(self, position, items)

    def arm(self, branch: Branch, number: int) -> _Visit:
        """Enter an arm of a branch here, and move back."""
        return self.at(self.position.in_arm(branch, number), branch.arms[number])

    def loop(self, loop: Loop) -> _Visit:
        """Enter a loop here, and move back."""
        return self.at(self.position.in_loop(loop), loop.body)

    @contextmanager
    def block(self) -> Iterator[None]:
        """Run a `with` block and restore the grad mode after it."""
        mode = self.mode
        self.entered_from.append(mode)
        yield
        self.entered_from.pop()
        self.mode = mode

    @contextmanager
    def aside(self, calls: tuple[Site, ...]) -> Iterator[None]:
        """Interpret code aside from the program in a separate state, and restore the current one."""
        before = self.frame, self.heap, self.certain, self.contents, self.mode, self.alive, self.observations
        self.frame, self.heap, self.certain, self.contents = Frame(None, self.module_frame), {}, {}, {}
        self.mode, self.alive, self.observations = GradMode.ON, True, self.asides
        try:
            with self.at(Position(calls=calls, functions=self.position.functions), []):
                yield
        finally:
            self.frame, self.heap, self.certain, self.contents, self.mode, self.alive, self.observations = before

    # -- functions ----------------------------------------------------------------------------------

    def frame_of(self, definitions: Definitions) -> Frame:
        """The names of a module: of this one, or of one that it imports."""
        known = self._frames.get(definitions)
        if known is None:
            known = self._frames[definitions] = Frame(None, None, definitions=definitions)
        return known

    def bound(self, method: FunctionInfo, receiver: Value | None, mode: GradMode | None = None) -> Function:
        """A method of an object or class."""
        return Function(method, self.frame_of(method.definitions), receiver, mode)

    def can_inline(self, info: FunctionInfo) -> bool:
        """Whether a call of a function is followed."""
        within = self.statements < MAX_STATEMENTS and self.budget > 0
        is_own = info.definitions is self.module_frame.definitions
        if info.decorators and info.is_compiled:
            return False
        return within and (is_own or (self.follows and self.elsewhere < MAX_ELSEWHERE)) and self.may_nest(info)

    def may_nest(self, info: FunctionInfo) -> bool:
        """Whether a function is not already running, and few others are."""
        under_way = self.position.functions
        return info not in under_way and len(under_way) < MAX_DEPTH

    # -- values and events --------------------------------------------------------------------------

    def add(self, item: Branch | Loop) -> None:
        """Record a branch or loop, if it contains events."""
        if any(item.arms) if isinstance(item, Branch) else item.body:
            self.items.append(item)

    def stamp(self, value: Made) -> Made:
        """Set the creation time and the loops of a new value."""
        self.clock += 1
        value.order = self.clock
        value.loops = self.position.loops
        return value

    def emit(self, event: Event) -> None:
        """Record an event at this point of the program."""
        self.clock += 1
        event.order = self.clock
        event.mode = self.mode
        here = self.position
        event.path = here.path
        event.passed = here.passed
        event.loops = here.loops
        event.calls = here.calls
        event.call_path = here.call_path
        if here.called_without_grad is not None:
            taken, left = here.called_without_grad
            event.undecided, event.escaped = here.path[taken:], here.passed[left:]
        self.items.append(event)

    def bind(self, name: str, value: Value) -> None:
        """Assign a local name; names declared global or nonlocal are also assigned in their own scope.

        There they may keep their old value, as the function may be called at any time. In the function itself, and
        for a caller in whose scope the name lives, the new value is certain.
        """
        self.name_value(value, name)
        if name in self.frame.outer_names:
            holder = self._holder_of(name)
            for frame in dict.fromkeys((holder, *self.callers)):
                if frame is holder or name in frame.outer_names:
                    old = frame.locals.get(name)
                    frame.locals[name] = value if old is None else self.phi(None, [old, value])
        self.frame.locals[name] = value

    def _holder_of(self, name: str) -> Frame:
        """The frame of a name that a function declares global or nonlocal."""
        frame = self.frame.parent
        while frame is not None and frame.parent is not None and name not in frame.locals:
            frame = frame.parent
        return frame or self.frame

    def replace(self, old: Value, new: Value) -> None:
        """Replace a value under all its names: here, in the running functions, and in objects."""
        places: list[dict[Any, Value]] = [self.heap, *(frame.locals for frame in (self.frame, *self.callers))]
        for place in places:
            place.update({key: new for key, value in place.items() if value is old})

    def name_value(self, value: Value, name: str) -> None:
        """Remember the program's name for a value; an object's variable says more than its class."""
        if value.label[:1] in ("", "[") or (isinstance(value, UnknownObject) and value.label == value.class_name):
            value.label = name

    def carried(self, key: tuple[Value, str], found: Value) -> Value:
        """A number or tensor stored before the loop may be the previous iteration's."""
        scope = next((scope for scope in reversed(self.position.scopes) if scope.repeats), None)
        if scope is None or scope.event in found.loops or not isinstance(found, (Plain, Phi)):
            return found
        if isinstance(found, Phi) and found.loop is scope.event:
            return found
        if key not in scope.heap_phis:
            phi = Phi(found.site, (found,), scope.event)
            phi.order, phi.loops, phi.label = found.order, found.loops, found.label or key[1]
            scope.heap_phis[key] = phi
            self.heap[key] = phi
        return self.heap[key]

    def made_by(self, value: Value) -> tuple[str, Arguments, Value | None] | None:
        """The call that makes a tensor or a layer, here or where all roots begin; see `Observations.calls`."""
        places = self.observations, self.of_module, self.asides
        return next((found for place in places if (found := place.calls.get(value)) is not None), None)

    def shared_part(self, owner: Value, key: object, make: Callable[[], Value]) -> Value:
        found = owner.part(key)
        if found is None:
            found = make()
            owner.set_part(key, found)
        return found

    def part_of(self, owner: Value, key: object, kind: type[Unknown], node: Origin) -> Value:
        """An unknown part of a value, the same for every read."""
        label = key if isinstance(key, str) else ""

        def make() -> Value:
            part = kind(node, (owner,), label, mode=getattr(owner, "mode", None) or GradMode.ON)
            part.order, part.loops = owner.order, owner.loops
            return part

        return self.shared_part(owner, key, make)

    def store(self, owner: Container, index: Value | None, value: Value, node: Origin) -> None:
        """Record that `owner[index]` is a value, until the next store, which may be at the same place."""
        self.heap.pop((owner, "[=]"), None)
        if index is not None:
            self.heap[owner, "[=]"] = self.stamp(Slot(node, index, value, self.position.path))

    def stored_at(self, owner: Value, index: Value | None) -> Value | None:
        """The value stored in `owner[index]` on the way here, if it was the last one stored there."""
        slot = self.heap.get((owner, "[=]"))
        here = self.position
        if not isinstance(slot, Slot) or slot.loops != here.loops or here.path[: len(slot.path)] != slot.path:
            return None
        return slot.parents[1] if slot.parents[0] is index else None

    def change(
        self,
        container: Value,
        change: Change,
        node: Origin,
        value: Value | None = None,
        by: str = "",
        old: Value | None = None,
    ) -> None:
        """Record a change of the contents of a container, or of an object."""
        before = self.contents.get(container, AS_MADE)
        if change is not Change.UNKNOWN or not isinstance(before, Contents) or before.change is not change:
            kept = (before,) if value is None else (before, value)
            self.contents[container] = self.stamp(Contents(node, change, kept, by, old))

    def snapshot(self, arm: tuple[object, int] | None = None) -> Snapshot:
        """The current state, for instance at the end of an arm; later events change it unless a restore comes first."""
        return Snapshot(self.frame.locals, self.heap, self.contents, self.mode, self.alive, arm)

    def copy(self) -> Snapshot:
        return Snapshot(dict(self.frame.locals), dict(self.heap), dict(self.contents), self.mode, self.alive)

    def leaving(self, blocks: int) -> Snapshot:
        """A copy of the state for a jump out of all `with` blocks but the outermost `blocks`."""
        state = self.copy()
        if len(self.entered_from) > blocks:
            state.mode = self.entered_from[blocks]
        return state

    def restore(self, state: Snapshot) -> None:
        """Continue from a copy of a state."""
        self.frame.locals = dict(state.locals)
        self.heap = dict(state.heap)
        self.contents = dict(state.contents)
        self.mode = state.mode
        self.alive = state.alive

    def merge(self, states: list[Snapshot], node: Origin) -> None:
        """Continue from several states; differing values become a Phi. Without live states, nothing continues."""
        living = [state for state in states if state.alive]
        if not living:
            self.alive = False
            return
        first = living[0]
        self.restore(first)
        if len(living) == 1:
            return
        arms = [state.arm for state in living]
        self._merge_dicts(self.frame.locals, [state.locals for state in living], arms, node)
        self._merge_dicts(self.heap, [state.heap for state in living], arms, node, self.before)
        self._merge_dicts(self.contents, [state.contents for state in living], arms, node, lambda container: AS_MADE)
        if any(state.mode is not first.mode for state in living):
            self.mode = GradMode.UNKNOWN

    def _merge_dicts(
        self,
        into: dict[Key, Value],
        sources: list[dict[Key, Value]],
        arms: list[tuple[object, int] | None],
        node: Origin,
        before: Callable[[Key], Value | None] = lambda key: None,
    ) -> None:
        first = sources[0]
        changed: dict[Key, None] = {}
        for other in sources[1:]:
            if other == first:  # values are equal only to themselves
                continue
            changed.update({key: None for key, value in first.items() if other.get(key) is not value})
            changed.update({key: None for key in other if key not in first})
        for key in changed:
            found = [(source.get(key) or before(key), arm) for source, arm in zip(sources, arms, strict=True)]
            known = [(value, arm) for value, arm in found if value is not None]
            into[key] = self.phi(node, [value for value, _ in known], [arm for _, arm in known])

    def phi(self, node: Origin, values: list[Value], arms: Sequence[tuple[object, int] | None] = ()) -> Value:
        """One of these values, each with its branch arm if known; no Phi if they are all the same."""
        distinct = list(dict.fromkeys(values))
        if len(distinct) == 1:
            return distinct[0]
        either = self.stamp(Phi(node, tuple(distinct)))
        for value, arm in zip(values, arms, strict=False):
            if arm is not None:
                either.arms.setdefault(value, set()).add(arm)
        return either


class _Visit:
    """Another position, for the duration of a `with` statement; faster than a generator."""

    __slots__ = ("_before", "_items", "_position", "_state")

    def __init__(self, state: State, position: Position, items: list[Item]) -> None:
        self._state = state
        self._position = position
        self._items = items

    def __enter__(self) -> None:
        state = self._state
        self._before = state.position, state.items
        state.position, state.items = self._position, self._items

    def __exit__(self, *error: object) -> None:
        self._state.position, self._state.items = self._before

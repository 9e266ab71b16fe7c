"""A clearing of gradients that is tried at a place: what it would do on every path."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from torchlint.model.dataflow import Flow
from torchlint.model.events import Backward, Event, Exit, GradRead, Item, Loop, Step
from torchlint.model.ownership import Ownership
from torchlint.model.values import Value, resolved
from torchlint.syntax.python_ast import Site

_ITERATIONS = 3
"""Enough for each state to come around: there are few."""
State = TypeVar("State")


class Gradients(NamedTuple):
    """The gradients that one path leaves in an optimizer."""

    used: bool = False
    """Whether those are still there that the step in question has used."""
    mixed: bool = False
    """Whether a pass has added to them since."""
    fresh: bool = False
    """Whether a pass of this iteration has given some for the step of this iteration, which has not come yet."""
    old: bool = False
    """Whether one of an earlier iteration has, and its step never came."""
    foreign: bool = False
    """Whether a pass for something else has given some: no step of its iteration uses them."""
    emptied: bool = False
    """Whether the clearing has emptied them, and no pass has filled them since."""


@dataclass
class Outcome:
    """The outcome on at least one path."""

    takes_used: bool = False
    """A step takes gradients together with others that the step in question has used."""
    takes_foreign: bool = False
    """A step takes gradients of a pass for something else."""
    skips: bool = False
    """A pass comes to gradients of an earlier iteration that had no step."""
    loses_fresh: bool = False
    """The clearing comes between a pass and the step of its iteration."""
    loses_old: bool = False
    """The clearing takes gradients of an earlier iteration that had no step."""
    steps_on_none: bool = False
    """A step comes to gradients that no pass has given since the last one."""
    is_read: bool = False
    """Somebody reads the gradients after the clearing, and finds none."""


class TriedClearing:
    """Tries a clearing in the iterations of a loop, or of a function that is called in one."""

    def __init__(self, ownership: Ownership, items: list[Item], loop: Loop | None, used_by: Step) -> None:
        """`items` happen in an iteration; `used_by` is the step whose old gradients have to go."""
        self._ownership = ownership
        self._items = items
        self._exits = (Exit.CONTINUE, Exit.BREAK) if loop is not None else (Exit.RETURN,)
        self._used_by = used_by

    def outcome(self, optimizer: Value, place: Backward | Step | None) -> Outcome:
        """The effect on an optimizer's gradients of clearing before a pass, or after a step; None: no clearing."""
        found = Outcome()
        after = partial(self._after, optimizer=optimizer, own=self._own_passes(optimizer), place=place, found=found)
        flow = Flow[Gradients](lambda event, states: frozenset(after(event, state) for state in states))
        states = frozenset({Gradients()})
        for number in range(_ITERATIONS):
            ends = self._ends(flow, states)
            states = frozenset(state._replace(fresh=False, old=state.fresh or state.old) for state in ends)
            if not number:
                found.steps_on_none = False  # the first iteration may well begin with a step
        return found

    def _own_passes(self, optimizer: Value) -> set[Site]:
        """The passes that are followed by a step of the optimizer in the same iteration; all where none is."""
        given, taken = set[Site](), set[Site]()

        def transfer(event: Event, sites: frozenset[Site | None]) -> frozenset[Site | None]:
            if isinstance(event, Backward) and self._ownership.reaches(event, optimizer):
                given.add(event.site)
                return sites | {event.site}
            if isinstance(event, Step) and resolved(event.optimizer) is optimizer:
                taken.update(site for site in sites if site is not None)
                return frozenset({None})
            return frozenset({None}) if self._ownership.may_clear(event, optimizer) else sites

        self._ends(Flow(transfer), frozenset({None}))
        return taken or given

    def _ends(self, flow: Flow[State], states: frozenset[State]) -> frozenset[State]:
        """The states in which an iteration ends."""
        ends = flow.run(self._items, states)
        for way in self._exits:
            ends |= flow.exits.get(way, frozenset())
        flow.exits.clear()
        return ends

    def _after(
        self,
        event: Event,
        state: Gradients,
        *,
        optimizer: Value,
        own: set[Site],
        place: Event | None,
        found: Outcome,
    ) -> Gradients:
        is_here = place is not None and type(event) is type(place) and event.site == place.site
        if isinstance(event, Backward):
            state = _cleared(state, found) if is_here else state
            if not self._ownership.reaches(event, optimizer):
                return state
            found.skips |= state.old and event.site in own
            return _given(state, is_own=event.site in own)
        if isinstance(event, Step):
            if resolved(event.optimizer) is optimizer:
                _take(state, found)
                state = Gradients(used=event.site == self._used_by.site, emptied=state.emptied)
            return _cleared(state, found) if is_here else state
        if isinstance(event, GradRead):
            found.is_read |= state.emptied
            return state
        return Gradients() if self._ownership.may_clear(event, optimizer) else state


def _given(state: Gradients, *, is_own: bool) -> Gradients:
    """The gradients after a pass that reaches them."""
    return state._replace(
        mixed=state.used, fresh=state.fresh or is_own, foreign=state.foreign or not is_own, emptied=False
    )


def _take(state: Gradients, found: Outcome) -> None:
    """Note what a step comes to."""
    found.takes_used |= state.mixed
    found.takes_foreign |= state.foreign
    found.steps_on_none |= not (state.fresh or state.old)


def _cleared(state: Gradients, found: Outcome) -> Gradients:
    """Note what the clearing takes; the gradients after it."""
    found.loses_fresh |= state.fresh
    found.loses_old |= state.old
    return Gradients(emptied=True)

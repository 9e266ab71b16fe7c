"""The paths from one step to the next, and their effects on the gradients that the steps use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from torchlint.model.dataflow import Flow
from torchlint.model.events import Backward, Branch, Event, Exit, Item, Loop, Step, exclusive, items_in

MAX_PERIOD = 64
"""Maximum number of iterations after which all conditions on a counter repeat; longer periods are not followed."""


class History(NamedTuple):
    """The history of an optimizer's gradients along one path."""

    last: Step | None = None
    """The last step."""
    empty: bool = False
    """Whether it ran right after a clearing of the gradients."""
    cleared: bool = False
    """Whether the gradients were (perhaps) cleared since."""
    fresh: bool = True
    """Whether a backward has (perhaps) run since the clearing."""
    added: bool = False
    """Whether a backward has added to the gradients that the last step used."""

    @property
    def is_stale(self) -> bool:
        """Whether gradients are there that the last step used."""
        return self.last is not None and not (self.empty or self.cleared)

    def stepped(self, step: Step) -> History:
        return History(step, empty=not self.fresh)

    def gone_backward(self) -> History:
        return self._replace(fresh=True, added=self.added or self.is_stale)

    def with_change(self) -> History:
        """The history after the used gradients are scaled before a pass adds to them: the program's own momentum."""
        return self._replace(cleared=True) if self.is_stale and not self.added else self

    def with_weights_of(self, taken: int) -> History:
        """The history after parameters get the values they had at `taken`: that undoes a later step, so that the next
        step may use its gradients as well.
        """
        return self._replace(cleared=True) if self.last is not None and self.last.order > taken else self

    def with_clearing(self) -> History:
        return self._replace(cleared=True, fresh=False)


class Arrivals:
    """The histories of the paths that arrive at steps, since the last step."""

    def __init__(self) -> None:
        self.histories: dict[tuple[Step, Step], set[History]] = {}
        self.backwards: dict[Step, list[Backward]] = {}
        """The passes that add to gradients that a step has used."""

    def stale(self) -> Iterator[tuple[Step, Step, list[Backward]]]:
        """Pairs of steps between which at least one path adds gradients, and none clears them."""
        for (last, step), paths in self.histories.items():
            if exclusive(last.path, step.path):
                continue  # one arm steps for both only if its condition changes between the iterations
            if any(path.added for path in paths) and not any(path.cleared for path in paths):
                yield last, step, self.backwards[last]


class Paths:
    """Follows some gradients: steps that use them, passes that add to them, and events that clear or scale them."""

    def __init__(
        self,
        uses: Callable[[Step], bool],
        gives: Callable[[Backward], bool],
        may_clear: Callable[[Event], bool],
        may_change: Callable[[Event], bool],
        taken: Callable[[Event], int | None] = lambda event: None,
    ) -> None:
        """`taken` gives, for an event that puts back parameters, the order of the place that took their values."""
        self._uses = uses
        self._gives = gives
        self._may_clear = may_clear
        self._may_change = may_change
        self._taken = taken
        self._arrivals = Arrivals()

    def stale(self, items: list[Item], loop: Loop | None) -> list[tuple[Step, Step, list[Backward]]]:
        """Steps in a loop, or in a function called in one, that use gradients that an earlier step has used."""
        self._arrivals, flow = Arrivals(), Flow(self._transfer)
        states = frozenset({History()})
        for _ in range(3):
            states = self._iteration(flow, items, states, loop)
        return list(self._arrivals.stale()) or self._stale_in_turn(items, loop)

    def _iteration(
        self, flow: Flow[History], items: list[Item], states: frozenset[History], loop: Loop | None
    ) -> frozenset[History]:
        """The states at the end of an iteration."""
        ends = flow.run(items, states) | flow.exits.get(Exit.CONTINUE, frozenset())
        if loop is None:
            ends |= flow.exits.get(Exit.RETURN, frozenset())
        flow.exits.clear()
        return ends

    def _stale_in_turn(self, items: list[Item], loop: Loop | None) -> list[tuple[Step, Step, list[Backward]]]:
        """The same, iteration by iteration, if the events in them depend on the iteration's number."""
        periods = [item.period for item in items_in(items) if isinstance(item, Branch) and item.period is not None]
        lengths = {period.length for period in periods if period.loop is loop}
        until = 2 * math.lcm(*lengths)
        if len(lengths) < 2 or until > 2 * MAX_PERIOD:
            return []
        flow, states, backwards = Flow(self._transfer), frozenset({History()}), self._arrivals.backwards
        for number in range(until):
            self._arrivals = Arrivals()
            self._arrivals.backwards = backwards
            flow.taken = partial(_arm_taken, loop=loop, number=number)
            states = self._iteration(flow, items, states, loop)
            if found := list(self._arrivals.stale()):
                return found
        return []

    def _transfer(self, event: Event, states: frozenset[History]) -> frozenset[History]:
        if isinstance(event, Step) and self._uses(event):
            for state in states:
                if state.last is not None:
                    self._arrivals.histories.setdefault((state.last, event), set()).add(state)
            return frozenset(state.stepped(event) for state in states)
        if isinstance(event, Backward):
            if not self._gives(event):
                return states
            for state in states:
                if state.is_stale and state.last is not None:
                    self._arrivals.backwards.setdefault(state.last, []).append(event)
            return frozenset(state.gone_backward() for state in states)
        if self._may_clear(event):
            return frozenset(state.with_clearing() for state in states)
        if (taken := self._taken(event)) is not None:
            return frozenset(state.with_weights_of(taken) for state in states)
        return frozenset(state.with_change() for state in states) if self._may_change(event) else states


def _arm_taken(branch: Branch, loop: Loop | None, number: int) -> int | None:
    """The arm of a branch that an iteration of a loop takes, if that depends on its number."""
    period = branch.period
    return period.arm_in(number) if period is not None and period.loop is loop else None

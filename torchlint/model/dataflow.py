"""Dataflow over events: the possible states at each point of a function, over all paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Generic, TypeVar

from torchlint.model.events import Branch, Event, Exit, Inlined, Item, Loop, Try


def pruned(items: list[Item], kinds: tuple[type[Event], ...]) -> list[Item]:
    """A sequence without events of other kinds and without the items that become empty.

    A `Flow` over these kinds gives the same result for it.
    """
    kept: list[Item] = []
    for item in items:
        if isinstance(item, Branch):
            arms = [pruned(arm, kinds) for arm in item.arms]
            kept += [replace(item, arms=arms)] if any(arms) else []
        elif isinstance(item, Try):
            body, handlers = pruned(item.body, kinds), [pruned(handler, kinds) for handler in item.handlers]
            kept += [Try(item.site, body, handlers)] if body or any(handlers) else []
        elif isinstance(item, (Loop, Inlined)):
            inside = pruned(item.body, kinds)
            kept += [replace(item, body=inside)] if inside else []
        elif isinstance(item, (Exit, *kinds)):
            kept.append(item)
    return kept


State = TypeVar("State")


class Flow(Generic[State]):
    """Runs sets of states through a sequence: a state is one possible history of a path.

    Each arm of a branch may be `taken`, except arms that run only if an optimizer did not step.
    """

    def __init__(self, transfer: Callable[[Event, frozenset[State]], frozenset[State]]) -> None:
        self.transfer = transfer
        self.taken: Callable[[Branch], int | None] = lambda branch: None
        """The only arm of a branch that runs; None if that is not known."""
        self.exits: dict[Exit, frozenset[State]] = {}

    def run(self, items: list[Item], states: frozenset[State]) -> frozenset[State]:
        """The states at the end of `items`; `exits` collects the states of paths that leave early."""
        for item in items:
            if not states:
                break
            states = self._item(item, states)
        return states

    def _item(self, item: Item, states: frozenset[State]) -> frozenset[State]:
        if isinstance(item, Event):
            return self.transfer(item, states)
        if isinstance(item, Branch):
            return self._branch(item, states)
        if isinstance(item, Inlined):
            return self._inlined(item, states)
        if isinstance(item, Loop):
            return self.loop(item, states)
        if isinstance(item, Try):
            return self._try(item, states)
        self.exits[item] = self.exits.get(item, frozenset()) | states
        return frozenset()

    def _branch(self, item: Branch, states: frozenset[State]) -> frozenset[State]:
        taken = self.taken(item)
        if taken is not None:
            return self.run(item.arms[taken], states)
        return _union(self.run(arm, states) for number, arm in enumerate(item.arms) if number != item.after_overflow)

    def _inlined(self, item: Inlined, states: frozenset[State]) -> frozenset[State]:
        saved = self.exits.pop(Exit.RETURN, frozenset())
        after = self.run(item.body, states) | self.exits.pop(Exit.RETURN, frozenset())
        if saved:
            self.exits[Exit.RETURN] = saved
        return after

    def loop(self, loop: Loop, states: frozenset[State]) -> frozenset[State]:
        """The states after zero or more iterations (one or more if that is certain), up to the fixed point."""
        outer = {way: self.exits.pop(way, frozenset()) for way in (Exit.BREAK, Exit.CONTINUE)}
        reached = states
        while True:
            after = self.run(loop.body, reached) | self.exits.pop(Exit.CONTINUE, frozenset())
            if after <= reached:
                break
            reached |= after
        ends = (after if loop.certain else reached) | self.exits.pop(Exit.BREAK, frozenset())
        self.exits.update({way: found for way, found in outer.items() if found})
        return ends

    def _try(self, item: Try, states: frozenset[State]) -> frozenset[State]:
        between = states
        reached = states
        for part in item.body:
            reached = self._item(part, reached)
            between |= reached
        ends = [reached, *(self.run(handler, between) for handler in item.handlers)]
        return _union(ends)


def _union(parts: Iterable[frozenset[State]]) -> frozenset[State]:
    found: frozenset[State] = frozenset()
    for part in parts:  # usually they are identical
        if part is not found:
            found = found | part if found else part
    return found

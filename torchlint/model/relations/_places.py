"""The places that an iteration of a loop changes, and the ways in which they may end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model.events import Keeping, Loop, Path
from torchlint.model.heap import BackEdge, Change, Contents
from torchlint.model.program import Program
from torchlint.model.values import Answer, Container, Phi, Value, inputs_of

MOST_ARMS = 8
"""The arms of branches around a change that say how often it happens."""


class End(NamedTuple):
    """One way in which a place may end: it holds what it held (YES), or something else."""

    holds: Answer
    arms: Path
    reason: str = ""


class Places:
    """The places that an iteration changes, by what they hold at its beginning."""

    def __init__(self, edge: BackEdge, loop: Loop | None, program: Program) -> None:
        self.contents = edge.contents
        self.loop = loop
        self.known: dict[tuple[Value, Keeping, str], list[End]] = {}
        self.by_value: dict[Value, list[tuple[Value, Value | None]]] = {}
        self.by_name: dict[str, list[tuple[Value | None, Value | None]]] = {}
        self.around: dict[Value, list[Value]] = {}
        """The containers that hold a value."""
        for name, pair in (*edge.names.items(), *((name, pair) for (_, name), pair in edge.attributes.items())):
            self.by_name.setdefault(name, []).append(pair)
        stored = program.interpreter.state.before
        attributes = ((begun or stored(key), ended) for key, (begun, ended) in edge.attributes.items())
        for begun, ended in (*edge.names.values(), *attributes):
            for item in self.at_first(begun) if begun is not None else ():
                assert begun is not None
                self.by_value.setdefault(item, []).append((begun, ended))
        for item in dict.fromkeys((*self.contents, *self.by_value)):
            for part in item.elements() if isinstance(item, Container) else ():
                self.around.setdefault(part, []).append(item)

    def at_first(self, value: Value) -> Iterator[Value]:
        """What a value may be at the beginning of an iteration, but for what the one before has made it."""
        if isinstance(value, Phi) and value.loop is not None and value.loop is self.loop:
            value = value.parents[0]
        yield from inputs_of(value)


def put_in(begun: Value, ended: Value) -> Iterator[Value]:
    """The values that an iteration has put into a container, and that nothing has taken out again."""
    stack, seen = [ended], {begun}
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        if isinstance(item, Phi):
            stack += item.parents
        elif isinstance(item, Contents) and item.change is not Change.EMPTIED:
            stack += item.parents[:1]
            yield from item.parents[1:]


def alternatives(value: Value | None, begun: Value) -> Iterator[tuple[Value | None, Path]]:
    """What a value may be, and in which arms of branches; what it was at the beginning is one of these."""
    stack: list[tuple[Value | None, Path]] = [(value, ())]
    seen: set[Value | None] = set()
    while stack:
        item, arms = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        if isinstance(item, Phi) and item is not begun:
            stack += [(part, (*item.arms.get(part, ()), *arms[:MOST_ARMS])) for part in item.parents]
        else:
            yield item, arms

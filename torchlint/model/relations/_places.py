"""The places that an iteration of a loop changes, and their possible values at its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint.model.events import Keeping, Loop, Path
from torchlint.model.heap import BackEdge, Change, Contents
from torchlint.model.program import Program
from torchlint.model.values import Answer, Container, Phi, Value, inputs_of

MOST_ARMS = 8
"""Maximum number of branch arms around a change that describe how often it happens."""


class End(NamedTuple):
    """One possible end of a place: it holds its initial value (YES), or something else."""

    holds: Answer
    arms: Path
    reason: str = ""


class Places:
    """The places that an iteration changes, by their values at its beginning."""

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
        replaced_in = {item: list(replaced(begun, ended)) for item, (begun, ended) in self.contents.items()}
        olds = (old for items in replaced_in.values() for old in items)
        for item in dict.fromkeys((*self.contents, *self.by_value, *olds)):
            parts = item.elements() if isinstance(item, Container) else []
            for part in (*parts, *replaced_in.get(item, ())):
                self.around.setdefault(part, []).append(item)

    def at_first(self, value: Value) -> Iterator[Value]:
        """The possible values at the beginning of an iteration, without those from the previous iteration."""
        if isinstance(value, Phi) and value.loop is not None and value.loop is self.loop:
            value = value.parents[0]
        yield from inputs_of(value)


def replaced(begun: Value, ended: Value) -> Iterator[Value]:
    """The values whose entries an iteration sets to other values."""
    stack, seen = [ended], {begun}
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        stack += item.parents if isinstance(item, Phi) else item.parents[:1]
        if isinstance(item, Contents) and item.old is not None:
            yield from inputs_of(item.old)


def put_in(begun: Value, ended: Value) -> Iterator[Value]:
    """The values that an iteration puts into a container and does not take out again."""
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
    """The possible values with the branch arms they come from; the value at the beginning is one of them."""
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

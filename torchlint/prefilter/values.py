"""Values of a quick reading: what they may share their storage with, and what is known of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

NOT, HANDED, MADE = range(3)
"""Whether a value has a graph: not as far as is known, if what the function is handed has one, or anyway."""


class Value:
    """What may be a tensor."""

    __slots__ = (
        "apart",
        "bases",
        "body",
        "changed",
        "computed",
        "container",
        "held",
        "label",
        "leaf",
        "method",
        "outer",
        "overwritten",
        "owner",
        "package",
        "part_changed",
        "receiver",
        "saved",
        "tracked",
        "whole",
    )

    def __init__(self, *bases: Value, tracked: int = NOT, container: bool = False, computed: bool = True) -> None:
        self.bases = bases
        """What it may share its storage with, or may be."""
        self.tracked: int = tracked or (tracked_most(bases) if bases else NOT)
        self.container = container
        self.computed = computed
        """Whether it is surely a tensor: the model says nothing of what it knows only as handed over."""
        self.apart = False
        """Whether autograd does not see what is done to it: a leaf's `.data`."""
        self.whole = ""
        """The module, as far as it has a name, that gave it as its result."""
        self.held: list[Value] = []
        """What an object of the file was handed, and may hold."""
        self.body: ast.Lambda | None = None
        """What calling it evaluates."""
        self.method = ""
        """The operator that it is itself: a function of PyTorch, or a method of its `receiver`."""
        self.receiver: Value | None = None
        self.package = False
        """Whether it is what the file imports under a name."""
        self.owner: Value | None = None
        """What it is an attribute of."""
        self.part_changed = False
        """Whether an attribute of it is changed."""
        self.saved = self.changed = self.overwritten = self.leaf = self.outer = False
        self.label = ""

    def storage(self, *, seen: bool = False) -> set[Value]:
        """Itself and all that it may share its storage with; with `seen` only where autograd sees changes of that."""
        found: set[Value] = set()
        stack = [self]
        while stack:
            value = stack.pop()
            if value not in found and not (seen and value.apart):
                found.add(value)
                stack.extend(value.bases)
        return found

    def is_leaf(self) -> bool:
        """Whether it, or what it is a view of, may be a leaf."""
        return any(value.leaf for value in self.storage(seen=True))


Maybe = Value | None
Names = dict[str, Maybe]


def tracked_most(values: Iterable[Maybe]) -> int:
    """How far the most tracked of several values is."""
    most: int = NOT
    for value in values:
        if value is not None and value.tracked > most:
            most = value.tracked
    return most


def either(values: Iterable[Maybe]) -> Maybe:
    """A value that is one of several."""
    parts = dict.fromkeys(present(values))
    if len(parts) < 2:
        return next(iter(parts), None)
    return Value(*parts, container=all(part.container for part in parts), computed=False)


def present(values: Iterable[Maybe]) -> Iterator[Value]:
    """Those that may be tensors."""
    return (value for value in values if value is not None)

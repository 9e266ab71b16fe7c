"""What values are parts of others: attributes, elements, what `__init__` stores, and what a class was handed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cached_property

from torchlint.model.definitions import ClassInfo
from torchlint.model.program import Program
from torchlint.model.values import (
    Attribute,
    BoundMethod,
    CallResult,
    Container,
    Element,
    Iteration,
    Module,
    Phi,
    Tensor,
    UnknownObject,
    Value,
    class_of,
    inputs_of,
)
from torchlint.syntax.python_ast import site_of

_PART = (Attribute, Element, Iteration, BoundMethod)


class Parts:
    """Answers about parts, by what the program stores where."""

    def __init__(self, program: Program) -> None:
        self.stored = [
            (owner, value)
            for heap in (program.observations.stored, *(trace.heap for trace in program.traces))
            for (owner, _), value in heap.items()
        ]
        """What has an attribute, and what that is."""
        self._above: dict[tuple[Value, bool], set[Value]] = {}
        self._made_of: dict[Value, set[Value]] = {}
        self._holders: dict[Value, list[Value]] = {}
        for owner, value in dict.fromkeys(self.stored):
            for part in (value, *(value.parents if isinstance(value, (Module, Container)) else ())):
                for item in inputs_of(part):
                    self._holders.setdefault(item, []).append(owner)
        self._objects: dict[ClassInfo, list[Value]] = {}
        """What is stored somewhere and is an object of a class."""
        for item in self._holders:
            if (info := class_of(item)) is not None:
                self._objects.setdefault(info, []).append(item)

    def holders(self, value: Value) -> Iterable[Value]:
        """The objects in which a value is stored, by itself, in a container or in a module that it was given to."""
        return self._holders.get(value, ())

    def is_part(self, part: Value, whole: Value, *, derived: bool = False) -> bool:
        """Whether a value is another, an attribute or element of it, or stored in it by `__init__`.

        With `derived`, also what a call made of it, such as `maml.clone()`, and what its class stores in each object.
        """
        return self.part_of_any((whole,), derived=derived)(part)

    def part_of_any(self, wholes: Collection[Value], *, derived: bool = False) -> Callable[[Value], bool]:
        """Asks whether a value is a part of one of several, in a time that does not grow with how many these are."""
        return Group(self, wholes, derived=derived).holds

    def above(self, part: Value, *, derived: bool) -> set[Value]:
        """A value, what it is a part of, and so on, worked out once."""
        key = part, derived
        if key not in self._above:
            self._above[key] = self._upward(part, derived=derived)
        return self._above[key]

    def made_of(self, whole: Value) -> set[Value]:
        """What a module was made of, worked out once: what its class was handed, and what that was made of."""
        if whole not in self._made_of:
            self._made_of[whole] = _made_of(whole)
        return self._made_of[whole]

    def _upward(self, part: Value, *, derived: bool) -> set[Value]:
        kinds = (*_PART, CallResult, UnknownObject) if derived else _PART
        seen: set[Value] = set()
        stack = [part]
        while stack:
            item = stack.pop()
            if item in seen:
                continue
            seen.add(item)
            stack.extend(self.holders(item))
            if derived and (info := class_of(item)) is not None and _is_template(item, info):
                stack.extend(self._objects.get(info, ()))
            if (
                isinstance(item, Phi)
                or (isinstance(item, Tensor) and derived and not item.leaf)
                or isinstance(item, kinds)
            ):
                stack.extend(item.parents)
        return seen


class Group:
    """Values of which it is asked again and again whether others are parts of them, or they of others."""

    def __init__(self, parts: Parts, members: Collection[Value], *, derived: bool) -> None:
        self._parts = parts
        self._members = members
        self._derived = derived
        self._inside = set(members).union(*map(parts.made_of, members))
        self._classes = {info for member in members if (info := class_of(member)) is not None}

    def holds(self, part: Value) -> bool:
        """Whether a value is a part of a member."""
        above = self._parts.above(part, derived=self._derived)
        if not above.isdisjoint(self._inside):
            return True
        return bool(self._classes) and not self._classes.isdisjoint(_templates(above))

    def is_in(self, whole: Value) -> bool:
        """Whether a member is a part of a value."""
        inside = self._parts.made_of(whole)
        return whole in self._above or not inside.isdisjoint(self._above) or class_of(whole) in self._templates

    def overlaps(self, others: Iterable[Value]) -> bool:
        """Whether one of several values is a part of a member, or has one as a part."""
        return any(self.holds(item) or self.is_in(item) for item in others)

    @cached_property
    def _above(self) -> set[Value]:
        """The members, and what they are parts of."""
        return set[Value]().union(*(self._parts.above(item, derived=self._derived) for item in self._members))

    @cached_property
    def _templates(self) -> set[ClassInfo]:
        """The classes of which all objects have a member as a part."""
        return _templates(self._above)


def _made_of(whole: Value) -> set[Value]:
    """What a module was made of: what its class was handed, and what that was made of."""
    found: set[Value] = set()
    stack = [whole]
    while stack:
        item = stack.pop()
        inner: Iterable[Value] = ()
        if isinstance(item, (Module, UnknownObject)):
            inner = item.parents
        elif isinstance(item, Container):
            inner = item.elements()
        given = {part for parent in inner for part in inputs_of(parent)} - found
        found |= given
        stack.extend(given)
    return found


def _templates(values: Iterable[Value]) -> set[ClassInfo]:
    """The classes for all objects of which one of these values stands."""
    known = ((item, class_of(item)) for item in values)
    return {info for item, info in known if info is not None and _is_template(item, info)}


def _is_template(item: Value, info: ClassInfo) -> bool:
    """Whether a value stands for all objects of a class."""
    return item.site is not None and item.site.written == site_of(info.node).written

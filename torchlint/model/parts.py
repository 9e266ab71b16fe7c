"""The values that are parts of others: attributes, elements, and values that `__init__` stores or receives."""

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
    """Answers about parts, from the places where the program stores values."""

    def __init__(self, program: Program) -> None:
        self.stored = [
            (owner, value)
            for heap in (program.observations.stored, *(trace.heap for trace in program.traces))
            for (owner, _), value in heap.items()
        ]
        """The owners of an attribute, and the value of the attribute."""
        self._above: dict[tuple[Value, bool], set[Value]] = {}
        self._made_of: dict[Value, set[Value]] = {}
        self._holders: dict[Value, list[Value]] = {}
        for owner, value in dict.fromkeys([*self.stored, *program.observations.appended]):
            for whole in inputs_of(value):
                inside = self.made_of(whole) if isinstance(whole, (Module, Container)) else ()
                for item in (whole, *inside):
                    self._holders.setdefault(item, []).append(owner)
        self._objects: dict[ClassInfo, list[Value]] = {}
        """The stored objects of each class."""
        for item in self._holders:
            if (info := class_of(item)) is not None:
                self._objects.setdefault(info, []).append(item)

    def holders(self, value: Value) -> Iterable[Value]:
        """The objects that store a value, directly, in a container or in a module that received it."""
        return self._holders.get(value, ())

    def is_part(self, part: Value, whole: Value, *, derived: bool = False) -> bool:
        """Whether a value is another, an attribute or element of it, or stored in it by `__init__`.

        With `derived`, also the results of its methods, such as `maml.clone()`, and the values that its class stores
        in each object.
        """
        return self.part_of_any((whole,), derived=derived)(part)

    def part_of_any(self, wholes: Collection[Value], *, derived: bool = False) -> Callable[[Value], bool]:
        """A test whether a value is a part of one of several, in time independent of their number."""
        return Group(self, wholes, derived=derived).holds

    def above(self, part: Value, *, derived: bool) -> set[Value]:
        """A value, its wholes, and their wholes in turn, computed once."""
        key = part, derived
        if key not in self._above:
            self._above[key] = self._upward(part, derived=derived)
        return self._above[key]

    def made_of(self, whole: Value) -> set[Value]:
        """The values a module was built from, computed once: the arguments of its class, and their own inputs."""
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
            if derived and (info := class_of(item)) is not None and is_template(item, info):
                stack.extend(self._objects.get(info, ()))
            if (
                isinstance(item, Phi)
                or (isinstance(item, Tensor) and derived and not item.leaf)
                or isinstance(item, kinds)
            ):
                stack.extend(item.parents)
        return seen


class Group:
    """A group of values for repeated questions whether others are parts of them, or contain them."""

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
        """Whether one of several values is a part of a member, or contains one."""
        return any(self.holds(item) or self.is_in(item) for item in others)

    def surely_overlaps(self, others: Iterable[Value], is_module: Callable[[Value], bool]) -> bool:
        """Whether values overlap, and not only because the same setting, such as `args.device`, was given to both."""
        return any(self._surely_holds(item, is_module) or self._is_surely_in(item, is_module) for item in others)

    def _surely_holds(self, part: Value, is_module: Callable[[Value], bool]) -> bool:
        above = self._parts.above(part, derived=self._derived)
        shared = above & self._inside
        is_whole = part in shared or not shared.isdisjoint(self._members) or any(map(is_module, shared))
        return is_whole or (bool(self._classes) and not self._classes.isdisjoint(_templates(above)))

    def _is_surely_in(self, whole: Value, is_module: Callable[[Value], bool]) -> bool:
        if whole in self._above or class_of(whole) in self._templates:
            return True
        shared = self._parts.made_of(whole) & self._above
        return not shared.isdisjoint(self._members) or any(map(is_module, shared))

    @cached_property
    def _above(self) -> set[Value]:
        """The members, and the values they are parts of."""
        return set[Value]().union(*(self._parts.above(item, derived=self._derived) for item in self._members))

    @cached_property
    def _templates(self) -> set[ClassInfo]:
        """The classes whose objects all have a member as a part."""
        return _templates(self._above)


def _made_of(whole: Value) -> set[Value]:
    """The values a module was built from: the arguments of its class, and the values these were built from."""
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
    """The classes whose objects one of these values represents."""
    known = ((item, class_of(item)) for item in values)
    return {info for item, info in known if info is not None and is_template(item, info)}


def is_template(item: Value, info: ClassInfo) -> bool:
    """Whether a value represents all objects of a class."""
    return item.site is not None and item.site.written == site_of(info.node).written

"""What values are parts of others: attributes, elements, what `__init__` stores, and what a class was handed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

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
        given = set(wholes).union(*map(_made_of, wholes))
        by_class = {class_of(whole): whole for whole in wholes}

        def is_part(part: Value) -> bool:
            for item in self._upward(part, derived=derived):
                whole = by_class.get(class_of(item))
                if item in given or (whole is not None and _is_template_of(item, whole)):
                    return True
            return False

        return is_part

    def _upward(self, part: Value, *, derived: bool) -> Iterator[Value]:
        """A value, what it is a part of, and so on."""
        kinds = (*_PART, CallResult, UnknownObject) if derived else _PART
        seen: set[Value] = set()
        stack = [part]
        while stack:
            item = stack.pop()
            if item in seen:
                continue
            yield item
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


def _is_template_of(item: Value, whole: Value) -> bool:
    """Whether a value stands for all objects of the class that another is an object of."""
    info = class_of(whole)
    return info is not None and class_of(item) is info and _is_template(item, info)


def _is_template(item: Value, info: ClassInfo) -> bool:
    return item.site is not None and item.site.written == site_of(info.node).written

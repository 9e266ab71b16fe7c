"""Methods of Python's containers: the values they keep, and the values they return."""

from __future__ import annotations

import ast

from torchlint.model.arguments import Arguments, MethodHandler, called_attribute
from torchlint.model.definitions import ClassInfo, FunctionInfo
from torchlint.model.events import Keep, Keeping
from torchlint.model.heap import Change
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.elements import Elements
from torchlint.model.utilities import RecordClass
from torchlint.model.values import (
    Container,
    Dict,
    External,
    Generator,
    Instance,
    List,
    Meter,
    Module,
    Object,
    Phi,
    Plain,
    Tensor,
    Tuple,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.syntax.python_ast import called_name, dotted, site_of


class Containers(Part):
    """Calls methods of containers."""

    def __init__(self, machine: Machine, elements: Elements) -> None:
        super().__init__(machine)
        self.elements = elements

    def handlers(self) -> dict[str, MethodHandler]:
        """Methods that a container may have, by name."""
        return {
            "append": self._append, "appendleft": self._append, "add": self._append,
            "extend": self._extend, "insert": self._insert, "clear": self._clear,
        }  # fmt: skip

    def call(self, receiver: Container, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """A method call on a known container."""
        if name == "items":
            pair = Tuple(node, (Plain(node), self.elements.lookup(receiver, None, node)))
            return self.state.stamp(Generator(node, (self.state.stamp(pair),)))
        if name in ("values", "copy"):
            return receiver
        if name in ("reverse", "sort", "remove", "rotate"):
            receiver.unsure = True
        if name in ("remove", "popitem"):
            self.state.change(receiver, Change.TAKEN, node)
        if name in ("get", "pop", "setdefault", "popleft"):
            key = arguments.positional[0] if arguments.positional else None
            literal = key.constant if isinstance(key, Plain) and key.is_literal else None
            if name == "pop" and key is None:
                literal = -1
            if name == "setdefault" and len(arguments.positional) == 2:
                self.put_once(receiver, literal, arguments.positional[1])
            found = self.elements.lookup(receiver, literal, node)
            if name.startswith("pop"):
                self.take_out(receiver, 0 if name == "popleft" else literal, node)
            return found
        if name == "update" and isinstance(receiver, Meter) and arguments.positional:
            assert isinstance(node.func, ast.Attribute)
            self.state.emit(
                Keep(site_of(node), receiver, arguments.positional[0], Keeping.ADD, dotted(node.func.value))
            )
        if name == "update" and isinstance(receiver, Dict):
            self._update(receiver, arguments, node)
        return Plain(node)

    def record(self, made: RecordClass, arguments: Arguments, node: ast.Call) -> Value | None:
        """An instance of a class that `namedtuple` made: a tuple with names; None if a field's value is not known."""
        values = [arguments.get(place, name) for place, name in enumerate(made.fields)]
        known = tuple(value for value in values if value is not None)
        if not known or len(known) < len(values) or arguments.starred:
            return None
        record = self.state.stamp(Tuple(node, known))
        for name, value in zip(made.fields, known, strict=True):
            record.set_part(name, value)
        return record

    def _update(self, receiver: Container, arguments: Arguments, node: ast.Call) -> None:
        """`receiver.update(...)`: a new entry replaces the one with the same key, if the call is certain to happen."""
        given = dict(arguments.keywords)
        for value in (*arguments.positional, *arguments.starred):
            inner = resolved(value)
            if isinstance(inner, Container) and len(inner.parents) == 1 and _goes_over_itself(node):
                given |= {key: inner.parents[0] for key in receiver.entries if isinstance(key, str)}
                continue
            if isinstance(inner, Container):
                given = {key: item for key, item in inner.entries.items() if isinstance(key, str)} | given
            for item in inner.parents if isinstance(inner, Container) else [value]:
                receiver.add(item)
        for key, value in given.items():
            self.state.change(receiver, Change.SET, node, value, key, receiver.part(key))
            if self._is_sure(receiver):
                receiver.set_part(key, value)
            else:
                receiver.add(value)

    def take_out(self, receiver: Container, key: object, node: ast.AST) -> None:
        """Take an element out of a container, by key or index. If that may not happen, the order becomes unknown."""
        self.state.change(receiver, Change.TAKEN, node)
        if not self._is_sure(receiver):
            receiver.unsure |= isinstance(receiver, List)
            return
        if isinstance(receiver, Dict) and receiver.part(key) is not None:
            receiver.set_part(key, Plain(node))
        elif isinstance(receiver, List) and not receiver.unsure and receiver.element_at(key) is not None:
            assert isinstance(key, int)
            rest = [*receiver.parents]
            del rest[key]
            receiver.parents = tuple(rest)
        else:
            receiver.unsure |= isinstance(receiver, List)

    def _is_sure(self, receiver: Container) -> bool:
        """Whether a change here surely happens, once for each container created at its place."""
        here = self.state.position
        return receiver.loops == here.loops and receiver.branches == len(here.path)

    def put_once(self, receiver: Container, key: object, value: Value) -> None:
        """`receiver.setdefault(key, value)`, with key None if not known.

        The stored value stays as long as the receiver.
        """
        known = isinstance(key, str) and receiver.part(key) is not None
        if known or (key is None and any(isinstance(item, Container) for item in receiver.elements())):
            return
        if isinstance(value, Container):
            value.loops = receiver.loops
        if isinstance(key, str):
            receiver.set_part(key, value)
        else:
            receiver.add(value)

    def _append(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        if len(arguments.positional) == 1 and isinstance(receiver, Module):
            self.observations.appended.append((receiver, arguments.positional[0]))
        if len(arguments.positional) != 1 or isinstance(receiver, (Tensor, Module, External, Plain)):
            return None
        value = arguments.positional[0]
        for item in inputs_of(receiver):
            if isinstance(item, Container):
                item.add(value)
                self.state.change(item, Change.PUT, node, value)
                item.unsure |= len(self.state.position.path) > item.branches
        known = isinstance(receiver, Container) or called_attribute(node) != "add"
        if known and isinstance(receiver, (Container, Unknown, Phi)):
            assert isinstance(node.func, ast.Attribute)
            kept = self._contents(value, node)
            self.state.emit(Keep(site_of(node), receiver, kept, Keeping.APPEND, _name(node.func.value)))
        return Plain(node, None)

    def _clear(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """Empty a container, or one of several, such as each list of a dictionary in turn."""
        emptied = [item for item in inputs_of(receiver) if isinstance(item, Container)]
        if isinstance(receiver, Phi) and receiver.source is not None:
            emptied.append(receiver.source)
        for container in emptied:
            self.state.change(container, Change.EMPTIED, node)
            self.state.emit(Keep(site_of(node), container, Plain(node), Keeping.CLEAR, ""))
        return Plain(node) if isinstance(receiver, Container) else None

    def _contents(self, value: Value, node: ast.Call) -> Value:
        """The values an object of a class of this program holds: its attributes, or without `__init__` its arguments.

        Returns other values unchanged, also an object that may have changed its arguments.
        """
        made = resolved(value)
        if not isinstance(made, Instance) or self._changes_what_it_is_given(made.info):
            return value
        held = [part for (owner, _), part in self.state.heap.items() if owner is made]
        if not held and made.info.method("__init__") is None:
            held = list(made.parents)
        return self.state.stamp(Object(node, tuple(held)))

    def _changes_what_it_is_given(self, info: ClassInfo) -> bool:
        """Whether more than `__init__` builds objects of a class: `__post_init__`, `__new__`, or a decorator."""
        names = (dotted(item.func if isinstance(item, ast.Call) else item) for item in info.node.decorator_list)
        decorated = any(isinstance(info.definitions.defined(name), FunctionInfo) for name in names)
        return decorated or any(info.method(name) is not None for name in ("__post_init__", "__new__"))

    def _extend(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        if len(arguments.positional) == 1 and isinstance(receiver, Module):
            self.observations.appended.append((receiver, arguments.positional[0]))
        if len(arguments.positional) != 1 or isinstance(receiver, (Tensor, Module, External, Plain)):
            return None
        inner = resolved(arguments.positional[0])
        rows = [self.elements.iterate(inner, node)] if isinstance(inner, Tensor) else []
        for item in inner.elements() if isinstance(inner, Container) else rows:
            self._append(receiver, Arguments([item], {}, []), node)
        if isinstance(receiver, List) and not (isinstance(inner, Container) and not inner.unsure):
            receiver.unsure = True
        return Plain(node, None)

    def _insert(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        if len(arguments.positional) != 2:
            return None
        if isinstance(receiver, List):
            receiver.unsure = True
        return self._append(receiver, Arguments(arguments.positional[1:], {}, []), node)


def _goes_over_itself(update: ast.Call) -> bool:
    """Whether an update iterates over its own receiver: `logs.update({k: v.item() for k, v in logs.items()})`."""
    made = update.args[0] if update.args else None
    over = made.generators[0].iter if isinstance(made, ast.DictComp) and not made.generators[0].ifs else None
    if not isinstance(over, ast.Call) or called_name(over) != "items":
        return False
    assert isinstance(update.func, ast.Attribute)
    return isinstance(over.func, ast.Attribute) and dotted(over.func.value) == dotted(update.func.value) != ""


def _name(owner: ast.expr) -> str:
    """The name of a container, or of the container from which `metrics.setdefault(key, [])` takes it."""
    if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute):
        return dotted(owner.func.value)
    return dotted(owner)

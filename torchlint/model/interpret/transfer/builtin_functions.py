"""Calls of Python's own functions, and their effects on tensors, modules and containers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from torchlint.model.arguments import Arguments
from torchlint.model.heap import Change
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.attributes import Attributes
from torchlint.model.interpret.transfer.elements import Elements
from torchlint.model.interpret.transfer.tensors import Tensors
from torchlint.model.values import (
    CallResult,
    Component,
    Container,
    Dict,
    Generator,
    List,
    Parameters,
    Phi,
    Plain,
    Super,
    Tuple,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import api, operators


class BuiltinFunctions(Part):
    """Evaluates calls of builtins."""

    def __init__(self, machine: Machine, tensors: Tensors, attributes: Attributes, elements: Elements) -> None:
        super().__init__(machine)
        self.tensors = tensors
        self.attributes = attributes
        self.elements = elements
        self._handlers: dict[str, Callable[[Arguments, ast.Call], Value | None]] = {
            "sum": self._call_sum, "max": self._call_sum, "min": self._call_sum, "abs": self._call_abs,
            "enumerate": self._call_enumerate, "zip": self._call_zip, "map": self._call_map,
            "filter": self._call_filter,
            "dict": self._call_dict, "list": self._call_list, "set": self._call_list,
            "super": self._call_super, "getattr": self._call_getattr,
            "setattr": self._call_setattr,
        }  # fmt: skip

    def call(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """A call of one of Python's own functions."""
        handler = self._handlers.get(name)
        if handler is not None:
            result = handler(arguments, node)
            if result is not None:
                return result
        if name in api.PASSING_BUILTINS and arguments.positional:
            first = resolved(arguments.positional[0])
            if name == "next":
                return self.elements.iterate(first, node)
            if isinstance(first, (Parameters, Unknown)):
                return first
            inside = tuple(first.elements()) if isinstance(first, Container) else (self.elements.iterate(first, node),)
            copied = self.state.stamp((Tuple if name == "tuple" else List)(node, inside))
            copied.is_open = copied.unsure = isinstance(first, Container) and first.is_open
            return copied
        if name == "vars" and arguments.positional:
            self.state.change(resolved(arguments.positional[0]), Change.UNKNOWN, node, by=name)
        if name in _PLAIN_BUILTINS:
            return self.tensors.number(name, tuple(arguments.positional), node)
        return self.state.stamp(CallResult(node, arguments.all(), name, None, self.state.mode))

    def _call_sum(self, arguments: Arguments, node: ast.Call) -> Value | None:
        if not arguments.positional:
            return None
        for item in inputs_of(arguments.positional[0]):
            if isinstance(item, Component):
                item.used_as("sum()")
        return self._call_abs(arguments, node)

    def _call_abs(self, arguments: Arguments, node: ast.Call) -> Value | None:
        if not arguments.positional:
            return None
        return self.tensors.make(operators.ADD, (resolved(arguments.positional[0]),), node)

    def _call_enumerate(self, arguments: Arguments, node: ast.Call) -> Value | None:
        if not arguments.positional:
            return None
        pair = Tuple(node, (Plain(node), self.elements.iterate(arguments.positional[0], node)))
        return self._rows(pair, arguments, node)

    def _call_map(self, arguments: Arguments, node: ast.Call) -> Value | None:
        if len(arguments.positional) != 2:
            return None
        element = self.elements.iterate(arguments.positional[1], node)
        result = self.machine.call(arguments.positional[0], Arguments([element], {}, []), node)
        return self.state.stamp(Generator(node, (result,)))

    def _call_filter(self, arguments: Arguments, node: ast.Call) -> Value | None:
        """`filter(lambda p: p.requires_grad, model.parameters())`: the parameters that are not frozen."""
        asked = node.args[0].body if node.args and isinstance(node.args[0], ast.Lambda) else None
        if len(arguments.positional) != 2 or not isinstance(asked, ast.Attribute) or asked.attr != "requires_grad":
            return None
        given = resolved(arguments.positional[1])
        return given if isinstance(given, Parameters) else None

    def _call_zip(self, arguments: Arguments, node: ast.Call) -> Value | None:
        if len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
            return self._columns([resolved(item) for item in arguments.positional], node)
        row = Tuple(node, tuple(self.elements.iterate(item, node) for item in arguments.positional))
        return self._rows(row, arguments, node)

    def _rows(self, row: Container, arguments: Arguments, node: ast.Call) -> Value:
        """The iterable of a loop that draws a row from each of its arguments."""
        made = self.state.stamp(Generator(node, (self.state.stamp(row),)))
        made.draw_from(arguments.positional)
        return made

    def _columns(self, rows: list[Value], node: ast.Call) -> Value | None:
        """`inputs, targets = zip(*pairs)`; None if the argument holds no pairs."""
        tuples = [item for item in rows if isinstance(item, Tuple)]
        if not tuples or len(tuples) < len(rows) or len({len(item.parents) for item in tuples}) > 1:
            return None
        columns = (Tuple(node, parts) for parts in zip(*(item.parents for item in tuples), strict=True))
        return self.state.stamp(Tuple(node, tuple(map(self.state.stamp, columns))))

    def _call_dict(self, arguments: Arguments, node: ast.Call) -> Value | None:
        given = [item for value in arguments.positional for item in _values_of_pairs(resolved(value))]
        copied = [item for item in given if isinstance(item, Dict)]
        made = self.state.stamp(Dict(node, copied[0].parents if copied else tuple(given)))
        made.branches = len(self.state.position.path)
        made.set_parts((copied[0].entries if copied else {}) | arguments.keywords)
        return made

    def _call_list(self, arguments: Arguments, node: ast.Call) -> Value | None:
        return self.state.stamp(List(node)) if not arguments.all() else None

    def _call_setattr(self, arguments: Arguments, node: ast.Call) -> Value | None:
        if len(arguments.positional) != 3:
            return None
        owner, name, value = arguments.positional
        known = resolved(name)
        if isinstance(known, Plain) and isinstance(known.constant, str):
            self.attributes.set(resolved(owner), known.constant, value, node)
        else:
            self.attributes.set_some(resolved(owner), value, node)
        return Plain(node, None)

    def _call_super(self, arguments: Arguments, node: ast.Call) -> Value | None:
        return self.state.stamp(Super(node, (), "super"))

    def _call_getattr(self, arguments: Arguments, node: ast.Call) -> Value | None:
        if len(arguments.positional) < 2:
            return None
        name = resolved(arguments.positional[1])
        if isinstance(name, Plain) and isinstance(name.constant, str):
            return self.attributes.read(arguments.positional[0], name.constant, node)
        return None


_PLAIN_BUILTINS = frozenset(
    (
        "len int float str bool range print isinstance hasattr type id repr round format open input bin hex "
        "ord chr hash callable any all divmod pow bytes vars dir issubclass setattr delattr globals locals"
    ).split()
)


def _values_of_pairs(given: Value) -> Iterable[Value]:
    """The values a dictionary takes from a generator of pairs; any other argument unchanged."""
    pair = given.parents[0] if isinstance(given, Generator) and given.parents else None
    if not isinstance(pair, Tuple) or len(pair.parents) != 2:
        return (given,)
    value = pair.parents[1]
    return value.parents if isinstance(value, Phi) and value.source is not None else (value,)

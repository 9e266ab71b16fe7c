"""Calls of Python's own functions: what they make of tensors, modules and containers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import ClassVar

from torchlint import knowledge
from torchlint.model.externals import Externals
from torchlint.model.summaries import Arguments
from torchlint.model.values import (
    Container,
    Parameters,
    Plain,
    Unknown,
    Value,
    resolved,
)


class BuiltinCalls(Externals):
    """Evaluates calls of builtins."""

    def builtin(self, name: str, arguments: Arguments, node: ast.Call) -> Value:
        handler = self._builtins.get(name)
        if handler is not None:
            result = handler(self, arguments, node)
            if result is not None:
                return result
        if name in knowledge.PASSING_BUILTINS and arguments.positional:
            first = resolved(arguments.positional[0])
            if name == "next":
                return self.iterated(first, node)
            if isinstance(first, (Parameters, Unknown)):
                return first
            inside = tuple(first.elements()) if isinstance(first, Container) else (self.iterated(first, node),)
            return self.made(Container(node, name if name == "tuple" else "list", inside))
        if name in _PLAIN_BUILTINS:
            return Plain(node)
        return self.made(Unknown(node, "call", arguments.all(), name, None, self.mode))

    def _builtin_sum(self, arguments: Arguments, node: ast.Call) -> Value | None:
        if not arguments.positional:
            return None
        first = resolved(arguments.positional[0])
        return self.made_tensor("add", (first,), node)

    def _builtin_enumerate(self, arguments: Arguments, node: ast.Call) -> Value | None:
        if not arguments.positional:
            return None
        pair = Container(node, "tuple", (Plain(node), self.iterated(arguments.positional[0], node)))
        return self.made(Container(node, "generator", (self.made(pair),)))

    def _builtin_map(self, arguments: Arguments, node: ast.Call) -> Value | None:
        if len(arguments.positional) != 2:
            return None
        element = self.iterated(arguments.positional[1], node)
        result = self.call_value(arguments.positional[0], Arguments([element], {}, []), node)
        return self.made(Container(node, "generator", (result,)))

    def _builtin_zip(self, arguments: Arguments, node: ast.Call) -> Value | None:
        row = Container(node, "tuple", tuple(self.iterated(item, node) for item in arguments.positional))
        return self.made(Container(node, "generator", (self.made(row),)))

    def _builtin_dict(self, arguments: Arguments, node: ast.Call) -> Value | None:
        made = self.made(Container(node, "dict", tuple(arguments.positional)))
        for key, value in arguments.keywords.items():
            made.set_part(key, value)
        return made

    def _builtin_list(self, arguments: Arguments, node: ast.Call) -> Value | None:
        return self.made(Container(node, "list")) if not arguments.all() else None

    def _builtin_super(self, arguments: Arguments, node: ast.Call) -> Value | None:
        return self.made(Unknown(node, "super", (), "super"))

    def _builtin_getattr(self, arguments: Arguments, node: ast.Call) -> Value | None:
        if len(arguments.positional) < 2:
            return None
        name = resolved(arguments.positional[1])
        if isinstance(name, Plain) and isinstance(name.constant, str):
            return self.attribute_of(arguments.positional[0], name.constant, node)
        return None

    _builtins: ClassVar[dict[str, Callable[..., Value | None]]] = {
        "sum": _builtin_sum, "max": _builtin_sum, "min": _builtin_sum, "abs": _builtin_sum,
        "enumerate": _builtin_enumerate, "zip": _builtin_zip, "map": _builtin_map,
        "dict": _builtin_dict, "list": _builtin_list,
        "set": _builtin_list, "super": _builtin_super, "getattr": _builtin_getattr,
    }  # fmt: skip


_PLAIN_BUILTINS = frozenset(
    (
        "len int float str bool range print isinstance hasattr type id repr round format open input bin hex "
        "ord chr hash callable any all divmod pow bytes vars dir issubclass setattr delattr globals locals"
    ).split()
)

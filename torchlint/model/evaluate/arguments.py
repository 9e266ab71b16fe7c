"""The arguments of a call, evaluated."""

from __future__ import annotations

import ast
from collections.abc import Callable

from torchlint.model.values import Plain, Value, resolved


class Arguments:
    """The evaluated arguments of a call."""

    def __init__(self, positional: list[Value], keywords: dict[str, Value], starred: list[Value]) -> None:
        self.positional = positional
        self.keywords = keywords
        self.starred = starred

    def get(self, index: int, name: str) -> Value | None:
        """The argument at a position or under a keyword."""
        if name in self.keywords:
            return self.keywords[name]
        return self.positional[index] if index < len(self.positional) else None

    def all(self) -> tuple[Value, ...]:
        return (*self.positional, *self.keywords.values(), *self.starred)


MethodHandler = Callable[[Value, Arguments, ast.Call], Value | None]


def flag(arguments: Arguments, name: str) -> bool | None:
    """The literal of a keyword argument that is False by default; None where a variable decides."""
    value = arguments.keywords.get(name)
    if value is None:
        return False
    value = resolved(value)
    return bool(value.constant) if isinstance(value, Plain) and value.is_literal else None


def first_argument(call: ast.Call) -> ast.expr:
    """What is written first between the brackets of a call that has an argument."""
    return call.args[0] if call.args else call.keywords[0].value


def called_attribute(call: ast.Call) -> str:
    """The name of the method that a call calls, or an empty string."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""

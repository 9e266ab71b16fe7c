"""The arguments of a call, evaluated."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from torchlint.model.definitions import FunctionInfo, defaults_of
from torchlint.model.values import Function, Module, Plain, Value, resolved
from torchlint.pytorch import table
from torchlint.pytorch.autograd_table import OPERATORS
from torchlint.pytorch.binding import Bound, Parameters, bind


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

    def bind(self, parameters: Parameters, receiver: Value | None = None) -> Bound[Value]:
        """The arguments by the parameters that take them; the receiver of a method is the first."""
        return bind(parameters, self.positional, self.keywords, starred=self.starred, receiver=receiver)

    def operands(self, operator: str, node: ast.AST, receiver: Value | None = None) -> tuple[Value, ...]:
        """The operands of an operator in the order of its parameters, for a call of the function or of the method."""
        ordered = self.all() if receiver is None else (receiver, *self.all())
        known = OPERATORS.get(operator)
        if known is None or self.starred:
            return ordered
        parameters = table.operands(known.parameters)
        if not any(parameters.name_of(keyword) in parameters.positional for keyword in self.keywords):
            return ordered
        bound = self.bind(parameters, receiver)
        last = max(index for index, name in enumerate(parameters.positional) if name in bound.values)
        named = parameters.positional[: last + 1]
        others = (value for name, value in bound.values.items() if name not in named)
        return (*(bound.get(name) or Plain(node) for name in named), *others, *bound.rest)

    def flags(self, method: FunctionInfo) -> Flags:
        """The flags that a method's parameters receive or have by default: `None`, `True`, `False` or a word."""
        if self.starred:
            return frozenset()
        given = self._given(method)
        found = {name: value.constant for name, value in _literals(given)}
        left = {name: node for name, node in defaults_of(method.node).items() if name not in given}
        found |= {name: node.value for name, node in left.items() if isinstance(node, ast.Constant)}
        return frozenset((name, flag) for name, flag in found.items() if flag is None or isinstance(flag, (bool, str)))

    def modules(self, method: FunctionInfo) -> dict[str, Module]:
        """The modules that a method's parameters receive."""
        given = {} if self.starred else self._given(method)
        return {name: module for name, value in given.items() if isinstance(module := resolved(value), Module)}

    def _given(self, method: FunctionInfo) -> dict[str, Value]:
        """The arguments by the parameters of a method that is called on an object."""
        names = method.parameters[1:]
        return {name: value for index, name in enumerate(names) if (value := self.get(index, name)) is not None}

    def all(self) -> tuple[Value, ...]:
        return (*self.positional, *self.keywords.values(), *self.starred)

    def all_from(self, first: str) -> tuple[Value, ...]:
        """All arguments, that of the first parameter first, even if the call passes it by keyword after others."""
        named = sorted(self.keywords, key=lambda name: name != first)
        return (*self.positional, *(self.keywords[name] for name in named), *self.starred)


Flags = frozenset[tuple[str, bool | str | None]]
"""Parameters, or attributes, that are `None`, `True`, `False` or a word."""
MethodHandler = Callable[[Value, Arguments, ast.Call], Value | None]


def takes(function: Function, arguments: Arguments) -> bool:
    """Whether a function accepts these arguments, as far as torchlint knows.

    If not, the call raises or goes to another function. A decorator may change the parameters.
    """
    info, written = function.info, function.info.node.args
    if info.decorators or arguments.starred:
        return True
    given = len(arguments.positional) + (info.is_method and function.receiver is not None)
    by_position = [item.arg for item in (*written.posonlyargs, *written.args)]
    wanted = [name for name in info.parameters if name not in by_position[:given]]
    missing = set(wanted) - arguments.keywords.keys() - defaults_of(info.node).keys()
    takes_all = given <= len(by_position) or written.vararg is not None
    knows_all = written.kwarg is not None or arguments.keywords.keys() <= {*info.parameters}
    return not missing and takes_all and knows_all


def flag(bound: Bound[Value], parameter: str) -> bool | None:
    """The literal value of an argument whose default is False; None if a variable decides."""
    value = bound.get(parameter)
    if value is None:
        return False if bound.complete else None
    value = resolved(value)
    return bool(value.constant) if isinstance(value, Plain) and value.is_literal else None


def is_true(value: Value | None) -> bool:
    """Whether an argument is the literal `True`."""
    return isinstance(value, Plain) and value.constant is True


def is_false(value: Value | None) -> bool:
    """Whether an argument is the literal `False`."""
    return isinstance(value, Plain) and value.constant is False


def written(call: ast.Call, parameters: Parameters, parameter: str, *, method: bool = False) -> ast.expr | None:
    """The expression that a call passes for a parameter."""
    keywords = {item.arg: item.value for item in call.keywords if item.arg is not None}
    return bind(parameters, call.args, keywords, receiver=call.func if method else None).get(parameter)


def first_argument(call: ast.Call) -> ast.expr:
    """The first argument of a call that has at least one."""
    return call.args[0] if call.args else call.keywords[0].value


def called_attribute(call: ast.Call) -> str:
    """The name of the method that a call calls, or an empty string."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _literals(given: Mapping[str, Value]) -> Iterator[tuple[str, Plain]]:
    for name, value in given.items():
        plain = resolved(value)
        if isinstance(plain, Plain):
            yield name, plain

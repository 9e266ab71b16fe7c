"""Calls of decorated functions: a call runs the result of the program's decorator."""

from __future__ import annotations

import ast

from torchlint.model.arguments import Arguments
from torchlint.model.definitions import ClassInfo, FunctionInfo
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.unknown_calls import UnknownCalls
from torchlint.model.values import Class, Function, Instance, Value, resolved
from torchlint.model.wrappers import fills_table
from torchlint.syntax.python_ast import dotted, elsewhere_of

_CHOOSING = ("singledispatch", "singledispatchmethod", "overload")
"""Decorators that dispatch on the types of arguments."""


class Decorators(Part):
    """Calls functions through their decorators; decorators of other packages count as transparent."""

    def __init__(self, machine: Machine, unknown_calls: UnknownCalls) -> None:
        super().__init__(machine)
        self.unknown_calls = unknown_calls

    def call(self, function: Function, arguments: Arguments, node: ast.Call) -> Value | None:
        """The result of calling a function through the program's decorators; None if it has none."""
        info = function.info
        if function.bare or not info.decorators:
            return None
        handed = self._with_receiver(function, arguments)
        if any(map(info.has_decorator, _CHOOSING)):
            return self.unknown_calls.call(function, info.name, handed.all(), node)
        followed = [item for item in info.decorators if self._is_followed(item, info)]
        if not followed:
            return None
        made = self._made_by(followed, function, node)
        if not isinstance(made, (Function, Instance, Class)):
            return self.unknown_calls.call(function, info.name, handed.all(), node)
        return self.machine.call(made, handed, node)

    def _with_receiver(self, function: Function, arguments: Arguments) -> Arguments:
        if function.receiver is None or not function.info.is_method:
            return arguments
        return Arguments([function.receiver, *arguments.positional], arguments.keywords, arguments.starred)

    def _is_followed(self, decorator: ast.expr, info: FunctionInfo) -> bool:
        """Whether a decorator is a function of the program, except registering ones and called classes."""
        found = info.definitions.defined(dotted(decorator.func if isinstance(decorator, ast.Call) else decorator))
        if isinstance(found, ClassInfo):
            return found.method("__call__") is not None
        if found is None or found is info or fills_table(found) or found.has_decorator("contextmanager"):
            return False
        return self.state.can_inline(found)

    def _made_by(self, decorators: list[ast.expr], function: Function, node: ast.Call) -> Value:
        """The result of applying decorators, the last one first, to a function where it is defined."""
        caller, before = self.state.frame, self.machine.visit.at
        if caller.definitions is self.machine.own and elsewhere_of(node) is None:
            self.machine.visit.at = node
        self.state.frame = function.frame or self.state.frame_of(function.info.definitions)
        made: Value = Function(function.info, function.frame, None, function.mode, bare=True)
        for decorator in reversed(decorators):
            callee = self.machine.value(decorator)
            made = resolved(self.machine.call(callee, Arguments([made], {}, []), node))
        self.state.frame, self.machine.visit.at = caller, before
        return made

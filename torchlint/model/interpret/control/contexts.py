"""Context managers of the program: generators whose `yield` runs the block, or classes."""

from __future__ import annotations

import ast
from collections.abc import Callable

from torchlint.model.arguments import Arguments
from torchlint.model.definitions import FunctionInfo
from torchlint.model.interpret.expressions.calls import Calls
from torchlint.model.interpret.expressions.targets import Targets
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.values import CallResult, Function, Instance, Plain, Value, resolved
from torchlint.model.wrappers import wrapped_mode, yields_of
from torchlint.syntax.python_ast import walk


class Contexts(Part):
    """Runs blocks in context managers."""

    def __init__(self, machine: Machine, calls: Calls, targets: Targets) -> None:
        super().__init__(machine)
        self.calls = calls
        self.targets = targets

    def manage(self, item: ast.withitem, block: Callable[[], None]) -> bool:
        """Run a block inside the generator made for it; returns whether the item names one that can be followed."""
        call = item.context_expr
        function = self._generator(call) if isinstance(call, ast.Call) else None
        if function is None or not isinstance(call, ast.Call):
            return False
        with self.state.block():
            if len(list(yields_of(function.info))) == 1:
                self._run_around(function, call, item, block)
            else:
                self._run_in_one_mode(function, call, item, block)
        return True

    def _run_in_one_mode(
        self, function: Function, call: ast.Call, item: ast.withitem, block: Callable[[], None]
    ) -> None:
        """Run the block once, in the mode common to all yields of a generator, or in an unknown mode."""
        arguments, mode = self.calls.arguments(call), self.state.mode
        self.state.mode = wrapped_mode(function.info) or mode
        if item.optional_vars is not None:
            value = CallResult(item, arguments.all(), "", function, mode)
            self.targets.assign(item.optional_vars, self.state.stamp(value))
        block()

    def _run_around(self, function: Function, call: ast.Call, item: ast.withitem, block: Callable[[], None]) -> None:
        """Interpret a generator with one `yield`, and the block at that point."""
        state, caller, position, goes_on = self.state, self.state.frame, self.state.position, list[bool]()

        def run(value: Value) -> None:
            callee = state.frame
            here = position._replace(path=state.position.path, passed=state.position.passed)
            with state.at(here, state.items):
                state.frame = caller
                if item.optional_vars is not None:
                    self.targets.assign(item.optional_vars, value)
                block()
                goes_on.append(state.alive)
                state.frame = callee

        self.machine.inline(function, self.calls.arguments(call), call, run)
        if not goes_on:
            block()
        elif not goes_on[0]:
            state.alive = False

    def _generator(self, call: ast.Call) -> Function | None:
        """The generator of a context manager that a call makes."""
        if not all(isinstance(node, (ast.Name, ast.Attribute)) for node in walk(call.func)):
            return None  # callees on the way are not interpreted twice
        callee = resolved(self.machine.value(call.func))
        if not isinstance(callee, Function) or not callee.info.is_generator:
            return None
        manages = callee.info.has_decorator("contextmanager")
        return callee if manages and self.state.can_inline(callee.info) else None

    def entered(self, context: Value, node: ast.AST) -> Value | None:
        """The return value of an object's `__enter__`; None if the program does not define it."""
        method = self._method(context, "__enter__")
        if method is None:
            return None
        return self.machine.inline(self.state.bound(method, context), Arguments([], {}, []), node)

    def left(self, context: Value, node: ast.AST) -> None:
        """Run the `__exit__` of an object, if the block reaches its end."""
        method = self._method(context, "__exit__")
        if method is not None and self.state.alive:
            nothing: list[Value] = [Plain(node, None) for _ in range(3)]
            self.machine.inline(self.state.bound(method, context), Arguments(nothing, {}, []), node)

    def _method(self, context: Value, name: str) -> FunctionInfo | None:
        context = resolved(context)
        method = context.info.method(name) if isinstance(context, Instance) else None
        return method if method is not None and self.state.can_inline(method) else None

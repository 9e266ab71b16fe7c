"""Calls of functions: the body is interpreted in place, with the caller's values."""

from __future__ import annotations

import ast
from collections.abc import Callable

from torchlint.model.arguments import Arguments
from torchlint.model.definitions import FunctionInfo, defaults_of
from torchlint.model.events import Backward, Clear, Inlined, Item, ModeSwitch, Step, events_in, without_yields
from torchlint.model.frames import Frame
from torchlint.model.interpret.machine import Part
from torchlint.model.interpret.transfer.grad_modes import decorated_mode
from torchlint.model.position import Snapshot
from torchlint.model.utilities import is_utility
from torchlint.model.values import (
    CallResult,
    Dict,
    External,
    Function,
    Generator,
    Parameter,
    Plain,
    Tuple,
    Unknown,
    Value,
    inputs_of,
)
from torchlint.syntax.python_ast import elsewhere_of, site_of

_TRAINING = (Backward, Clear, Step)


class Functions(Part):
    """Interprets calls of functions."""

    def inline(
        self, function: Function, arguments: Arguments, node: ast.AST, block: Callable[[Value], None] | None = None
    ) -> Value:
        """Interpret a function's body at a call and return its result.

        At the `yield` of a context manager, the `block` of its `with` statement runs.
        """
        info, state = function.info, self.state
        self.observations.interpreted.add(info)
        frame = Frame(info, function.frame, len(state.entered_from), called=True)
        frame.block = block
        self._bind_parameters(frame, function, arguments)
        caller, mode, items, start = state.frame, state.mode, list[Item](), state.clock
        attributes = self._attributes(function)
        decorated = function.mode or decorated_mode(info, self.state)
        before = self.machine.visit.at
        if caller.definitions is self.machine.own and elsewhere_of(node) is None:
            self.machine.visit.at = node
        with state.at(state.position.in_call(site_of(node), info, mode), items):
            state.frame, state.mode = frame, decorated or mode
            state.callers.append(caller)
            self.run_body(info, frame)
            state.callers.pop()
            self._return_to(caller)
        self.machine.visit.at = before
        if decorated is not None:
            state.mode = mode
        result = self._returned(frame, node)
        if decorated is None and {switched for switched, _ in frame.yields} - {mode} and len(frame.yields) == 1:
            self.observations.suspended[result] = frame.yields[0]
        if info.definitions is not caller.definitions and self._is_vague(result, start):
            result = state.stamp(CallResult(node, arguments.all(), "", External(node, info.name), state.mode))
        if info.is_generator and (done := [item for item in events_in(items) if isinstance(item, (Clear, ModeSwitch))]):
            self.observations.yielding[site_of(node)] = done
        if function.receiver is not None and self._attributes(function) != attributes:
            self.observations.setting[site_of(node)] = function.receiver
        if info.is_generator and not any(isinstance(event, _TRAINING) for event in events_in(items)):
            items = without_yields(items)  # the consumer of its items runs here
        if items:
            state.items.append(Inlined(site_of(node), items, start, result, function.receiver))
        return result

    def _attributes(self, function: Function) -> dict[str, Value]:
        """The attributes of the object of a generator method, which may set them whenever it runs on."""
        if not function.info.is_generator or function.receiver is None:
            return {}
        return {name: value for (owner, name), value in self.state.heap.items() if owner is function.receiver}

    def _is_vague(self, result: Value, start: int) -> bool:
        """Whether the result of another module's function is too vague: its name here says more."""
        made = (item for item in inputs_of(result) if item.order > start)
        return any(isinstance(item, Unknown) and not is_utility(item) for item in made)

    def run_body(self, info: FunctionInfo, frame: Frame) -> None:
        if isinstance(info.node, ast.Lambda):
            frame.returns.append(self.machine.value(info.node.body))
        else:
            self.machine.run(info.node.body)

    def _return_to(self, caller: Frame) -> None:
        """Merge the states at every `return` and at the end of the body into the caller's."""
        state, frame = self.state, self.state.frame
        ends: list[Snapshot] = [*frame.ends, *([state.snapshot()] if state.alive else [])]
        state.frame = caller
        set_here = frame.outer_names if frame.parent is caller else set()
        for end in ends:
            outer = {name: end.locals[name] for name in set_here if name in end.locals}
            end.locals = {**caller.locals, **outer} if outer else caller.locals
        state.alive = True
        if ends:
            state.merge(ends, None)
        frame.ends.clear()

    def _returned(self, frame: Frame, node: ast.AST) -> Value:
        if frame.info is not None and frame.info.is_generator:
            return self.state.stamp(Generator(node, tuple(frame.returns)))
        if not frame.returns:
            return Plain(node, None)
        return self.state.phi(node, frame.returns)

    def _bind_parameters(self, frame: Frame, function: Function, arguments: Arguments) -> None:
        info = function.info
        names = list(info.parameters)
        by_position = len(names) - len(info.node.args.kwonlyargs)
        positional = list(arguments.positional)
        if info.is_method and function.receiver is not None:
            positional.insert(0, function.receiver)
        defaults = defaults_of(info.node)
        for index, name in enumerate(names):
            if index < min(by_position, len(positional)):
                frame.locals[name] = positional[index]
            elif name in arguments.keywords:
                frame.locals[name] = arguments.keywords[name]
            elif name in defaults and not arguments.starred:
                frame.locals[name] = self._default(info, defaults[name])
            else:
                frame.locals[name] = self.state.stamp(Parameter(info.node, tuple(arguments.starred), name))
        rest_of, options_of = info.node.args.vararg, info.node.args.kwarg
        if rest_of is not None:
            rest = Tuple(info.node, (*positional[by_position:], *arguments.starred))
            frame.locals[rest_of.arg] = self.state.stamp(rest)
        if options_of is not None:
            options = self.state.stamp(Dict(info.node, tuple(arguments.starred)))
            for name, value in arguments.keywords.items():
                if name not in names:
                    options.set_part(name, value)
            frame.locals[options_of.arg] = options

    def _default(self, info: FunctionInfo, default: ast.expr) -> Value:
        """The value of a default; its names belong to the module that contains the function."""
        caller = self.state.frame
        if caller.definitions is not info.definitions:
            self.state.frame = self.state.frame_of(info.definitions)
        value = self.machine.value(default)
        self.state.frame = caller
        return value

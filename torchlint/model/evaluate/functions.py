"""Functions where they are called: their bodies are interpreted in place, with the caller's values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from torchlint.model.definitions import ClassInfo, FunctionInfo, all_parameters, defaults_of
from torchlint.model.evaluate.arguments import Arguments, Flags
from torchlint.model.evaluate.part import Part
from torchlint.model.events import Backward, Clear, Inlined, Item, ModeSwitch, Step, events_in, without_yields
from torchlint.model.frames import Frame
from torchlint.model.kinds import note_tensor
from torchlint.model.module_values import GIVEN_TO_FORWARD
from torchlint.model.state import MAX_ELSEWHERE, Snapshot
from torchlint.model.utilities import is_utility
from torchlint.model.values import (
    CallResult,
    Dict,
    External,
    Function,
    Generator,
    Module,
    Optimizer,
    Parameter,
    Plain,
    Tuple,
    Unknown,
    Value,
    inputs_of,
)
from torchlint.model.wrappers import wrapped_mode
from torchlint.pytorch import naming
from torchlint.pytorch.api import GRAD_MODES, SET_GRAD_MODE
from torchlint.pytorch.effects import GradMode
from torchlint.syntax.python_ast import arguments, dotted, elsewhere_of, is_literal, site_of

_TRAINING = (Backward, Clear, Step)
_PLAIN_ANNOTATIONS = frozenset({"int", "float", "str", "bool", "bytes", "Path", "pathlib.Path"})
MAX_DEPTH = 8
"""Calls inlined into each other; deeper ones are unknown."""
MAX_STATEMENTS = 4_000
"""Statements interpreted from one root; beyond that, calls of local functions are unknown."""


class Functions(Part):
    """Interprets functions: where they are called, aside from the program, or with callers unknown."""

    def can_inline(self, info: FunctionInfo) -> bool:
        """Whether a call is followed into a function."""
        state = self.state
        within = state.statements < MAX_STATEMENTS and state.budget > 0
        near = info.definitions is self.own or (self.names.follows and state.elsewhere < MAX_ELSEWHERE)
        return within and near and self.may_nest(info)

    def takes(self, function: Function, arguments: Arguments) -> bool:
        """Whether a function takes these arguments, as far as one can tell: else the call raises, or is of another one.

        A decorator may make it take others.
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

    def may_nest(self, info: FunctionInfo) -> bool:
        """Whether a function is not under way yet, and few others are."""
        under_way = self.state.position.functions
        return info not in under_way and len(under_way) < MAX_DEPTH

    def bound(self, method: FunctionInfo, receiver: Value | None, mode: GradMode | None = None) -> Function:
        """A method of an object or class."""
        return Function(method, self.names.frame_of(method.definitions), receiver, mode)

    def inline(
        self, function: Function, arguments: Arguments, node: ast.AST, block: Callable[[Value], None] | None = None
    ) -> Value:
        """Interpret a function's body at a call; the value is what it returns.

        Where a context manager yields, the `block` of its `with` statement runs.
        """
        info, state = function.info, self.state
        self.observations.interpreted.add(info)
        frame = Frame(info, function.frame, len(state.entered_from), called=True)
        frame.block = block
        self._bind_parameters(frame, function, arguments)
        caller, mode, items, start = state.frame, state.mode, list[Item](), state.clock
        decorated = function.mode or self.decorated_mode(info)
        before = self.visit.at
        if caller.definitions is self.own and elsewhere_of(node) is None:
            self.visit.at = node
        with state.at(state.position.in_call(site_of(node), info, mode), items):
            state.frame, state.mode = frame, decorated or mode
            state.callers.append(caller)
            self._run_body(info, frame)
            state.callers.pop()
            held = tuple(frame.locals.values())
            self._return_to(caller)
        self.visit.at = before
        if decorated is not None:
            state.mode = mode
        result = self._returned(frame, node)
        if decorated is None and {switched for switched, _ in frame.yields} - {mode} and len(frame.yields) == 1:
            self.observations.suspended[result] = frame.yields[0]
        if info.definitions is not caller.definitions and self._is_vague(result, start):
            result = state.stamp(CallResult(node, arguments.all(), "", External(node, info.name), state.mode))
        if info.is_generator and (done := [item for item in events_in(items) if isinstance(item, (Clear, ModeSwitch))]):
            self.observations.yielding[site_of(node)] = done
        if info.is_generator and not any(isinstance(event, _TRAINING) for event in events_in(items)):
            items = without_yields(items)  # whoever takes what it makes does so here
        if items:
            state.items.append(Inlined(site_of(node), items, start, result, function.receiver, held))
        return result

    def _is_vague(self, result: Value, start: int) -> bool:
        """Whether what another module returns is not known well enough: the name that it is given here says more."""
        made = (item for item in inputs_of(result) if item.order > start)
        return any(isinstance(item, Unknown) and not is_utility(item) for item in made)

    def _run_body(self, info: FunctionInfo, frame: Frame) -> None:
        if isinstance(info.node, ast.Lambda):
            frame.returns.append(self.expressions.value(info.node.body))
        else:
            self.statements.run(info.node.body)

    def read_property(self, method: FunctionInfo, owner: Value, node: ast.AST) -> Value:
        """What a property gives: another value at each reading."""
        return self.inline(self.bound(method, owner), Arguments([], {}, []), node)

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
        """The value of a default, whose names are those of the module that the function stands in."""
        caller = self.state.frame
        if caller.definitions is not info.definitions:
            self.state.frame = self.names.frame_of(info.definitions)
        value = self.expressions.value(default)
        self.state.frame = caller
        return value

    def decorated_mode(self, info: FunctionInfo) -> GradMode | None:
        """The grad mode that decorators give a function's body."""
        for decorator in info.decorators:
            call = decorator if isinstance(decorator, ast.Call) else None
            text = dotted(call.func if call is not None else decorator)
            own = info.definitions.defined(text)
            if isinstance(own, FunctionInfo):
                mode = wrapped_mode(own)
                if mode is not None:
                    return mode
                continue
            name = self._alias(text, info) or info.definitions.qualified(text, info.node)
            given = [] if call is None else arguments(call)
            argument = given[0] if given else None
            if name in SET_GRAD_MODE:
                return mode_asked_for(argument, GradMode.ON, GradMode.OFF)
            if name in GRAD_MODES:
                mode = GRAD_MODES[name]
                return mode if argument is None else mode_asked_for(argument, mode, GradMode.ON)
            if naming.SWITCHES_GRADIENTS.search(name.rpartition(".")[2]):
                return GradMode.UNKNOWN
        return None

    def _alias(self, name: str, info: FunctionInfo) -> str:
        """What of PyTorch a module gives a name of its own, `ctx = torch.no_grad`: one of those that it may be."""
        known = self.names.frame_of(info.definitions).locals.get(name)
        meant = (item.name for item in inputs_of(known) if isinstance(item, External)) if known is not None else ()
        return next((name for name in meant if name in GRAD_MODES), "")

    def root_frame(self, info: FunctionInfo, owner: ClassInfo | None = None) -> Frame:
        """A frame for a function whose callers are unknown; of a method for objects of `owner`, if that inherits it."""
        frame, owner = Frame(info, self._enclosing_frame(info)), owner or info.owner
        for index, name in enumerate(info.parameters):
            if index == 0 and info.is_method and owner is not None:
                frame.locals[name] = self.classes.template(owner)
            else:
                frame.locals[name] = self._parameter_value(info, name)
        for star in (info.node.args.vararg, info.node.args.kwarg):
            if star is not None:
                frame.locals[star.arg] = self.state.stamp(Parameter(info.node, (), star.arg))
        return frame

    def _enclosing_frame(self, info: FunctionInfo) -> Frame:
        if info.enclosing is None:
            return self.names.frame_of(info.definitions)
        return self.root_frame(info.enclosing)

    def _parameter_value(self, info: FunctionInfo, name: str) -> Value:
        annotation = next((item.annotation for item in all_parameters(info.node) if item.arg == name), None)
        known = self._annotated_value(info, annotation, name) if annotation is not None else None
        if known is not None:
            return known
        made = self.state.stamp(Parameter(info.node, (), name))
        if info.takes_tensor(name):
            note_tensor(made)
        if info.name == "forward" and info.is_method:
            made.used_as(GIVEN_TO_FORWARD)
        return made

    def _annotated_value(self, info: FunctionInfo, annotation: ast.expr, name: str) -> Value | None:
        text = dotted(annotation)
        qualified = info.definitions.qualified(text, info.node)
        if text in _PLAIN_ANNOTATIONS:
            return Plain(annotation, label=name)
        made: Value | None = None
        if qualified in ("torch.nn.Module", "torch.nn.modules.module.Module"):
            made = Module(annotation, name)
        elif naming.is_optimizer_class(text.rpartition(".")[2]):
            made = Optimizer(annotation, name)
        elif (known := info.definitions.class_named(text)) is not None:
            made = self.classes.new_object(known, annotation, ())
        if made is not None:
            made.label = name
            return self.state.stamp(made)
        return None

    @contextmanager
    def aside(
        self, method: FunctionInfo, receiver: Value, flags: Flags = frozenset(), options: Flags = frozenset()
    ) -> Iterator[tuple[Frame, Mapping[str, Value]]]:
        """Interpret a method, with some flags, of an object with some options, aside from the program.

        Inside, the state is that at its end. Beside its frame, what its parameters are when it begins.
        """
        state, before = self.state, self.visit.at
        with state.aside((site_of(method.node),)):
            frame = self.root_frame(method)
            frame.locals[method.parameters[0] if method.parameters else "self"] = receiver
            frame.locals.update((name, Plain(method.node, flag, name)) for name, flag in flags)
            state.heap |= {(receiver, name): Plain(method.node, option, name) for name, option in options}
            frame.called = bool(flags)
            given = dict(frame.locals)
            state.frame, state.position = frame, state.position.in_function(method)
            self.observations.read_aside.add(method)
            self._run_body(method, frame)
            yield frame, given
        self.visit.at = before


def mode_asked_for(argument: ast.expr | None, if_true: GradMode, if_false: GradMode) -> GradMode:
    """The grad mode that a decorator's argument asks for."""
    if argument is None:
        return GradMode.UNKNOWN
    return if_true if is_literal(argument, True) else if_false if is_literal(argument, False) else GradMode.UNKNOWN

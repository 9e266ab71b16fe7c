"""Functions of this module where they are called: their bodies are interpreted in place, with the caller's values."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo, all_parameters, defaults_of
from torchlint.model.evaluate.expressions import Expressions
from torchlint.model.events import Inlined, Mutate, events_in
from torchlint.model.state import MAX_DEPTH, MAX_STATEMENTS, Snapshot
from torchlint.model.tracking import storages
from torchlint.model.values import (
    Container,
    Frame,
    Function,
    Instance,
    Module,
    Optimizer,
    Plain,
    Tensor,
    Unknown,
    Value,
)
from torchlint.pytorch import naming
from torchlint.pytorch.api import GRAD_MODES, SCHEDULERS, SET_GRAD_MODE, GradMode
from torchlint.syntax.python_ast import arguments, dotted, is_literal, site_of

_MODULE_BASES = (
    "Module",
    "LightningModule",
    "PreTrainedModel",
    "Sequential",
    "ModuleList",
    "MessagePassing",
    "GP",
)
_PLAIN_ANNOTATIONS = frozenset({"int", "float", "str", "bool", "bytes", "Path", "pathlib.Path"})


def mode_asked_for(argument: ast.expr | None, if_true: GradMode, if_false: GradMode) -> GradMode:
    """The grad mode that a decorator's argument asks for."""
    if argument is None:
        return GradMode.UNKNOWN
    return if_true if is_literal(argument, True) else if_false if is_literal(argument, False) else GradMode.UNKNOWN


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

    def all_from(self, first: str) -> tuple[Value, ...]:
        """All, with that of the first parameter first, though it may be given by its name behind others."""
        named = sorted(self.keywords, key=lambda name: name != first)
        return (*self.positional, *(self.keywords[name] for name in named), *self.starred)


_STATE = ("frame", "heap", "mode", "alive", "items", "loops", "scopes", "path", "passed", "calls")
"""The attributes of the machine that say where in the program it stands."""


@dataclass(frozen=True)
class Forward:
    """What is known of a `forward`: the value that it returns, and the parameters that it overwrites, by what."""

    returned: Value | None
    overwritten: dict[str, str]


class Summaries(Expressions):
    """Interprets calls of local functions, and `__init__` of local classes for what their objects hold."""

    in_place_results: dict[Tensor, ast.expr]

    def __init__(self, definitions: Definitions) -> None:
        super().__init__(definitions)
        self._forwards: dict[ClassInfo, Forward | None] = {}

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Interpret a block of statements."""
        raise NotImplementedError

    # -- functions ----------------------------------------------------------------------------------

    def can_inline(self, info: FunctionInfo) -> bool:
        within = self.statements < MAX_STATEMENTS and self.budget > 0
        return within and info not in self.stack and len(self.stack) < MAX_DEPTH

    def inline(self, function: Function, arguments: Arguments, node: ast.AST) -> Value:
        """Interpret a function's body at a call; the value is what it returns."""
        info = function.info
        self.interpreted.add(info)
        caller, mode, items, calls, outer = self.frame, self.mode, self.items, self.calls, self.call_path
        passed, without_grad = self.passed, self.called_without_grad
        if mode is GradMode.OFF and without_grad is None:
            self.called_without_grad = (len(self.path), len(passed))
        frame = Frame(info, function.frame, len(self.entered_from), called=True)
        self._bind_parameters(frame, function, arguments)
        self.stack.append(info)
        self.frame, self.items, self.calls, self.call_path = frame, [], (*calls, site_of(node)), self.path
        decorated = function.mode or self.decorated_mode(info)
        self.mode = decorated or mode
        if isinstance(info.node, ast.Lambda):
            frame.returns.append(self.value(info.node.body))
        else:
            self.run(info.node.body)
        self._return_to(caller)
        self.called_without_grad = without_grad
        inner, self.items, self.calls, self.call_path, self.passed = self.items, items, calls, outer, passed
        self.stack.pop()
        if decorated is not None:
            self.mode = mode
        if inner:
            self.items.append(Inlined(site_of(node), inner))
        return self._returned(frame, node)

    def read_property(self, method: FunctionInfo, owner: Value, node: ast.AST) -> Value:
        """What a property gives: another value at each reading."""
        function = Function(method, self.module_frame, owner)
        return self.inline(function, Arguments([], {}, []), node)

    def _return_to(self, caller: Frame) -> None:
        """Merge the states at every `return` and at the end of the body into the caller's."""
        ends: list[Snapshot] = [*self.frame.ends, *([self.snapshot()] if self.alive else [])]
        frame = self.frame
        self.frame = caller
        for end in ends:
            end.locals = caller.locals
        self.alive = True
        if ends:
            self.merge(ends, None)
        frame.ends.clear()

    def _returned(self, frame: Frame, node: ast.AST) -> Value:
        if frame.info is not None and frame.info.is_generator:
            return self.made(Container(node, "generator", tuple(frame.returns)))
        if not frame.returns:
            return Plain(node, None)
        return self.phi(node, frame.returns)

    def _bind_parameters(self, frame: Frame, function: Function, arguments: Arguments) -> None:
        info = function.info
        names = list(info.parameters)
        positional = list(arguments.positional)
        if info.is_method and function.receiver is not None:
            positional.insert(0, function.receiver)
        defaults = defaults_of(info.node)
        for index, name in enumerate(names):
            if index < len(positional):
                frame.locals[name] = positional[index]
            elif name in arguments.keywords:
                frame.locals[name] = arguments.keywords[name]
            elif name in defaults and not arguments.starred:
                frame.locals[name] = self.value(defaults[name])
            else:
                frame.locals[name] = self.made(Unknown(info.node, "parameter", tuple(arguments.starred), name))
        rest_of, options_of = info.node.args.vararg, info.node.args.kwarg
        if rest_of is not None:
            rest = Container(info.node, "tuple", (*positional[len(names) :], *arguments.starred))
            frame.locals[rest_of.arg] = self.made(rest)
        if options_of is not None:
            options = self.made(Container(info.node, "dict", tuple(arguments.starred)))
            for name, value in arguments.keywords.items():
                if name not in names:
                    options.set_part(name, value)
            frame.locals[options_of.arg] = options

    def decorated_mode(self, info: FunctionInfo) -> GradMode | None:
        """The grad mode that decorators give a function's body."""
        for decorator in info.decorators:
            call = decorator if isinstance(decorator, ast.Call) else None
            name = self.definitions.qualified(dotted(call.func if call is not None else decorator))
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

    # -- roots --------------------------------------------------------------------------------------

    def root_frame(self, info: FunctionInfo) -> Frame:
        """A frame for a function whose callers are unknown."""
        frame = Frame(info, self._enclosing_frame(info))
        for index, name in enumerate(info.parameters):
            if index == 0 and info.is_method and info.owner is not None:
                frame.locals[name] = self.template(info.owner)
            else:
                frame.locals[name] = self._parameter_value(info, name)
        for star in (info.node.args.vararg, info.node.args.kwarg):
            if star is not None:
                frame.locals[star.arg] = self.made(Unknown(info.node, "parameter", (), star.arg))
        return frame

    def _enclosing_frame(self, info: FunctionInfo) -> Frame:
        if info.enclosing is None:
            return self.module_frame
        return self.root_frame(info.enclosing)

    def _parameter_value(self, info: FunctionInfo, name: str) -> Value:
        for item in all_parameters(info.node):
            if item.arg == name and item.annotation is not None:
                known = self._annotated_value(item.annotation, name)
                if known is not None:
                    return known
        return self.made(Unknown(info.node, "parameter", (), name))

    def _annotated_value(self, annotation: ast.expr, name: str) -> Value | None:
        text = dotted(annotation)
        qualified = self.definitions.qualified(text)
        if text in _PLAIN_ANNOTATIONS:
            return Plain(annotation, label=name)
        made: Value | None = None
        if qualified in ("torch.nn.Module", "torch.nn.modules.module.Module"):
            made = Module(annotation, name)
        elif naming.is_optimizer_class(text.rpartition(".")[2]):
            made = Optimizer(annotation, name)
        elif text in self.definitions.class_names:
            made = self.new_object(self.definitions.class_names[text], annotation, ())
        if made is not None:
            made.label = name
            return self.made(made)
        return None

    # -- classes ------------------------------------------------------------------------------------

    def is_module_class(self, info: ClassInfo) -> bool:
        """Whether objects of a class are `nn.Module`s: by a base of that name, or by having a `forward`."""
        bases = [item for item in self.definitions.ancestors_of(info) if isinstance(item, str)]
        if any(item.rpartition(".")[2] in _MODULE_BASES or item.startswith("torch.nn.") for item in bases):
            return True
        return bool(bases) and self.definitions.method(info, "forward") is not None

    def is_optimizer_class(self, info: ClassInfo) -> bool:
        bases = [item for item in self.definitions.ancestors_of(info) if isinstance(item, str)]
        return any(
            (item.startswith("torch.optim.") and not item.startswith(SCHEDULERS))
            or naming.is_optimizer_class(item.rpartition(".")[2])
            for item in bases
        )

    def new_object(self, info: ClassInfo, node: ast.AST, parents: tuple[Value, ...]) -> Value:
        """An object of a local class, its `__init__` not run."""
        if self.is_optimizer_class(info):
            return self.made(Optimizer(node, info.name, parents, info))
        if self.is_module_class(info):
            return self.made(Module(node, info.name, parents, info))
        return self.made(Instance(node, info, parents, info.name))

    def template(self, info: ClassInfo) -> Value:
        known = self.templates.get(info)
        if known is None:
            known = self.templates[info] = self._new_template(info)
            self._run_init(info, known)
        return known

    def _new_template(self, info: ClassInfo) -> Value:
        if self.is_module_class(info):
            return Module(info.node, info.name, (), info)
        return Instance(info.node, info, (), "self")

    def _run_init(self, info: ClassInfo, template: Value) -> None:
        """Interpret `__init__` once, aside from the program, for what it stores."""
        init = self.definitions.method(info, "__init__")
        if init is None or init in self.stack or len(self.stack) >= MAX_DEPTH:
            return
        with self._aside(init, template):
            for (owner, name), value in self.heap.items():
                self.stored[owner, name] = value

    def forward_of(self, info: ClassInfo) -> Forward | None:
        """What `forward` of a class returns and overwrites, whatever it is called with; None where it is unknown."""
        forward = self.definitions.method(info, "forward")
        if forward is None or info in self._forwards or not self.can_inline(forward):
            return self._forwards.get(info)
        self._forwards[info] = None
        interpreted = set(self.interpreted)
        with self._aside(forward, self.template(info)) as (frame, given):
            changes = [event for event in events_in(self.items) if isinstance(event, Mutate) and not event.path]
            returned = self.phi(forward.node, frame.returns) if frame.returns else None
        overwritten = {
            name: change.how
            for change in reversed(changes)
            for name in forward.parameters[1:]
            if change.result in self.in_place_results and given[name] in storages(change.target)
        }
        self.interpreted = interpreted
        self._forwards[info] = Forward(returned, overwritten)
        return self._forwards[info]

    @contextmanager
    def _aside(self, method: FunctionInfo, receiver: Value) -> Iterator[tuple[Frame, Mapping[str, Value]]]:
        """Interpret a method aside from the program; inside, the state is that at its end.

        Beside its frame, what its parameters are when it begins.
        """
        saved = {name: getattr(self, name) for name in _STATE}
        self.heap, self.items, self.loops, self.scopes, self.path, self.passed = {}, [], (), [], (), ()
        self.alive, self.mode = True, GradMode.ON
        self.calls = (site_of(method.node),)
        self.frame = Frame(method, self.module_frame)
        frame = self.root_frame(method)
        frame.locals[method.parameters[0] if method.parameters else "self"] = receiver
        given = dict(frame.locals)
        self.frame = frame
        self.stack.append(method)
        self.read_aside.add(method)
        try:
            assert not isinstance(method.node, ast.Lambda)
            self.run(method.node.body)
            yield frame, given
        finally:
            self.stack.pop()
            for name, value in saved.items():
                setattr(self, name, value)

    def make(self, info: ClassInfo, arguments: Arguments, node: ast.AST) -> Value:
        """`SomeClass(...)`: an object, with `__init__` run on it where that says more than the template."""
        made = self.new_object(info, node, arguments.all())
        if isinstance(made, Instance):
            init = self.definitions.method(info, "__init__")
            if init is not None and self.can_inline(init):
                self.inline(Function(init, self.module_frame, made), arguments, node)
        return made

"""Functions with unknown callers: frames of roots, and methods interpreted aside from the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from torchlint.model.arguments import Flags
from torchlint.model.definitions import ClassInfo, FunctionInfo, all_parameters
from torchlint.model.events import Call, Compute, Event, ModeSwitch, events_in
from torchlint.model.frames import Frame
from torchlint.model.interpret.control.functions import Functions
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.objects import Objects, is_module_class
from torchlint.model.kinds import note_tensor
from torchlint.model.module_values import GIVEN_TO_FORWARD
from torchlint.model.values import (
    Instance,
    Module,
    Optimizer,
    Parameter,
    Plain,
    Value,
)
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import dotted, site_of

_PLAIN_ANNOTATIONS = frozenset({"int", "float", "str", "bool", "bytes", "Path", "pathlib.Path"})


class Aside(Part):
    """Interprets functions with unknown callers."""

    def __init__(self, machine: Machine, objects: Objects, functions: Functions) -> None:
        super().__init__(machine)
        self.objects = objects
        self.functions = functions

    def template(self, info: ClassInfo) -> Value:
        """The object that represents every instance of a class, with the attributes that `__init__` stores."""
        known = self.observations.templates.get(info)
        if known is None:
            known = self.observations.templates[info] = self._new_template(info)
            self._run_init(info, known)
        return known

    def _new_template(self, info: ClassInfo) -> Value:
        if is_module_class(info):
            return Module(info.node, info.name, (), info)
        return Instance(info.node, info, (), "self")

    def _run_init(self, info: ClassInfo, template: Value) -> None:
        """Interpret `__init__` once, aside from the program, to find the attributes it stores."""
        init = info.method("__init__")
        if init is None or not self.state.may_nest(init):
            return
        with self.run(init, template):
            for (owner, name), value in self.state.heap.items():
                self.observations.stored[owner, name] = value
            events = events_in(self.state.items)
            begun: list[Event] = [event for event in events if isinstance(event, (ModeSwitch, Compute, Call))]
            self.observations.begun[info] = begun

    def root_frame(self, info: FunctionInfo, owner: ClassInfo | None = None) -> Frame:
        """A frame for a function with unknown callers; for a method, objects of `owner` if that inherits it."""
        frame, owner = Frame(info, self._enclosing_frame(info)), owner or info.owner
        for index, name in enumerate(info.parameters):
            if index == 0 and info.is_method and owner is not None:
                frame.locals[name] = self.template(owner)
            else:
                frame.locals[name] = self._parameter_value(info, name)
        for star in (info.node.args.vararg, info.node.args.kwarg):
            if star is not None:
                frame.locals[star.arg] = self.state.stamp(Parameter(info.node, (), star.arg))
        return frame

    def _enclosing_frame(self, info: FunctionInfo) -> Frame:
        if info.enclosing is None:
            return self.state.frame_of(info.definitions)
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
            made = self.objects.new_object(known, annotation, ())
        if made is not None:
            made.label = name
            return self.state.stamp(made)
        return None

    @contextmanager
    def run(
        self,
        method: FunctionInfo,
        receiver: Value,
        flags: Flags = frozenset(),
        attributes: Mapping[str, Value] = MappingProxyType({}),
    ) -> Iterator[tuple[Frame, Mapping[str, Value]]]:
        """Interpret a method with some flags on an object with some attributes, aside from the program.

        Inside the context, the state is the one at the method's end. Yields its frame and its initial parameters.
        """
        state, before = self.state, self.machine.visit.at
        with state.aside((site_of(method.node),)):
            frame = self.root_frame(method)
            frame.locals[method.parameters[0] if method.parameters else "self"] = receiver
            frame.locals.update((name, Plain(method.node, flag, name)) for name, flag in flags)
            state.certain = {(receiver, name): value for name, value in attributes.items()}
            state.heap |= state.certain
            frame.called = bool(flags)
            given = dict(frame.locals)
            state.frame, state.position = frame, state.position.in_function(method)
            self.observations.read_aside.add(method)
            self.functions.run_body(method, frame)
            yield frame, given
        self.machine.visit.at = before

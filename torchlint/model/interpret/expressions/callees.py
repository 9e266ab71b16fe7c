"""Calls of functions, classes, modules and objects, each handled by the part that knows its callee."""

from __future__ import annotations

import ast

from torchlint.model.arguments import Arguments, takes
from torchlint.model.events import Fresh
from torchlint.model.interpret.expressions.decorators import Decorators
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.alternatives import alternatives
from torchlint.model.interpret.transfer.grad_modes import decorated_mode
from torchlint.model.interpret.transfer.transfer import Transfer
from torchlint.model.utilities import Kind, RecordClass, is_kind
from torchlint.model.values import (
    Attribute,
    CallResult,
    Class,
    Container,
    Context,
    Element,
    External,
    Function,
    Instance,
    Iteration,
    Module,
    Optimizer,
    Parameters,
    Phi,
    Plain,
    Unknown,
    Value,
    class_of,
    owner_label,
    resolved,
)
from torchlint.syntax.python_ast import site_of


class Callees(Part):
    """Calls values."""

    def __init__(self, machine: Machine, transfer: Transfer) -> None:
        super().__init__(machine)
        self.alternatives = transfer.alternatives
        self.containers = transfer.containers
        self.externals = transfer.externals
        self.modules = transfer.modules
        self.objects = transfer.objects
        self.unknown_calls = transfer.unknown_calls
        self.decorators = Decorators(machine, transfer.unknown_calls)

    def call(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        """The result of calling a value."""
        callee = resolved(callee)
        if isinstance(callee, RecordClass) and (record := self.containers.record(callee, arguments, node)) is not None:
            return record
        if isinstance(callee, External):
            return self.externals.call(callee.name, arguments, node)
        if isinstance(callee, Function):
            return self._call_function(callee, arguments, node)
        if isinstance(callee, Class):
            return self._instantiate(callee, arguments, node)
        if isinstance(callee, Module):
            return self.modules.call(callee, arguments, node)
        if isinstance(callee, Instance):
            return self._call_instance(callee, arguments, node)
        if isinstance(callee, Context):
            return self._decorate(callee, arguments, node)
        if isinstance(callee, Phi):
            return self._call_any(callee, arguments, node)
        return self._call_unknown(callee, arguments, node)

    def _call_function(self, callee: Function, arguments: Arguments, node: ast.Call) -> Value:
        decorated = self.decorators.call(callee, arguments, node)
        if decorated is not None:
            return decorated
        is_any = callee.receiver is not None and (callee.info.is_abstract or self._is_template(callee.receiver))
        made = class_of(callee.receiver) if isinstance(callee.receiver, (Instance, Module)) else None
        is_open = (is_any and callee.info.is_hook) or (made is not None and made.has_no_objects)
        if self.state.can_inline(callee.info) and not is_open and takes(callee, arguments):
            return self.machine.inline(callee, arguments, node)
        handed = arguments.all() if callee.receiver is None else (callee.receiver, *arguments.all())
        return self.unknown_calls.call(callee, callee.info.name, handed, node)

    def call_on_class(self, receiver: Class, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """`Base.method(self, ...)`, a static or a class method."""
        method = receiver.info.method(name)
        if method is None:
            return self.unknown_calls.call(receiver, name, arguments.all(), node)
        bound = receiver if method.has_decorator("classmethod") else None
        return self._call_function(
            self.state.bound(method, bound, decorated_mode(method, self.state)),
            arguments,
            node,
        )

    def _instantiate(self, callee: Class, arguments: Arguments, node: ast.Call) -> Value:
        made = self.objects.instantiate(callee.info, arguments, node)
        if isinstance(made, (Optimizer, Module)):
            self.state.emit(Fresh(site_of(node), made))
        return made

    def _call_instance(self, callee: Instance, arguments: Arguments, node: ast.Call) -> Value:
        method = callee.info.method("__call__")
        if method is None:
            return self.unknown_calls.call(callee, callee.info.name, (callee, *arguments.all()), node)
        return self._call_function(
            self.state.bound(method, callee, decorated_mode(method, self.state)),
            arguments,
            node,
        )

    def _decorate(self, callee: Context, arguments: Arguments, node: ast.Call) -> Value:
        """A function decorated by a call: `torch.no_grad()(function)`."""
        first = resolved(arguments.positional[0]) if arguments.positional else None
        if isinstance(first, Function):
            return Function(first.info, first.frame, first.receiver, callee.mode)
        if isinstance(first, Module):
            return self.state.stamp(CallResult(node, (first,), "", callee, self.state.mode))
        return first if first is not None else Plain(node)

    def _call_any(self, callee: Phi, arguments: Arguments, node: ast.Call) -> Value:
        """Call each of several callees, if all are modules, functions or classes of the program; else unknown."""
        callees = alternatives(callee)
        alike = any(all(isinstance(item, kind) for item in callees) for kind in (Module, Function, Class))
        if callees and alike:
            return self.alternatives.call(callees, arguments, node)
        return self._call_unknown(callee, arguments, node)

    def _call_unknown(self, callee: Value, arguments: Arguments, node: ast.Call) -> Value:
        if isinstance(callee, (Plain, Container, Parameters)):
            return self.state.stamp(CallResult(node, arguments.all(), "", callee, self.state.mode))
        model = callee.part("model") if is_kind(callee, Kind.ENGINE) else None
        if model is not None:
            return self.call(model, arguments, node)
        if isinstance(callee, Unknown) and self._of_module(callee):
            return self.modules.result(callee, arguments, node)
        return self.unknown_calls.call(callee, owner_label(callee), (*_owner_by_name(callee), *arguments.all()), node)

    def _of_module(self, callee: Value) -> bool:
        """A submodule: an attribute of a module that is no method, or an element of a module."""
        while isinstance(callee, (Attribute, Element, Iteration)) and callee.parents:
            callee = resolved(callee.parents[0])
        return isinstance(callee, Module)

    def _is_template(self, value: Value) -> bool:
        """Whether a value represents any object of a class, and of its subclasses."""
        info = class_of(value)
        return info is not None and self.observations.templates.get(info) is value


def _owner_by_name(callee: Value) -> tuple[Value, ...]:
    """The object of a method whose name is a variable, so it may be any method: `getattr(optimizer, name)`."""
    is_taken = isinstance(callee, CallResult) and callee.label == "getattr"
    return callee.parents[:1] if is_taken and not isinstance(callee.parents[0], External) else ()

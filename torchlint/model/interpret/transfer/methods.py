"""Method calls and their effects on optimizers, tensors, modules and containers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.arguments import Arguments, MethodHandler, called_attribute
from torchlint.model.definitions import ClassInfo
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.alternatives import Alternatives, alternatives
from torchlint.model.interpret.transfer.attributes import Attributes
from torchlint.model.interpret.transfer.containers import Containers
from torchlint.model.interpret.transfer.entered_contexts import EnteredContexts
from torchlint.model.interpret.transfer.frameworks import Frameworks
from torchlint.model.interpret.transfer.module_methods import ModuleMethods
from torchlint.model.interpret.transfer.modules import Modules
from torchlint.model.interpret.transfer.tensors import Tensors
from torchlint.model.interpret.transfer.training import Training
from torchlint.model.interpret.transfer.unknown_calls import UnknownCalls
from torchlint.model.kinds import note_tensor
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import (
    Attribute,
    BoundMethod,
    Container,
    Dict,
    External,
    Function,
    Instance,
    Module,
    ModuleOutput,
    NewTensor,
    Optimizer,
    Parameter,
    Phi,
    Plain,
    Super,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import api, naming, operators, table
from torchlint.pytorch.autograd_table import INPLACE, VIEWS
from torchlint.pytorch.effects import Clears, Steps
from torchlint.pytorch.shapes import INTEGER_TYPES
from torchlint.syntax.python_ast import site_of

_OF_OPTIMIZERS = table.methods_with(Clears, Steps)
_WITHOUT_METHODS = frozenset({"object", "ABC", "Protocol", "Generic"})
"""Bases without a `step` or a `zero_grad`."""
_DRAWING = frozenset({"sample", "sample_n"})
"""Methods of distributions that return a sample without a graph."""


class Methods(Part):
    """Evaluates calls of the form `receiver.name(...)`."""

    def __init__(
        self,
        machine: Machine,
        *,
        tensors: Tensors,
        attributes: Attributes,
        containers: Containers,
        modules: Modules,
        training: Training,
        module_methods: ModuleMethods,
        frameworks: Frameworks,
        contexts: EnteredContexts,
        alternatives: Alternatives,
        unknown_calls: UnknownCalls,
    ) -> None:
        super().__init__(machine)
        self.tensors = tensors
        self.attributes = attributes
        self.containers = containers
        self.modules = modules
        self.frameworks = frameworks
        self.alternatives = alternatives
        self.unknown_calls = unknown_calls
        self._handlers: dict[str, MethodHandler] = {
            **training.handlers(),
            **module_methods.handlers(),
            **frameworks.handlers(),
            **containers.handlers(),
            **contexts.handlers(),
            **dict.fromkeys(api.PLAIN_METHODS, self._plain_result),
            **dict.fromkeys(("register_buffer", "register_parameter"), self._register),
            **dict.fromkeys(("add_module", "register_module"), self._register_module),
        }
        """The handler for calls of a method of this name; a handler returns None if the call is nothing special."""

    def has_handler(self, name: str) -> bool:
        """Whether calls of a method with this name affect the receiver."""
        return name in self._handlers

    def call(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """The result of `receiver.name(arguments)`."""
        carried, receiver = receiver, self.frameworks.model_of(resolved(receiver), name)
        if name == "forward":
            self.observations.direct_forwards.append((site_of(node), receiver))
            if isinstance(receiver, Module) and not self._is_own(receiver):
                return self.modules.call(receiver, arguments, node, is_direct=True)
            if isinstance(receiver, (Attribute, Parameter)) and not self._is_own(receiver):
                return self.machine.call(receiver, arguments, node)
        if name == "module" and self.attributes.is_wrapped(receiver):
            return self.machine.call(receiver, arguments, node)
        if isinstance(receiver, (Instance, Module, Optimizer)):
            local = self._local_method(receiver, name, arguments, node)
            if local is not None:
                return local
        if isinstance(receiver, Module) and name in ("items", "values") and (inside := _dictionary_of(receiver)):
            return self.containers.call(inside, name, arguments, node)
        if isinstance(receiver, Super):
            return self._super_method(receiver, name, arguments, node)
        if isinstance(receiver, Phi) and (methods := self._methods_of_each(receiver, name, node)):
            return self.alternatives.call(methods, arguments, node)
        if is_kind(receiver, Kind.DISTRIBUTION) or (name in _DRAWING and _returns_distribution(receiver)):
            return self._of_distribution(receiver, name, arguments, node)
        for item in inputs_of(receiver):
            item.used_as(name)
        if name in api.ONLY_OF_TENSORS:
            note_tensor(carried)
        if name in _OF_OPTIMIZERS and (optimizers := list(self._delegates(receiver))):
            return [self.call(item, name, arguments, node) for item in optimizers][-1]
        handler = self._handlers.get(name)
        if handler is not None:
            result = handler(receiver, arguments, node)
            if result is not None:
                return result
        if isinstance(receiver, Container):
            return self.containers.call(receiver, name, arguments, node)
        if isinstance(receiver, Plain):
            return self.tensors.number(f"{name}()", (receiver, *arguments.all()), node)
        if name in api.TENSOR_METHODS or name in api.PASSING_METHODS or isinstance(receiver, Tensor):
            if not isinstance(receiver, (Instance, Module, Optimizer, External)):
                return self._tensor_method(carried, name, arguments, node)
        return self._unknown_method(receiver, name, arguments, node)

    def _register(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        """`module.register_buffer(name, tensor)` sets an attribute."""
        name, value = arguments.get(0, "name"), arguments.get(1, "tensor") or arguments.get(1, "param")
        known = resolved(name) if name is not None else None
        if value is None or not isinstance(receiver, (Module, Instance)) or not isinstance(known, Plain):
            return None
        if isinstance(known.constant, str):
            self.attributes.set(receiver, known.constant, value, node)
        return Plain(node, None)

    def _register_module(self, receiver: Value, arguments: Arguments, node: ast.Call) -> None:
        """`module.add_module(name, layer)` sets an attribute, which programs usually read by an index."""
        name, value = arguments.get(0, "name"), arguments.get(1, "module")
        known = resolved(name) if name is not None else None
        if value is not None:
            key = known.constant if isinstance(known, Plain) and known.is_literal else None
            self.attributes.note_place(receiver, key, value, node)

    def _is_own(self, receiver: Value) -> bool:
        """Whether an object is the one whose method is running."""
        info, names = self.state.frame.info, self.state.frame.locals
        return info is not None and info.is_method and names.get(info.parameters[0]) is receiver

    def _local_method(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value | None:
        """A method of a class of this module, or a function stored as an attribute."""
        info = getattr(receiver, "info", None)
        stored = self.state.heap.get((receiver, name))
        if stored is None and info is not None:
            stored = self.attributes.lookup(receiver, name, node)
        if stored is None or isinstance(stored, Plain) or self._is_under_way(stored):
            return None
        if (
            isinstance(stored, Unknown)
            and isinstance(stored, Attribute)
            and not self._is_data_attribute(stored, info, name)
        ):
            return None
        if isinstance(receiver, Module) and isinstance(stored, Unknown):
            return self.modules.result(stored, arguments, node)
        return self.machine.call(stored, arguments, node)

    def _is_under_way(self, stored: Value) -> bool:
        """Whether a function that replaces a method calls the original method."""
        if not isinstance(stored, Function) or stored.info.is_method:
            return False
        return stored.info in self.state.position.functions

    def _methods_of_each(self, receiver: Phi, name: str, node: ast.Call) -> list[Value]:
        """The methods of each possible object of the program's classes; empty if one lacks the method."""
        objects = alternatives(receiver)
        methods = [
            self.attributes.lookup(item, name, node)
            for item in objects
            if isinstance(item, (Instance, Module)) and item.info is not None
        ]
        return methods if len(methods) == len(objects) and all(isinstance(item, Function) for item in methods) else []

    def _super_method(self, receiver: Unknown, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """`super().method(...)`: a base in this module, else an unknown call that receives the object."""
        method = self.state.frame.info
        while method is not None and method.owner is None:
            method = method.enclosing
        if method is None or method.owner is None or not self.state.frame.locals:
            return self.unknown_calls.call(receiver, name, arguments.all(), node)
        instance = self.machine.read(method.parameters[0]) if method.parameters else receiver
        for base in method.owner.ancestors():
            if isinstance(base, ClassInfo) and base is not method.owner and name in base.methods:
                function = self.state.bound(base.methods[name], instance)
                return self.machine.call(function, arguments, node)
        if isinstance(instance, Module) and name in ("train", "eval"):
            return self._handlers[name](instance, arguments, node) or instance
        return self.unknown_calls.call(receiver, name, (instance, *arguments.all()), node)

    def _is_data_attribute(self, stored: Unknown, info: ClassInfo | None, name: str) -> bool:
        """Whether `self.name(...)` calls an object stored there, not an inherited method."""
        if info is not None and info.writers(name):
            return True
        if name in api.MODULE_EVIDENCE:
            return False
        return bool(stored.uses) or bool(naming.MODULE.search(name))

    def _plain_result(self, receiver: Value, arguments: Arguments, node: ast.Call) -> Value | None:
        if isinstance(receiver, (Instance, External)):
            return None
        if isinstance(receiver, (Tensor, Unknown, Phi)) and called_attribute(node) == "numpy":
            return self.state.stamp(Tensor(node, operators.NUMPY, (receiver,), self.state.mode, base=receiver))
        return self.tensors.number(called_attribute(node), (receiver, *arguments.positional), node)

    def _tensor_method(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        if name in INPLACE:
            return self._in_place(receiver, name, arguments, node)
        if name in api.CREATOR_METHODS:
            return self.tensors.create(name, arguments, node)
        if name in ("to", "type") and any(map(_is_integer_type, arguments.all())):
            name = "long"
        base = receiver if name in VIEWS else None
        made = self.tensors.compute(name, arguments.operands(name, node, receiver), node, base)
        self.observations.calls[made] = name, arguments, receiver
        return made

    def _of_distribution(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        """The result of a distribution's method: computed from its parameters, or drawn without a graph."""
        if name in _DRAWING:
            drawn = self.state.stamp(NewTensor(node))
            self.observations.calls[drawn] = name, arguments, receiver
            return drawn
        if name in api.OF_DISTRIBUTIONS:
            made_of = receiver.parents[1:] if name == "entropy" and _is_shifted(receiver) else receiver.parents
            return self.tensors.make(name, (*made_of, *arguments.all()), node)
        return self._unknown_method(receiver, name, arguments, node)

    def _in_place(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        if self.tensors.is_gradient(resolved(receiver)):
            self.tensors.change_gradient(resolved(receiver), name, arguments.all(), node)
            return receiver
        return self.machine.change(node, receiver, name, arguments)

    def _unknown_method(self, receiver: Value, name: str, arguments: Arguments, node: ast.Call) -> Value:
        if isinstance(receiver, External):
            return self.machine.call(self.attributes.lookup(receiver, name, node), arguments, node)
        part = self.state.part_of(receiver, name, BoundMethod, node)
        return self.unknown_calls.call(part, name, (receiver, *arguments.all()), node)

    def _delegates(self, receiver: Value) -> Iterator[Value]:
        """The optimizers of an object whose class lacks this method, so `__getattr__` probably forwards to them."""
        if isinstance(receiver, Instance) and not _may_inherit_more(receiver.info):
            for (owner, _), held in self.state.heap.items():
                if owner is receiver and isinstance(resolved(held), Optimizer):
                    yield held


def _may_inherit_more(info: ClassInfo) -> bool:
    """Whether a class may inherit methods from a class outside the program: a scheduler from PyTorch's."""
    bases = (item.rpartition(".")[2] for item in info.ancestors() if isinstance(item, str))
    return info.method("__getattr__") is None and any(base not in _WITHOUT_METHODS for base in bases)


def _dictionary_of(module: Module) -> Container | None:
    """The dictionary a `ModuleDict` was built from."""
    if module.info is not None or not module.name.endswith(".ModuleDict") or len(module.parents) != 1:
        return None
    made_of = resolved(module.parents[0])
    return made_of if isinstance(made_of, Dict) else None


def _is_integer_type(value: Value) -> bool:
    """`torch.uint8`, `torch.LongTensor`: tensors of such types have no graph."""
    type_ = resolved(value)
    return isinstance(type_, External) and type_.name in INTEGER_TYPES


def _returns_distribution(output: Value) -> bool:
    """Whether a network of the program returns a distribution."""
    return isinstance(output, ModuleOutput) and output.body is not None and is_kind(output.body, Kind.DISTRIBUTION)


def _is_shifted(distribution: Value) -> bool:
    """Whether the first parameter of a distribution is only a location."""
    made = distribution.callee if isinstance(distribution, Unknown) else None
    is_known = isinstance(made, External) and made.name in api.SHIFTED_DISTRIBUTIONS
    return is_known and len(distribution.parents) > 1

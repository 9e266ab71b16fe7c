"""Reads and writes of attributes: as assigned, as the class defines them, or as PyTorch defines them."""

from __future__ import annotations

import ast

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.arguments import Arguments, is_true
from torchlint.model.definitions import ClassInfo
from torchlint.model.events import Clear, GradRead, MayClear
from torchlint.model.heap import Change
from torchlint.model.interpret.machine import Machine, Part
from torchlint.model.interpret.transfer.measured_gradients import is_measured
from torchlint.model.interpret.transfer.tensors import Tensors
from torchlint.model.observations import Placed
from torchlint.model.values import (
    Attribute,
    CallResult,
    Class,
    Component,
    Container,
    External,
    Function,
    Gradient,
    Instance,
    Module,
    ModuleOutput,
    ModuleParameter,
    NewTensor,
    Optimizer,
    Phi,
    Plain,
    SourceModule,
    Tensor,
    Value,
    class_of,
    inputs_of,
    is_none,
    resolved,
)
from torchlint.pytorch import operators, table
from torchlint.pytorch.api import GRADIENTS, PLAIN_ATTRIBUTES
from torchlint.pytorch.effects import GoesBackward
from torchlint.syntax.python_ast import dotted, site_of

_OF_LAYERS = LazyPattern(r"(weight|bias)(_(ih|hh)(_l\d+(_reverse)?)?|_g|_v|_orig)?")
"""The parameters of layers of PyTorch."""
_BACKWARD = table.methods_with(GoesBackward)

_PACKING = frozenset({"pack_padded_sequence", "pack_sequence"})
"""Functions of `torch.nn.utils.rnn` that return a `PackedSequence`."""


class Attributes(Part):
    """Reads and sets attributes."""

    def __init__(self, machine: Machine, tensors: Tensors) -> None:
        super().__init__(machine)
        self.tensors = tensors

    def read(self, owner: Value, name: str, node: ast.AST) -> Value:
        """The value of an attribute, including the attributes of tensors."""
        carried, owner = owner, resolved(owner)
        if name == "grad":
            self.state.emit(GradRead(site_of(node), measures=is_measured(node, self.definitions)))
            return self.state.part_of(owner, "grad", Gradient, node)
        if name == "data" and _is_packed(owner):
            return carried
        if name == "data" and not isinstance(owner, (Container, Instance, External)):
            return self.state.stamp(Tensor(node, operators.DATA, (owner,), self.state.mode, base=carried))
        if isinstance(owner, Tensor):
            if name in PLAIN_ATTRIBUTES:
                return self.tensors.number(name, (owner,), node)
            if name in ("T", "mT", "H", "real", "imag"):
                return self.state.stamp(Tensor(node, "t", (carried,), self.state.mode, base=carried))
            if isinstance(owner, ModuleOutput) and name not in _BACKWARD:
                return self.component(owner, name, node)
        if isinstance(owner, Optimizer) or name == "param_groups":
            owner.used_as(name)
            return self.state.part_of(owner, name, Attribute, node)
        if isinstance(owner, Module) and owner.info is None and _OF_LAYERS.fullmatch(name):
            return self._leaf_parameter(owner, name, node)
        if name == "__dict__":
            self.state.change(owner, Change.UNKNOWN, node, by=name)
        if name == "__name__" and isinstance(owner, (Class, Function)):
            return Plain(node, owner.info.name)
        if name in ("shape", "ndim", "device", "dtype"):
            return self.tensors.number(name, (owner,), node)
        return self.lookup(owner, name, node)

    def lookup(self, owner: Value, name: str, node: ast.AST | None) -> Value:
        """An attribute of a value: the last assignment, else the class's definition, else an unknown part."""
        key = (owner, name)
        found = self.state.heap.get(key)
        if found is not None:
            return self.state.carried(key, found)
        if isinstance(owner, SourceModule) and (found := self.machine.member(owner, name, node)) is not None:
            return found
        if isinstance(owner, External):
            return self.state.shared_part(owner, name, lambda: External(node, f"{owner.name}.{name}"))
        info = class_of(owner)
        if info is not None and node is not None:
            method = info.method(name)
            if method is not None and method.has_decorator("property") and self.state.can_inline(method):
                return self.machine.inline(self.state.bound(method, owner), Arguments([], {}, []), node)
        if info is not None:
            member = self._member(owner, info, name)
            if member is not None:
                return member
        if name == "module" and self.is_wrapped(owner):
            return owner
        if isinstance(owner, Phi) and _may_be_rewritten(owner):
            return self.state.shared_part(owner, name, lambda: self._of_each(owner, name, node))
        return self.state.part_of(owner, name, Attribute, node)

    def is_wrapped(self, owner: Value) -> bool:
        """Whether a module with an attribute `module` must be in a wrapper, because its own class sets none.

        Another method may have put a wrapper in place of the stored module.
        """
        options = list(inputs_of(owner))
        modules = [item for item in options if isinstance(item, Module)]
        replaced = [item for item in options if isinstance(item, Attribute)]
        is_all = bool(modules) and len(modules) + len(replaced) == len(options)
        return is_all and all(_has_no_module(item.info) for item in modules)

    def _of_each(self, owner: Phi, name: str, node: ast.AST | None) -> Value:
        """The attribute of each possible owner."""
        either = Phi(owner.site, tuple(self.lookup(item, name, node) for item in owner.parents))
        either.order, either.loops, either.label = owner.order, owner.loops, name
        return either

    def before(self, key: tuple[Value, str]) -> Value | None:
        """The value `__init__` stores in an attribute; None if that is not known."""
        owner, name = key
        info = class_of(owner)
        if info is not None and not info.builders().isdisjoint(info.assigned.get(name, ())):
            return self._stored(owner, info, name)
        return self.observations.stored.get(key)

    def _stored(self, owner: Value, info: ClassInfo, name: str) -> Value | None:
        """The value `__init__` stores in an attribute of an object, or of any object of its class."""
        known = self.observations.stored
        return known.get((owner, name)) or known.get((self.machine.template(info), name))

    def _member(self, owner: Value, info: ClassInfo, name: str) -> Value | None:
        """A method, or the value that `__init__` stores under the name."""
        method = info.method(name)
        if method is not None:
            if method.has_decorator("property") or method.has_decorator("cached_property"):
                return None
            return self.state.shared_part(owner, name, lambda: self.state.bound(method, owner))
        stored = self._stored(owner, info, name)
        if stored is None:
            return None
        is_leaf = isinstance(stored, Tensor) and stored.leaf
        writers = info.binders(name) if is_leaf else info.writers(name)
        if is_none(stored) or (writers - info.builders() and not isinstance(stored, (Container, Optimizer))):
            return self.state.shared_part(owner, name, lambda: self._rewritten(stored, owner, name))
        return stored

    def _rewritten(self, stored: Value, owner: Value, name: str) -> Value:
        """The value `__init__` stored, or the value another method has put in its place."""
        either = Phi(stored.site, (stored, Attribute(stored.site, (owner,), name)))
        either.order, either.loops = owner.order, owner.loops
        return either

    def _leaf_parameter(self, owner: Value, name: str, node: ast.AST) -> Value:
        known = self.state.heap.get((owner, name)) or self.observations.stored.get((owner, name)) or owner.part(name)
        if known is None:
            known = ModuleParameter(node, (owner,), leaf=True)
            known.order, known.loops = owner.order, owner.loops
            owner.set_part(name, known)
        return known

    def set(self, owner: Value, name: str, value: Value, node: ast.AST) -> None:
        """Set an attribute, by a statement or by `setattr`."""
        if name in GRADIENTS:
            self.clear_gradient(node, owner)
        elif name == "data":
            if self.tensors.is_gradient(owner):
                self.clear_gradient(node, resolved(owner.parents[0]))
        elif name == "requires_grad":
            if not is_true(value):
                self.observations.frozen.add(owner)
        else:
            if self._has_setter(owner, name):
                self.state.emit(MayClear(site_of(node), name, (owner, value)))
                value = self.state.stamp(CallResult(node, (value,), name))
            if self._freezes(owner, name, resolved(value)):
                self.observations.frozen.add(self._leaf_parameter(owner, name, node))
            self.note_place(owner, name, value, node)
            self.state.name_value(value, name)
            if isinstance(value, Plain) and not value.order:
                self.state.stamp(value)
            self.state.heap[owner, name] = value

    def _freezes(self, owner: Value, name: str, value: Value) -> bool:
        """Whether a module of PyTorch gets weights without a gradient: `layer.weight = Parameter(k, False)`."""
        is_layer = isinstance(owner, Module) and owner.info is None
        return is_layer and _OF_LAYERS.fullmatch(name) is not None and isinstance(value, NewTensor)

    def _has_setter(self, owner: Value, name: str) -> bool:
        """Whether the class of an object customizes setting this attribute, by a property or by `__setattr__`."""
        info = class_of(owner)
        if info is None:
            return False
        method = info.method(name)
        return info.method("__setattr__") is not None or (
            method is not None and any(dotted(item) == f"{name}.setter" for item in method.decorators)
        )

    def note_place(self, owner: Value, key: object, value: Value, node: ast.AST) -> None:
        """Remember the object in which a new module or parameter is placed."""
        value = resolved(value)
        if isinstance(value, Module) or (isinstance(value, Tensor) and value.leaf):
            position = self.state.position
            placed = Placed(site_of(node), owner, key, value, self.state.clock, position.functions, position.loops)
            self.observations.placed.append(placed)

    def set_some(self, owner: Value, value: Value, node: ast.AST) -> None:
        """`setattr(owner, name, value)` with an unknown name: any list may start over, any tensor may be replaced."""
        self.note_place(owner, None, value, node)
        self.state.change(owner, Change.UNKNOWN, node, by="setattr")
        for (holder, name), value in list(self.state.heap.items()):
            if holder is owner and isinstance(resolved(value), (Container, Tensor, Phi)):
                self.state.heap[owner, name] = self.state.stamp(CallResult(node, (), name))

    def clear_gradient(self, node: ast.AST, owner: Value) -> None:
        """Record that the gradient of one tensor is set, or deleted."""
        self.state.emit(Clear(site_of(node), None, explicit=False, of=owner))

    def component(self, owner: Tensor, key: object, node: ast.AST) -> Value:
        """A field or element of a module's output."""
        known = owner.part(key)
        if known is None:
            known = Component(node, (owner,), owner.mode)
            known.order, known.loops = owner.order, owner.loops
            if isinstance(key, str):
                known.label = key
            owner.set_part(key, known)
        return known


def _has_no_module(info: ClassInfo | None) -> bool:
    """Whether no class of a module, PyTorch's or the program's, has an attribute `module`."""
    bases = info.ancestors() if info is not None else ()
    is_known = all(isinstance(item, ClassInfo) or item.startswith("torch.") for item in bases)
    return is_known and (info is None or not (info.binders("module") or info.method("module")))


def _may_be_rewritten(owner: Phi) -> bool:
    """Whether a value is a module of the program that `__init__` stored, or another method's replacement of it."""
    kinds = [isinstance(item, Module) and item.info is not None for item in owner.parents]
    others = [item for item, is_known in zip(owner.parents, kinds, strict=True) if not is_known]
    return any(kinds) and all(isinstance(item, Attribute) for item in others)


def _is_packed(value: Value) -> bool:
    """Whether a value is a `PackedSequence`, whose `data` is a tensor with its graph."""
    return isinstance(value, Tensor) and value.op in _PACKING

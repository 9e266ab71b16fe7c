"""Attributes of values: as assigned, as their class says, or as PyTorch defines them."""

from __future__ import annotations

import ast

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import ClassInfo
from torchlint.model.evaluate.part import Part
from torchlint.model.events import GradRead
from torchlint.model.values import (
    Attribute,
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
    Optimizer,
    Phi,
    Plain,
    SourceModule,
    Tensor,
    Value,
    class_of,
    is_none,
    resolved,
)
from torchlint.pytorch import operators, table
from torchlint.pytorch.api import PLAIN_ATTRIBUTES
from torchlint.pytorch.effects import GoesBackward
from torchlint.syntax.python_ast import site_of

_OF_LAYERS = LazyPattern(r"(weight|bias)(_(ih|hh)(_l\d+(_reverse)?)?|_g|_v|_orig)?")
"""The parameters of layers of PyTorch."""
_BACKWARD = table.methods_with(GoesBackward)


class Attributes(Part):
    """Reads attributes."""

    def evaluate(self, node: ast.Attribute) -> Value:
        """The value of `owner.name`."""
        owner = self.expressions.value(node.value)
        return self.read(owner, node.attr, node)

    def read(self, owner: Value, name: str, node: ast.AST) -> Value:
        """What reading an attribute gives, tensors' own attributes understood."""
        carried, owner = owner, resolved(owner)
        if name == "grad":
            self.state.emit(GradRead(site_of(node)))
            return self.state.part_of(owner, "grad", Gradient, node)
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
        if name == "__name__" and isinstance(owner, (Class, Function)):
            return Plain(node, owner.info.name)
        if name in ("shape", "ndim", "device", "dtype"):
            return self.tensors.number(name, (owner,), node)
        return self.lookup(owner, name, node)

    def lookup(self, owner: Value, name: str, node: ast.AST | None) -> Value:
        """An attribute of a value, as last assigned; else what its class says; else an unknown part."""
        key = (owner, name)
        found = self.state.heap.get(key)
        if found is not None:
            return self.state.carried(key, found)
        if isinstance(owner, SourceModule) and (found := self.names.member(owner, name, node)) is not None:
            return found
        if isinstance(owner, External):
            return self.state.shared_part(owner, name, lambda: External(node, f"{owner.name}.{name}"))
        info = class_of(owner)
        if info is not None and node is not None:
            method = info.method(name)
            if method is not None and method.has_decorator("property") and self.functions.can_inline(method):
                return self.functions.read_property(method, owner, node)
        if info is not None:
            member = self._member(owner, info, name)
            if member is not None:
                return member
        if isinstance(owner, Phi) and _may_be_rewritten(owner):
            return self.state.shared_part(owner, name, lambda: self._of_each(owner, name, node))
        return self.state.part_of(owner, name, Attribute, node)

    def _of_each(self, owner: Phi, name: str, node: ast.AST | None) -> Value:
        """The attribute of each that an owner may be."""
        either = Phi(owner.site, tuple(self.lookup(item, name, node) for item in owner.parents))
        either.order, either.loops, either.label = owner.order, owner.loops, name
        return either

    def before(self, key: tuple[Value, str]) -> Value | None:
        """What `__init__` stores in an attribute; None if that is not known."""
        owner, name = key
        info = class_of(owner)
        if info is not None and "__init__" in info.assigned.get(name, ()):
            return self._stored(owner, info, name)
        return self.observations.stored.get(key)

    def _stored(self, owner: Value, info: ClassInfo, name: str) -> Value | None:
        """What `__init__` stores in an attribute of an object, or of any of its class."""
        known = self.observations.stored
        return known.get((owner, name)) or known.get((self.classes.template(info), name))

    def _member(self, owner: Value, info: ClassInfo, name: str) -> Value | None:
        """A method, or what `__init__` stores under the name."""
        method = info.method(name)
        if method is not None:
            if method.has_decorator("property") or method.has_decorator("cached_property"):
                return None
            return self.state.shared_part(owner, name, lambda: self.functions.bound(method, owner))
        stored = self._stored(owner, info, name)
        if stored is None:
            return None
        is_leaf = isinstance(stored, Tensor) and stored.leaf
        writers = info.binders(name) if is_leaf else info.writers(name)
        if is_none(stored) or (writers - {"__init__"} and not isinstance(stored, (Container, Optimizer))):
            return self.state.shared_part(owner, name, lambda: self._rewritten(stored, owner, name))
        return stored

    def _rewritten(self, stored: Value, owner: Value, name: str) -> Value:
        """What `__init__` stored, or what another method has put in its place."""
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

    def component(self, owner: Tensor, key: object, node: ast.AST) -> Value:
        """A field or element of what a module returned."""
        known = owner.part(key)
        if known is None:
            known = Component(node, (owner,), owner.mode)
            known.order, known.loops = owner.order, owner.loops
            if isinstance(key, str):
                known.label = key
            owner.set_part(key, known)
        return known


def _may_be_rewritten(owner: Phi) -> bool:
    """Whether a value is a module of the program that `__init__` stored, or what another method put in its place."""
    kinds = [isinstance(item, Module) and item.info is not None for item in owner.parents]
    others = [item for item, is_known in zip(owner.parents, kinds, strict=True) if not is_known]
    return any(kinds) and all(isinstance(item, Attribute) for item in others)

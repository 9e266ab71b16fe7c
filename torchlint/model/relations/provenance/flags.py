"""Tensor flags that a program sets on a module, where they have no effect."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import ClassInfo, Definitions
from torchlint.model.queries import variables
from torchlint.model.relations.provenance.modules import Modules
from torchlint.pytorch import api
from torchlint.syntax.python_ast import Site, called_name, dotted, is_literal, names_read, site_of, walk

_FLAG = "requires_grad"
_WEIGHTS = frozenset({"weight", "bias"})
_LAYER = LazyPattern(r"(?i)^(?:sub_?)?(?:module|layer|block|stage)$")
_LAYERS = LazyPattern(r"(?i)(?:layers?|blocks?|stages?)$")
_TESTS = frozenset({"isinstance", "hasattr", "callable", "is_tensor"})


class FlagOfModule(NamedTuple):
    """The assignment at `site` sets a tensor flag on `module`, whose parameters ignore it."""

    site: Site
    module: str


class ModuleFlags:
    """Answers about `module.requires_grad = False`."""

    def __init__(self, definitions: Definitions, modules: Modules) -> None:
        self.definitions = definitions
        self.tree = definitions.tree
        self.modules = modules

    def answers(self) -> Iterator[FlagOfModule]:
        for target in self._targets():
            kind = self.modules.kind(target.value) or self._used_as(target.value)
            if kind is not None and not self._is_asked_for(target, kind) and not self._is_frozen_beside(target):
                yield FlagOfModule(site_of(target), self.tree.code(target.value))

    def _targets(self) -> Iterator[ast.Attribute]:
        for statement in self.tree.of_type(ast.Assign):
            for target in statement.targets if is_literal(statement.value, False) else ():
                if isinstance(target, ast.Attribute) and _names_flag(target.attr):
                    yield target

    def _used_as(self, owner: ast.expr) -> str | None:
        """`torch.nn.Module` if its function or class uses an object only as a module, and never tests its type."""
        place, is_used = "" if self._is_bound_again(owner) else self._place(owner), self._is_layer_of_loop(owner)
        for node in walk(self._scope(owner)) if place else ():
            if isinstance(node, ast.Call) and called_name(node) in _TESTS:
                if place in map(self._place, node.args):
                    return None
            elif isinstance(node, ast.Attribute) and self._needs_module(node) and self._place(node.value) == place:
                is_used = True
        return "torch.nn.Module" if is_used else None

    def _is_layer_of_loop(self, owner: ast.expr) -> bool:
        """Whether a loop named its variable after a layer, and takes it from parts of an object: `model.layers[:6]`."""
        if not isinstance(owner, ast.Name) or not _LAYER.search(owner.id):
            return False
        iterable = self.tree.iterated(owner)
        items = iterable.elts if isinstance(iterable, (ast.Tuple, ast.List)) else ()
        if iterable is not None and not items and isinstance(_whole(iterable), ast.Attribute):
            return bool(_LAYERS.search(dotted(_whole(iterable))))
        return bool(items) and all(isinstance(item, ast.Attribute) and item.attr not in _WEIGHTS for item in items)

    def _is_bound_again(self, owner: ast.expr) -> bool:
        """Whether the first name of `a.b` may be several objects."""
        name = dotted(owner).partition(".")[0]
        own = variables.bindings(name, owner, self.definitions)
        return len(own) + variables.is_parameter(name, owner, self.definitions) != 1

    def _needs_module(self, node: ast.Attribute) -> bool:
        """`layer.weight.data` or `layer.parameters()`."""
        parent = self.tree.parent(node)
        if node.attr in _WEIGHTS:
            return isinstance(parent, ast.Attribute)
        return node.attr in api.MODULE_EVIDENCE and isinstance(parent, ast.Call) and parent.func is node

    def _scope(self, node: ast.expr) -> ast.AST:
        method = self.definitions.method_around(node)
        if method is not None and method.owner is not None and dotted(node).split(".")[0] in method.parameters[:1]:
            return method.owner.node
        return self.tree.scope_around(node)

    def _place(self, node: ast.expr) -> str:
        """The name of an object; `model.head` for `self.model.head` if `self.model = model` is the only store."""
        own, _, rest = dotted(node).partition(".")
        method = self.definitions.method_around(node)
        if not rest or method is None or method.owner is None or own not in method.parameters[:1]:
            return dotted(node)
        first = rest.partition(".")[0]
        stores = [self.tree.parent(item) for item in self.modules.stores(method.owner, first)]
        values = [item.value for item in stores if isinstance(item, ast.Assign)]
        is_alias = len(stores) == len(values) == 1 and dotted(values[0]) == first
        return rest if is_alias else dotted(node)

    def _is_asked_for(self, target: ast.Attribute, kind: ClassInfo | str) -> bool:
        """Whether the class of the module defines the flag, or code here reads it from a module."""
        infos = (
            [item for item in kind.ancestors() if isinstance(item, ClassInfo)] if isinstance(kind, ClassInfo) else []
        )
        if any(map(_knows_flag, {self.definitions, *(info.definitions for info in infos)})):
            return True
        for node in self.tree.of_type(ast.Attribute):
            if _names_flag(node.attr) and isinstance(node.ctx, ast.Load) and dotted(node) == dotted(target):
                return True
        function = self.tree.scope_around(target)
        calls = (node for node in walk(function) if isinstance(node, ast.Call) and called_name(node) == "hasattr")
        return any(_FLAG in self.tree.code(call) for call in calls)

    def _is_frozen_beside(self, target: ast.Attribute) -> bool:
        """Whether its function also freezes the parameters of the module, or of its owner, correctly."""
        whole = f"{dotted(self.modules.source(target.value))}."
        function = self.tree.scope_around(target)
        for node in walk(function):
            if not isinstance(node, ast.Attribute) or node is target or not node.attr.startswith(_FLAG):
                continue
            frozen = node.value
            if not _names_flag(node.attr):
                if whole.startswith(f"{dotted(self.modules.source(frozen))}."):
                    return True
            elif isinstance(frozen, ast.Name) and self.modules.kind(frozen) is None:
                drawn = self.modules.source(frozen)
                own = {dotted(target.value)} if isinstance(target.value, ast.Name) else set()
                if whole.startswith(f"{dotted(drawn)}.") or not own.isdisjoint(names_read(drawn)):
                    return True
        return False


def _whole(node: ast.expr) -> ast.expr:
    """The sequence of which an expression takes a part: `layers` of `layers[:6]`."""
    return _whole(node.value) if isinstance(node, ast.Subscript) else node


def _names_flag(name: str) -> bool:
    return name == _FLAG


def _knows_flag(definitions: Definitions) -> bool:
    """Whether a class of a file has a property of this name, sets attributes itself, or reads the flag as its own."""
    if any(info.owner is not None and info.name in (_FLAG, "__setattr__") for info in definitions.functions.values()):
        return True
    loads = (node for node in definitions.tree.of_type(ast.Attribute) if isinstance(node.ctx, ast.Load))
    return any(_names_flag(node.attr) and dotted(node.value) == "self" for node in loads)

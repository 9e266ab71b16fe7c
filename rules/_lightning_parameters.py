"""Layers of a Lightning module that its `configure_optimizers` leaves out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.model.queries import torch_classes, written
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site

_FIXED = LazyPattern(r"(?i)random|fixed|percep|lpips|vgg|inception|clip|metric|pretrained|codec|tokenizer|(^|_)vae")
_SOURCES = frozenset({"parameters", "named_parameters"})


class LeftOut(NamedTuple):
    """The training step of a Lightning module calls `name` at `use`, and the optimizer made at `made` leaves it out."""

    use: Site
    name: str
    created: Site
    made: Site


class LightningParameters:
    """Compares the layers that a training step calls with those that `configure_optimizers` mentions."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def all(self) -> Iterator[LeftOut]:
        for info in self._model.definitions.classes.values():
            configure, step = info.methods.get("configure_optimizers"), info.methods.get("training_step")
            if configure is None or step is None or not torch_classes.is_lightning(info):
                continue
            held = _held(configure)
            used: dict[str, ast.Call] = {}
            for call in _calls(step.node):
                name = _own_attribute(call.func, step.parameters[0])
                if name is not None:
                    used.setdefault(name, call)
            for name, call in used.items() if held else ():
                made = self._made(info, name) if name not in held else None
                if made is not None:
                    site = python_ast.site_of(configure.node)
                    yield LeftOut(python_ast.site_of(call), f"self.{name}", python_ast.site_of(made), site)

    def _made(self, info: definitions.ClassInfo, name: str) -> ast.Call | None:
        """The creation of a new layer with weights, if the class only stores it and calls it with gradients on."""
        stores = list(written.stores_of(name, info))
        made = written.assigned(stores[0], self._model.definitions) if len(stores) == 1 else None
        if not isinstance(made, ast.Call) or not self._model.provenance.has_weights(made):
            return None
        if naming.STANDING_STILL.search(name) or _FIXED.search(name) or _FIXED.search(self._model.tree.code(made)):
            return None
        uses = [node for node in self._model.tree.of_type(ast.Attribute) if node.attr == name]
        return made if all(self._is_plain(node) for node in uses) else None

    def _is_plain(self, node: ast.Attribute) -> bool:
        """Whether a use stores a layer or calls it, outside all blocks that may switch gradients off."""
        if isinstance(node.ctx, ast.Store):
            return True
        parent = self._model.tree.parent(node)
        if not isinstance(parent, ast.Call) or parent.func is not node:
            return False
        for item in self._model.tree.ancestors(node):
            if isinstance(item, python_ast.FUNCTIONS):
                return not any("grad" in self._model.tree.code(each) for each in item.decorator_list)
            if isinstance(item, ast.With) and any(
                "grad" in self._model.tree.code(each.context_expr) for each in item.items
            ):
                return False
        return False


def _held(configure: definitions.FunctionInfo) -> set[str]:
    """The attributes whose parameters a method collects; empty if it may collect others."""
    own, held = configure.parameters[0], set[str]()
    for node in python_ast.walk(configure.node):
        if isinstance(node, ast.Call) and python_ast.called_name(node) in _SOURCES:
            path = python_ast.dotted(node.func).split(".")
            if len(path) < 3 or path[0] != own:
                return set()
            held.add(path[1])
        elif isinstance(node, ast.Call) and any(python_ast.dotted(item) == own for item in python_ast.arguments(node)):
            return set()
        elif isinstance(node, ast.Call) and python_ast.dotted(node.func).count(".") == 1:
            if python_ast.dotted(node.func).startswith(f"{own}."):
                return set()  # another method may collect more
        elif isinstance(node, (ast.Subscript, ast.For, ast.GeneratorExp, ast.ListComp)):
            return set()
    return held


def _calls(function: ast.AST) -> list[ast.Call]:
    return [node for node in python_ast.walk(function) if isinstance(node, ast.Call)]


def _own_attribute(node: ast.expr, own: str) -> str | None:
    is_own = isinstance(node, ast.Attribute) and python_ast.dotted(node.value) == own
    return node.attr if isinstance(node, ast.Attribute) and is_own else None

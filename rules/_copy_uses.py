"""The uses of a copy of a network: whether code only runs and saves it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.lazy_pattern import LazyPattern
from torchlint.model import definitions
from torchlint.model.relations import provenance
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model

_BY_NAME = (b"getattr(", b"vars(", b"__dict__")
"""Words of code that may reach an attribute by its name."""
_SAME = frozenset("eval train to cuda cpu half float requires_grad_ state_dict zero_grad".split())
"""Methods that change no weights."""
_SAFE = LazyPattern(r"^_?(save|update_bn|print|eval|evaluate|valid|validate|test|predict|sample)($|_)")
"""Names of functions that only run or save their arguments."""


class CopyUses:
    """The uses of the object that the call `made` creates for the variable or attribute `target`."""

    def __init__(self, model: Model, target: ast.expr, made: ast.Call) -> None:
        self.model = model
        self.target = target
        self.made = made

    def only_read(self) -> ast.expr | None:
        """A use that runs or saves the object, if its code trains and no use may change it."""
        scope = self._scope()
        uses = [item for item in self._uses(scope) if item is not self.target] if scope is not None else []
        kinds = [self._kind(item) for item in uses]
        if scope is None or None in kinds or "read" not in kinds or not _steps(scope):
            return None
        return uses[kinds.index("read")]

    def _scope(self) -> ast.AST | None:
        """The code that can use a variable or attribute: its function or class, if no other file has access."""
        target = self.target
        if isinstance(target, ast.Name):
            function = self.model.definitions.function_around(target)
            return function.node if function is not None else None
        method = self.model.definitions.method_around(target)
        owner = method.owner if method is not None else None
        if owner is None or not isinstance(target, ast.Attribute) or python_ast.dotted(target.value) != "self":
            return None
        if any(word in self.model.tree.source.code for word in _BY_NAME):
            return None
        word = f".{target.attr}".encode()
        bases = [item for item in owner.ancestors() if item is not owner]
        is_shared = any(True for _ in self.model.importers(owner.name, (word,))) or any(
            isinstance(item, definitions.ClassInfo) for item in bases
        )
        return None if is_shared or any(self._derives(owner)) else self.model.tree.module

    def _derives(self, owner: definitions.ClassInfo) -> Iterator[bool]:
        return (owner in info.ancestors() for info in self.model.definitions.classes.values() if info is not owner)

    def _uses(self, scope: ast.AST) -> list[ast.expr]:
        target = self.target
        if isinstance(target, ast.Name):
            return [item for item in python_ast.walk(scope) if isinstance(item, ast.Name) and item.id == target.id]
        name = target.attr if isinstance(target, ast.Attribute) else ""
        return [item for item in python_ast.walk(scope) if isinstance(item, ast.Attribute) and item.attr == name]

    def _kind(self, use: ast.expr) -> str | None:
        """`read` for a use that runs or saves the object, an empty text for one without effect, None for others."""
        parent = self.model.tree.parent(use)
        if not isinstance(getattr(use, "ctx", None), ast.Load):
            return None
        if isinstance(parent, ast.Call):
            return "read" if parent.func is use or _SAFE.search(python_ast.called_name(parent)) else None
        if not isinstance(parent, ast.Attribute):
            return None
        call = self.model.tree.parent(parent)
        if not isinstance(call, ast.Call) or call.func is not parent:
            return self._kind(parent)
        if parent.attr in _SAME:
            return "read" if parent.attr == "state_dict" else ""
        if parent.attr == "load_state_dict":
            is_first = self.model.tree.function_around(use) is self.model.tree.function_around(self.made)
            return "" if is_first and not self._is_repeated(use) else None
        if parent.attr in ("parameters", "named_parameters"):
            return "" if self._only_freezes(call) else None
        info = self.model.definitions.class_named(python_ast.dotted(self.made.func))
        if info is not None and _stores(info, parent.attr):
            return "read"
        method = info.methods.get(parent.attr) if info is not None else None
        return "" if method is not None and not averages(method) and not _calls_own(method) else None

    def _is_repeated(self, node: ast.AST) -> bool:
        return any(isinstance(item, python_ast.LOOPS) for item in self.model.tree.ancestors(node))

    def _only_freezes(self, call: ast.Call) -> bool:
        """`for p in ema.parameters(): p.requires_grad = False`."""
        loop = self.model.tree.parent(call)
        if not isinstance(loop, ast.For) or loop.iter is not call or len(loop.body) != 1:
            return False
        return "requires_grad" in self.model.tree.code(loop.body[0])


def averages(method: definitions.FunctionInfo) -> bool:
    """Whether a method averages weights in a loop."""
    loops = [item for item in python_ast.walk(method.node) if isinstance(item, ast.For)]
    relation = provenance.Provenance(method.definitions)
    return any(True for loop in loops for _ in relation.average_updates(loop))


def _stores(info: definitions.ClassInfo, name: str) -> bool:
    """Whether a class stores a network under a name: `ema.module(x)`."""
    init = info.methods.get("__init__")
    nodes = python_ast.walk(init.node) if init is not None else ()
    stores = (item for item in nodes if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store))
    return any(item.attr == name for item in stores)


def _calls_own(method: definitions.FunctionInfo) -> bool:
    """Whether a method calls another one of its object."""
    calls = (item for item in python_ast.walk(method.node) if isinstance(item, ast.Call))
    return any(python_ast.dotted(item.func).startswith("self.") for item in calls)


def _steps(scope: ast.AST) -> bool:
    calls = (item for item in python_ast.walk(scope) if isinstance(item, ast.Call))
    return any(python_ast.called_name(item) == "step" for item in calls)

"""Autograd functions of a module: their inputs, and their results."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.queries.names import own_nodes
from torchlint.syntax.python_ast import is_literal

_BASES = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
_HARMLESS = frozenset("staticmethod once_differentiable custom_fwd custom_bwd".split())
"""Decorators that leave a method's arguments and results unchanged."""


@dataclass(frozen=True)
class AutogradFunction:
    """A class that derives directly from `torch.autograd.Function`, with both of its methods."""

    info: ClassInfo
    forward: FunctionInfo
    backward: FunctionInfo

    @property
    def takes_context(self) -> bool:
        """Whether `forward` receives the context, rather than `setup_context`."""
        return "setup_context" not in self.info.methods

    @property
    def inputs(self) -> list[ast.arg] | None:
        """The parameters of `forward` that each receive a gradient; None for a variable number."""
        found = _parameters(self.forward)
        return found[1:] if found is not None and self.takes_context else found

    @property
    def gradients(self) -> list[ast.arg] | None:
        """The parameters of `backward` that receive gradients; None for a variable number."""
        found = _parameters(self.backward)
        return found[1:] if found is not None else None

    @property
    def gives_gradients(self) -> bool:
        """Whether `backward` returns gradients; outputs such as indices have none."""
        found = [item for value in returns_of(self.backward) for item in _elements(value)]
        return any(not is_literal(item, None) for item in found)

    @property
    def context(self) -> str:
        """The name of the context in `forward`; empty if `forward` receives none."""
        found = self.forward.node.args
        first = next(iter((*found.posonlyargs, *found.args)), None)
        return first.arg if first is not None and self.takes_context else ""


def autograd_functions(definitions: Definitions) -> Iterator[AutogradFunction]:
    """The autograd functions whose methods have no unknown decorator."""
    for info in definitions.classes.values():
        forward, backward = info.methods.get("forward"), info.methods.get("backward")
        if forward is None or backward is None or not _derives(info):
            continue
        names = {name.rpartition(".")[2] for name in (*forward.decorator_names, *backward.decorator_names)}
        if names <= _HARMLESS:
            yield AutogradFunction(info, forward, backward)


def returns_of(function: FunctionInfo) -> list[ast.expr | None]:
    """The expressions that a function returns."""
    return [node.value for node in own_nodes(function.node) if isinstance(node, ast.Return)]


def _elements(value: ast.expr | None) -> list[ast.expr]:
    if isinstance(value, ast.Tuple):
        return value.elts
    return [value] if value is not None else []


def _derives(info: ClassInfo) -> bool:
    return any(info.definitions.qualified(base, info.node) in _BASES for base in info.bases)


def _parameters(function: FunctionInfo) -> list[ast.arg] | None:
    node = function.node.args
    return None if node.vararg is not None else [*node.posonlyargs, *node.args]

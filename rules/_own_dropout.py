"""Dropout layers that a program writes itself, and that drop in evaluation, too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.model import definitions
    from torchlint.syntax.python_ast import Site

_NAMED = LazyPattern(r"^(?!Random).*(Dropout|DropPath|DropConnect|DropBlock|StochasticDepth)")
_DRAWS = frozenset({"bernoulli", "bernoulli_", "rand", "rand_like"})
_MODE = LazyPattern(r"(?i)train|eval|infer|test|mode|determin")


class OwnDropout(NamedTuple):
    """`forward` of the module `owner` draws a mask at `draw` in both modes."""

    draw: Site
    owner: str


class OwnDropouts:
    """Finds modules named as dropout whose `forward` draws random numbers and whose class never reads the mode."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def all(self) -> Iterator[tuple[ast.Call, definitions.FunctionInfo, OwnDropout]]:
        """Each draw, with its method, for the rule to ask about its callers."""
        for info in self._model.definitions.classes.values():
            forward = info.methods.get("forward")
            if forward is None or not _NAMED.search(info.name) or not self._model.program.is_module_class(info):
                continue
            nodes = list(python_ast.walk(info.node))
            words = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            words |= {node.id for node in nodes if isinstance(node, ast.Name)}
            words |= {item.arg for node in nodes if isinstance(node, ast.Call) for item in node.keywords if item.arg}
            draw = next((node for node in python_ast.walk(forward.node) if self._draws(node)), None)
            if isinstance(draw, ast.Call) and not any(map(_MODE.search, {*words, *info.methods, info.name})):
                yield draw, forward, OwnDropout(python_ast.site_of(draw), info.name)

    def _draws(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and python_ast.called_name(node) in _DRAWS

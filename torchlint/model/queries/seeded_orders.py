"""Orders that a function draws with a generator whose seed is the same in each process."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import FunctionInfo

_GENERATORS = frozenset({"RandomState", "Random", "default_rng"})
_TORCH = "Generator"
_METHODS = frozenset({"shuffle", "permutation", "permuted"})
_BY_PROCESS = LazyPattern(r"(?i)worker|rank|pid|rand|rng|generator|time")
"""Words of seeds that may differ between processes."""


def without_orders(method: FunctionInfo) -> str:
    """The code of a function without the orders that are the same in each process, and without its conditions."""
    tree = method.definitions.tree
    text = tree.code(method.node)
    nodes = list(names.own_nodes(method.node))
    for node in nodes:
        drawn = _drawn(node, method)
        tests = [item.test for item in nodes if isinstance(item, (ast.If, ast.IfExp)) and python_ast.dotted(item.test)]
        for code in sorted(map(tree.code, [*drawn, *tests]) if drawn else (), key=len, reverse=True):
            text = text.replace(code, "")
    return text


def _drawn(node: ast.AST, method: FunctionInfo) -> list[ast.AST]:
    """A call that draws an order, with the statements that create and seed its generator; empty if it may differ."""
    if not isinstance(node, ast.Call):
        return []
    called, source = python_ast.called_name(node), None
    if called == "randperm":
        source = next((item.value for item in node.keywords if item.arg == "generator"), None)
    elif called in _METHODS and isinstance(node.func, ast.Attribute):
        source = node.func.value
    parts = _seeded(source, method) if source is not None else []
    return [*parts, node] if parts else []


def _seeded(source: ast.expr, method: FunctionInfo) -> list[ast.AST]:
    """The expressions that create and seed a generator, if its seed is the same in each process."""
    tree, parts = method.definitions.tree, list[ast.AST]()
    made: ast.expr | None = source
    if isinstance(source, ast.Name):
        made = names.only_value(source, method.definitions)
        statement = tree.statement(made) if made is not None else None
        parts += [statement] if statement is not None else []
        seedings = [item for item in names.own_nodes(method.node) if _is_seeding(item, source.id)]
        if isinstance(made, ast.Call) and python_ast.called_name(made) == _TORCH:
            return [*seedings, *parts] if len(seedings) == 1 else []
    if not isinstance(made, ast.Call):
        return []
    called = python_ast.called_name(made)
    is_seeded = called in _GENERATORS or (called == "manual_seed" and isinstance(made.func, ast.Attribute))
    return [*parts, made] if is_seeded and _is_fixed(made) else []


def _is_seeding(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "manual_seed" and python_ast.dotted(node.func.value) == name and _is_fixed(node)


def _is_fixed(call: ast.Call) -> bool:
    """Whether a call has one argument, of numbers and attributes that no process changes."""
    given = python_ast.arguments(call)
    if len(given) != 1 or (isinstance(given[0], ast.Constant) and given[0].value is None):
        return False
    parts = list(python_ast.walk(given[0]))
    words = [item.id for item in parts if isinstance(item, ast.Name)]
    words += [item.attr for item in parts if isinstance(item, ast.Attribute)]
    return not any(isinstance(item, ast.Call) for item in parts) and not any(map(_BY_PROCESS.search, words))

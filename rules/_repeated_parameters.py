"""Modules whose parameters one list for an optimizer contains twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site
    from torchlint.syntax.python_tree import PythonTree


class Twice(NamedTuple):
    """The expression at `site` repeats the parameters of `name`, which `first` contains already."""

    site: Site
    name: str
    first: Site


def repeated_parameters(tree: PythonTree) -> Iterator[Twice]:
    """The second mention of a module in a sum of lists, or in `itertools.chain`."""
    for node in tree.of_type(ast.BinOp, ast.Call):
        if isinstance(tree.parent(node), ast.BinOp):
            continue  # a part of a longer sum
        parts = _summands(node) if isinstance(node, ast.BinOp) else _chained(node)
        seen: dict[str, ast.Call] = {}
        for call in map(parameters_of, parts):
            name = module_of(call) if call is not None else ""
            if call is not None and name in seen:
                yield Twice(python_ast.site_of(call), name, python_ast.site_of(seen[name]))
            elif call is not None and name:
                seen[name] = call


def _summands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_summands(node.left), *_summands(node.right)]
    return [node]


def _chained(call: ast.Call) -> list[ast.expr]:
    return call.args if python_ast.called_name(call) == "chain" else []


def parameters_of(node: ast.expr) -> ast.Call | None:
    """`module.parameters()`, perhaps in `list(...)`."""
    if isinstance(node, ast.Call) and python_ast.called_name(node) == "list" and len(node.args) == 1:
        return parameters_of(node.args[0])
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args
    is_parameters = is_call and isinstance(node, ast.Call) and python_ast.called_name(node) == "parameters"
    return node if is_parameters and isinstance(node, ast.Call) and not node.keywords else None


def module_of(call: ast.Call) -> str:
    """The name of the module whose `parameters()` a call asks for."""
    return python_ast.dotted(call.func).removesuffix(".parameters")


def given_to(optimizer: ast.Call) -> ast.expr | None:
    """The parameters that the call of an optimizer's class receives."""
    given = [*optimizer.args[:1], *(item.value for item in optimizer.keywords if item.arg == "params")]
    return given[0] if len(given) == 1 else None

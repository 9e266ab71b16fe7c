"""The meaning of names as far as one place in the program shows it, without interpretation."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterator
from functools import lru_cache

from torchlint.index import FileIndex
from torchlint.model.definitions import Definitions, FunctionInfo
from torchlint.model.queries import variables
from torchlint.model.scopes import LOCAL
from torchlint.syntax.python_ast import LOOPS, SCOPES, dotted, walk, walk_outside
from torchlint.syntax.python_tree import PythonTree


def imported(node: ast.expr, definitions: Definitions) -> str:
    """The qualified name of an import, if the name has one meaning in the file; else empty."""
    first = dotted(node).partition(".")[0] if isinstance(node, (ast.Name, ast.Attribute)) else ""
    binding = definitions.scopes.binding(first, node) if first else LOCAL
    if binding == LOCAL or (binding is None and not definitions.is_only_imported(first)):
        return ""
    return definitions.named(node)


def calls_of(qualified: Collection[str], definitions: Definitions) -> Iterator[tuple[ast.Call, str]]:
    """The calls of imported functions and classes with these qualified names, in the order of the file, with names."""
    last = {name.rpartition(".")[2] for name in qualified}
    for call in sorted(FileIndex.of(definitions.tree).calls(last), key=lambda item: (item.lineno, item.col_offset)):
        name = imported(call.func, definitions)
        if name in qualified:
            yield call, name


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without nested functions and classes, in the order of the program."""
    return walk_outside(function, SCOPES)


def stores(places: Collection[str], scope: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """Where a function binds or deletes one of these variables and attributes: `x`, `self.x`."""
    for node in own_nodes(scope):
        if (
            isinstance(node, (ast.Name, ast.Attribute))
            and not isinstance(node.ctx, ast.Load)
            and dotted(node) in places
        ):
            yield node


def bound_value(target: ast.AST, tree: PythonTree) -> ast.expr | None:
    """The value that a statement assigns to a target, also one by one: `a, b = x, y`; None where it is not explicit."""
    parent = tree.parent(target)
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        return parent.value
    around = tree.parent(parent) if parent is not None else None
    if isinstance(parent, ast.Tuple) and isinstance(around, ast.Assign) and isinstance(around.value, ast.Tuple):
        if len(parent.elts) == len(around.value.elts):
            return next(value for item, value in zip(parent.elts, around.value.elts, strict=True) if item is target)
    return None


def only_value(name: ast.Name, definitions: Definitions) -> ast.expr | None:
    """The value assigned to a variable before its use, if nothing else in its function (or the module) binds it.

    None for the old value in `x = list(x)`.
    """
    tree, bound = definitions.tree, variables.bindings(name.id, name, definitions)
    value = bound_value(bound[0], tree) if len(bound) == 1 else None
    statement = tree.statement(bound[0]) if value is not None else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) > 1 or statement.lineno > name.lineno:
        return None
    if statement is tree.statement(name):
        return None
    return None if variables.is_parameter(name.id, name, definitions) else value


def returned_value(function: FunctionInfo) -> ast.expr | None:
    """The value of a function with a single `return`."""
    found = [item for item in own_nodes(function.node) if isinstance(item, ast.Return)]
    return found[0].value if len(found) == 1 else None


def are_alternatives(node: ast.AST, other: ast.AST, tree: PythonTree) -> bool:
    """Whether two nodes are in different branches of one `if`, of which only one runs."""
    chains = [[item, *tree.ancestors(item)] for item in (node, other)]
    common = next((item for item in chains[0] if item in chains[1]), None)
    if not isinstance(common, ast.If):
        return False
    branches = [chain[chain.index(common) - 1] if chain[0] is not common else common for chain in chains]
    return any(one in common.body and two in common.orelse for one, two in (branches, branches[::-1]))


def is_read_after(name: str, node: ast.AST, definitions: Definitions) -> bool:
    """Whether code may read a name with the value that a node's statement leaves in it.

    That is code below the statement, in the next iteration of a loop that does not rebind the name first, or in a
    function defined here.
    """
    tree, around = definitions.tree, definitions.function_around(node)
    scope = around.node if around is not None else tree.module
    statement, end = tree.statement(node), getattr(tree.statement(node), "end_lineno", 0)
    own = _names_in(scope).get(name, [])
    if _last_reads(scope, definitions).get(name, 0) > end:
        return True
    return any(_is_read_again(own, loop, statement, tree) for loop in tree.ancestors(node) if isinstance(loop, LOOPS))


@lru_cache(maxsize=4)
def _names_in(scope: ast.AST) -> dict[str, list[ast.Name]]:
    """The names in a function, or in the module, grouped by name."""
    found: dict[str, list[ast.Name]] = {}
    for item in walk(scope):
        if isinstance(item, ast.Name):
            found.setdefault(item.id, []).append(item)
    return found


@lru_cache(maxsize=4)
def _last_reads(scope: ast.AST, definitions: Definitions) -> dict[str, float]:
    """The last line that reads each name of a function or the module; infinite where an inner function reads it."""
    last: dict[str, float] = {}
    for name, items in _names_in(scope).items():
        for item in items:
            if isinstance(item.ctx, ast.Load):
                around = definitions.function_around(item)
                is_inner = around is not None and around.node is not scope
                last[name] = max(last.get(name, 0), math.inf if is_inner else item.lineno)
    return last


def _is_read_again(names: list[ast.Name], loop: ast.AST, statement: ast.AST, tree: PythonTree) -> bool:
    """Whether the next iteration of a loop reads one of these equal names, bound only by one statement there."""
    inside = [name for name in names if any(item is loop for item in tree.ancestors(name))]
    if any(not isinstance(name.ctx, ast.Load) and statement not in tree.ancestors(name) for name in inside):
        return False
    over = set(walk(loop.iter)) if isinstance(loop, (ast.For, ast.AsyncFor)) else set()
    read = (name for name in inside if isinstance(name.ctx, ast.Load) and statement not in tree.ancestors(name))
    return any(name not in over for name in read)


def function(node: ast.expr, definitions: Definitions) -> FunctionInfo | None:
    """The function of the file that an expression surely refers to: a lambda, a visible function, a method."""
    if isinstance(node, ast.Lambda):
        return definitions.functions.get(node)
    if isinstance(node, ast.Attribute):
        return _method(node, definitions)
    around = definitions.function_around(node)
    while isinstance(node, ast.Name):
        same = definitions.plain_functions.get(node.id, ())
        here = [item for item in same if item.enclosing is around]
        if here or around is None:
            return here[0] if len(here) == 1 else None
        around = around.enclosing
    return None


def _method(node: ast.Attribute, definitions: Definitions) -> FunctionInfo | None:
    """The method behind `self.m`."""
    around = definitions.method_around(node)
    if around is None or around.owner is None or not around.is_method:
        return None
    return around.owner.method(node.attr) if dotted(node.value) in around.parameters[:1] else None

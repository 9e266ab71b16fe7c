"""Lists and counts that grow for some samples of a loader only, so that they differ between processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import Definitions
from torchlint.model.queries import names, written
from torchlint.syntax import python_ast

_LOADER = LazyPattern(r"(?i)loader|(?:^|_)dl\b")
_ADDING = frozenset({"append", "extend", "add"})


def counted(test: ast.expr) -> str:
    """The name of the list or count of which a condition asks whether it is empty: `len(values) > 0`, `values`."""
    if isinstance(test, ast.Compare):
        is_zero = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value == 0
        test = test.left if is_zero and isinstance(test.ops[0], (ast.Gt, ast.NotEq)) else test
    if isinstance(test, ast.Call) and python_ast.called_name(test) == "len" and len(test.args) == 1:
        test = test.args[0]
    return python_ast.dotted(test) if isinstance(test, (ast.Name, ast.Attribute)) else ""


def growth(name: str, use: ast.stmt, definitions: Definitions) -> ast.AST | None:
    """The code that adds to a list or count for some samples of a loop over a loader, above a use in its function.

    None if the loop may add to it for each sample, or if other code may change or share it.
    """
    tree = definitions.tree
    nodes = [item for item in names.own_nodes(tree.scope_around(use)) if getattr(item, "lineno", 0) < use.lineno]
    found = [item for item in nodes if _adds(item, name, definitions)]
    places = [_place(item, definitions) for item in found]
    if not found or None in places or _in_both(found, definitions):
        return None
    end = max(loop.end_lineno or 0 for place in places if place is not None for loop in place)
    later = (item for item in nodes if getattr(item, "lineno", 0) > end)
    for item in later:
        if isinstance(item, (ast.Name, ast.Attribute)) and python_ast.dotted(item) == name:
            around = tree.parent(item)
            is_len = isinstance(around, ast.Call) and python_ast.called_name(around) == "len"
            if not written.is_load(item) or (isinstance(around, ast.Call) and not is_len):
                return None
    return found[0]


def _adds(node: ast.AST, name: str, definitions: Definitions) -> bool:
    """Whether code adds to a list or count, itself or in a method of the object that holds it."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Add) and python_ast.dotted(node.target) == name
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner, dot, attribute = name.rpartition(".")
    if python_ast.dotted(node.func.value) == name:
        return node.func.attr in _ADDING
    if not dot or python_ast.dotted(node.func.value) != owner:
        return False
    method = written.only_method(node.func, definitions)
    own = f"{method.parameters[0]}.{attribute}" if method is not None and method.parameters else ""
    return method is not None and any(
        (isinstance(item, ast.AugAssign) and python_ast.dotted(item.target) == own)
        or (isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and item.func.attr in _ADDING
        and python_ast.dotted(item.func.value) == own)
        for item in names.own_nodes(method.node)
    )  # fmt: skip


def _loops(node: ast.AST, definitions: Definitions) -> Iterator[ast.For]:
    scope = definitions.tree.scope_around(node)
    for item in definitions.tree.ancestors(node):
        if item is scope:
            return
        if isinstance(item, ast.For):
            yield item


def _branches(node: ast.AST, definitions: Definitions) -> list[ast.If]:
    """The branches between code and the outermost loop around it."""
    around = list(definitions.tree.ancestors(node))
    loops = list(_loops(node, definitions))
    return [item for item in around[: around.index(loops[-1])] if isinstance(item, ast.If)] if loops else []


def _place(node: ast.AST, definitions: Definitions) -> list[ast.For] | None:
    """The loops around code that a condition on a sample of a loader guards; None for other code."""
    loops = list(_loops(node, definitions))
    if not loops or not _LOADER.search(definitions.tree.code(loops[-1].iter)):
        return None
    bound = {name for loop in loops for name in python_ast.names_in(loop.target)} - {
        python_ast.dotted(loop.target.elts[0]) for loop in loops
        if isinstance(loop.target, ast.Tuple) and isinstance(loop.iter, ast.Call)
        and python_ast.called_name(loop.iter) in ("enumerate", "tqdm")
    }  # fmt: skip
    tests = [python_ast.names_in(item.test) for item in _branches(node, definitions)]
    return loops if any(test & bound for test in tests) else None


def _in_both(found: list[ast.AST], definitions: Definitions) -> bool:
    """Whether both sides of a branch add, so that each sample does."""
    for item in found:
        for branch in _branches(item, definitions):
            inside = [[node in found for part in side for node in python_ast.walk(part)]
                      for side in (branch.body, branch.orelse)]  # fmt: skip
            if all(map(any, inside)):
                return True
    return False

"""Gradient clipping: whether a call has an effect, and the parameters it clips."""

from __future__ import annotations

import ast
import re

from torchlint.index import FileIndex
from torchlint.model.events import Clip
from torchlint.model.ownership import Ownership
from torchlint.model.values import Answer, Generator, Parameters, Plain, Value, inputs_of, resolved
from torchlint.syntax.python_ast import LOOPS, called_name, dotted
from torchlint.syntax.python_tree import PythonTree

LARGE = 1e5
"""A bound larger than the gradients of any successful training."""
_ITERATORS = frozenset({"parameters", "filter"})
"""Calls that return an iterator, which can be used once."""


def is_unbounded(clip: Clip, tree: PythonTree) -> bool:
    """Whether a clipping perhaps only measures the norm: its bound is infinite, very large, or missing."""
    return clip.bound is None or any(_is_large(value, tree) for value in inputs_of(clip.bound))


def may_be_of(clip: Clip, optimizer: Value, ownership: Ownership) -> bool:
    """Whether an optimizer may hold the clipped parameters."""
    return clip.parameters is None or ownership.holds(optimizer, clip.parameters) is not Answer.NO


def _is_large(bound: Value, tree: PythonTree) -> bool:
    """Whether a bound is a large number, or infinity: `float("inf")`, `math.inf`."""
    if isinstance(bound, Plain) and isinstance(bound.constant, (int, float)):
        return bound.constant >= LARGE
    node = tree.node(bound.site)
    return node is None or (isinstance(node, ast.expr) and re.search(r"\binf", tree.code(node)) is not None)


def spent_iterator(clip: Clip, tree: PythonTree) -> ast.Assign | None:
    """The assignment of an iterator over parameters that is used up when a loop clips: `params = model.parameters()`.

    A clipping that a loop repeats uses it up itself, if not the optimizer before.
    """
    call, given = tree.own_node(clip.site), resolved(clip.parameters) if clip.parameters is not None else None
    if not isinstance(call, ast.Call) or not call.args or not isinstance(given, (Parameters, Generator)):
        return None
    made = _only_assignment(call.args[0], tree)
    around = {item for item in tree.ancestors(made) if isinstance(item, LOOPS)} if made is not None else set()
    loops = {item for item in tree.ancestors(call) if isinstance(item, LOOPS)}
    return made if made is not None and loops - around and _is_iterator(made.value) else None


def _is_iterator(node: ast.expr) -> bool:
    """Whether an expression gives what can be used once."""
    return isinstance(node, ast.GeneratorExp) or (isinstance(node, ast.Call) and called_name(node) in _ITERATORS)


def _only_assignment(node: ast.AST, tree: PythonTree, depth: int = 3) -> ast.Assign | None:
    """The one statement that gives a name or an attribute its value, through a few other names."""
    name, function = dotted(node), tree.function_around(node)
    if isinstance(node, ast.Name):
        bound = [item for item in FileIndex.of(tree).bindings_of(name) if tree.function_around(item) is function]
    else:
        stores = (item for item in tree.of_type(ast.Attribute) if isinstance(item.ctx, ast.Store))
        bound = [item for item in stores if name and item.attr == name.rpartition(".")[2]]
    found = tree.parent(bound[0]) if len(bound) == 1 else None
    if not isinstance(found, ast.Assign) or len(found.targets) > 1 or dotted(found.targets[0]) != name:
        return None
    is_alias = isinstance(found.value, (ast.Name, ast.Attribute))
    if is_alias:
        return _only_assignment(found.value, tree, depth - 1) if depth else None
    return found

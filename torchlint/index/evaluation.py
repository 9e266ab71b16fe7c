"""Loops of an evaluation that run with gradients on: whether they compute something, or keep what they compute."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.pytorch import api
from torchlint.pytorch.effects import Keeps
from torchlint.pytorch.naming import is_called_as_module
from torchlint.pytorch.table import last_names_with
from torchlint.syntax.python_ast import COMPREHENSIONS, FUNCTIONS, LOOPS, called_name, children, dotted, walk

if TYPE_CHECKING:
    from torchlint.index.file_index import FileIndex

_KEEPING = last_names_with(Keeps) | api.ACCUMULATING_IN_PLACE
_OFF = frozenset(name.rpartition(".")[2] for name in api.SWITCHES_OFF - api.SET_GRAD_MODE)
_ON = frozenset(name.rpartition(".")[2] for name in api.SWITCHES_ON)
_REPEATING = (ast.For, ast.AsyncFor)
_LOOPS = (*LOOPS, *COMPREHENSIONS)


def keeps_while_evaluating(index: FileIndex) -> bool:
    """Whether a loop keeps something that it computes with gradients on, where a model switches to evaluation."""
    loops = _loops_with_gradients(index, _REPEATING, {"eval"})
    return any(any(map(_keeps, nodes)) and any(_computes(index, node) for node in nodes) for nodes in loops)


def computes_while_evaluating(index: FileIndex) -> bool:
    """Whether a loop computes something with gradients on, where a model switches to evaluation."""
    loops = _loops_with_gradients(index, _LOOPS, {"eval", "train"} if _is_told_its_mode(index) else {"eval"})
    return any(_computes(index, node) for nodes in loops for node in nodes)


def _is_told_its_mode(index: FileIndex) -> bool:
    """Whether `train` is called with an argument, or passed on: `model.train(False)` switches to evaluation."""
    plain = sum(not call.args and not call.keywords for call in index.calls({"train"}))
    return plain < sum(1 for _ in index.mentions({"train"}))


def _loops_with_gradients(
    index: FileIndex, kinds: tuple[type[ast.AST], ...], switches: set[str]
) -> Iterator[list[ast.AST]]:
    """The nodes that run with gradients on in each loop of a function from which a model switches to evaluation."""
    switching = index.reaching(index.users(switches))
    if not switching:
        return
    switching |= index.methods_in_evaluation
    loops = [loop for loop in index.tree.of_type(*kinds) if not _is_below_no_grad(index, loop)]
    by_function: dict[ast.AST | None, list[ast.AST]] = {}
    for loop in loops:
        by_function.setdefault(index.outermost_function(loop), []).append(loop)
    for function, own in by_function.items():
        if not switching.isdisjoint(index.reaching([function])):
            yield from (list(_with_gradients(loop)) for loop in own)


def methods_in_evaluation(index: FileIndex) -> set[ast.AST | None]:
    """Methods of classes whose `__init__` switches to evaluation, where nothing in the file trains."""
    if next(index.mentions({"train", "backward"}), None) is not None:
        return set()
    switching = index.reaching(index.users({"eval"}))
    owners = {index.tree.parent(item) for item in switching if isinstance(item, FUNCTIONS) and item.name == "__init__"}
    classes = [item for item in owners if isinstance(item, ast.ClassDef)]
    return {item for owner in classes for item in owner.body if isinstance(item, FUNCTIONS)}


def _is_below_no_grad(index: FileIndex, node: ast.AST) -> bool:
    return any(map(_is_without_gradients, index.tree.ancestors(node)))


def _with_gradients(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, except what surely runs without gradients."""
    stack = [node]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(below for below in children(item) if not _is_without_gradients(below))


def _is_without_gradients(node: ast.AST) -> bool:
    """Whether a block or function switches gradients off, and nothing in it may switch them on."""
    if isinstance(node, (ast.With, ast.AsyncWith)):
        switches = [item.context_expr for item in node.items]
    elif isinstance(node, FUNCTIONS):
        switches = node.decorator_list
    else:
        return False
    return any(_last_name(item) in _OFF for item in switches) and not any(
        map(_may_switch_on, (item for statement in node.body for item in walk(statement)))
    )


def _may_switch_on(node: ast.AST) -> bool:
    return isinstance(node, FUNCTIONS) or (isinstance(node, ast.Call) and _last_name(node) in _ON)


def _last_name(node: ast.expr) -> str:
    """The last name of a decorator or context, called or not."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _computes(index: FileIndex, node: ast.AST) -> bool:
    """Whether a node may call a module with something, or a function of the file that does."""
    if not isinstance(node, ast.Call) or not (node.args or node.keywords):
        return False
    if isinstance(node.func, ast.Attribute):
        name = node.func.attr
        is_own = name in index.function_names or dotted(node.func.value) in ("self", "cls")
        return is_own or is_called_as_module(name)
    if isinstance(node.func, ast.Name):
        name = node.func.id
        return not (name in index.imported_names or name in index.class_names or hasattr(builtins, name))
    return True


def _keeps(node: ast.AST) -> bool:
    """Whether a node may keep a value beyond an iteration."""
    if isinstance(node, ast.Call):
        return called_name(node) in _KEEPING
    if isinstance(node, ast.AugAssign):
        return True
    if not isinstance(node, ast.Assign):
        return False
    is_slot = any(isinstance(item, ast.Subscript) for target in node.targets for item in walk(target))
    return is_slot or any(map(_may_add, walk(node.value)))


def _may_add(node: ast.AST) -> bool:
    """Whether an expression may be a sum that goes on."""
    return isinstance(node, ast.BinOp) or (isinstance(node, ast.Call) and called_name(node) in api.ACCUMULATING)

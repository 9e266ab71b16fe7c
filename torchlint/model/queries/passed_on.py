"""Attributes that a class passes on: to code that may register or change their contents, or to an optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.model.definitions import ClassInfo
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import arguments, called_name, dotted, walk

_READING = frozenset("len enumerate zip range reversed print iter list tuple sorted isinstance".split())
_REGISTERING = frozenset({"append", "insert", "Sequential", "add_module", "register_module", "setattr", "extend"})
"""Calls that register a module argument, or replace it in place."""


def attributes(info: ClassInfo) -> Iterator[str]:
    """The attributes that a class deletes, or passes to calls that may do more than read them.

    Also those whose elements go into another list, `self.pairs.append(layers[-1])`.
    """
    for node in walk(info.node):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Del):
            yield node.attr
        elif isinstance(node, ast.Attribute) and node.attr == "parameters" and not _literal_keys(node.value):
            yield from (item.attr for item in [_whole(node.value)] if isinstance(item, ast.Attribute))
        elif isinstance(node, ast.Call) and called_name(node) not in _READING:
            given = [item.value if isinstance(item, ast.Starred) else item for item in arguments(node)]
            wholes = map(_whole, given) if called_name(node) in _REGISTERING else ()
            yield from (item.attr for item in (*given, *wholes) if isinstance(item, ast.Attribute))
            if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Attribute):
                if node.func.attr == "append" and any(isinstance(item, ast.Subscript) for item in given):
                    yield node.func.value.attr
        elif isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Attribute):
            yield node.value.attr
        elif isinstance(node, (ast.For, ast.comprehension)):
            yield from _given_one_by_one(node, info)


def optimized_keys(info: ClassInfo, name: str) -> set[object]:
    """The literal keys of an attribute's elements whose parameters a class reads: `self.x["head"].parameters()`."""
    reads = (node for node in walk(info.node) if isinstance(node, ast.Attribute))
    parts = (node.value for node in reads if node.attr == "parameters")
    return {key for part in parts for key in _literal_keys(part) if dotted(_whole(part)) == f"self.{name}"}


def _literal_keys(node: ast.expr) -> list[object]:
    """The literal key of an element: of `self.heads["a"]`, but not of `self.heads[i]`."""
    key = node.slice if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) else None
    return [key.value] if isinstance(key, ast.Constant) else []


def _given_one_by_one(loop: ast.For | ast.comprehension, info: ClassInfo) -> Iterator[str]:
    """The attribute whose elements all go elsewhere: `net.append(layer)`, `by_name[i] = head`, an optimizer."""
    over = [item.attr for item in walk(loop.iter) if isinstance(item, ast.Attribute)]
    names = {item.id for item in walk(loop.target) if isinstance(item, ast.Name)}
    if not over or not names:
        return
    first = info.methods.get("__init__")
    is_later = first is None or loop not in walk(first.node)
    for node in walk(loop if isinstance(loop, ast.For) else info.node):
        given = [*_given_away(node), *(_set_by_hand(node) if is_later else ())]
        if any(isinstance(item, ast.Name) and item.id in names for item in map(_whole, given)):
            yield from over
            return


def _whole(node: ast.expr) -> ast.expr:
    """The owner of a part or an element: `self.blocks` in `self.blocks[0].layers`, `block` in `block.layers`."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and not _is_own(node)):
        node = node.value
    return node


def _is_own(node: ast.Attribute) -> bool:
    return dotted(node.value) == "self"


def _given_away(node: ast.AST) -> list[ast.expr]:
    """The objects that a node registers, wraps, stores under a key, or whose parameters it reads."""
    if isinstance(node, ast.Call):
        name = called_name(node)
        return arguments(node) if name in _REGISTERING or naming.is_class_name(name) else []
    if isinstance(node, ast.Assign):
        return [node.value] if any(isinstance(item, ast.Subscript) for item in node.targets) else []
    return [node.value] if isinstance(node, ast.Attribute) and node.attr == "parameters" else []


def _set_by_hand(node: ast.AST) -> list[ast.expr]:
    """The weights that code computes itself, as evolution strategies do: `layer.weight.data = found[i]`."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [item.value for item in targets if isinstance(item, ast.Attribute) and item.attr == "data"]


def is_gone_through(info: ClassInfo, name: str) -> bool:
    """Whether a class iterates over an attribute's elements, and takes hidden modules out of the list."""
    nodes = [item.node for item in info.ancestors() if isinstance(item, ClassInfo)]
    loops = (node for own in nodes for node in walk(own) if isinstance(node, (ast.For, ast.comprehension)))
    return any(item.attr == name for loop in loops for item in _attributes_gone_through(loop.iter))


def _attributes_gone_through(node: ast.expr) -> Iterator[ast.Attribute]:
    """The attributes whose elements a loop iterates over: of `enumerate(self.x)`, `self.x or ()`."""
    if isinstance(node, ast.Attribute):
        yield node
    elif isinstance(node, ast.BoolOp):
        yield from (item for value in node.values for item in _attributes_gone_through(value))
    elif isinstance(node, ast.Call) and called_name(node) in _READING:
        yield from (item for value in node.args for item in _attributes_gone_through(value))

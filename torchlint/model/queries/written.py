"""The expression assigned to a name or an attribute, if one place in its function or class shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.index import FileIndex
from torchlint.model.definitions import ClassInfo, Definitions, FunctionInfo
from torchlint.model.queries import names
from torchlint.syntax.python_ast import dotted, walk

_STEPS = 4


def value_of(node: ast.expr, definitions: Definitions) -> ast.expr:
    """The meaning of an expression: the only value of a variable or of an attribute of `self`, or the expression."""
    for _ in range(_STEPS):
        found = only_value(node, definitions)
        if found is None:
            break
        node = found
    return node


def only_value(node: ast.expr, definitions: Definitions) -> ast.expr | None:
    """The only value of a variable of a function or the module, or of an attribute of `self`."""
    if isinstance(node, ast.Name):
        found = names.only_value(node, definitions)
        return found if found is not None else _of_module(node, definitions)
    is_own = isinstance(node, ast.Attribute) and dotted(node.value) == "self"
    return attribute_value(node, definitions) if isinstance(node, ast.Attribute) and is_own else None


def value_in_file(node: ast.expr, definitions: Definitions) -> ast.expr | None:
    """The same, or of an attribute of another object that one method of the file sets: `dataset.weights`."""
    found = only_value(node, definitions)
    if found is not None or not isinstance(node, ast.Attribute) or dotted(node.value) == "self":
        return found
    stores = list(FileIndex.of(definitions.tree).stores_of(node.attr))
    is_one = len(stores) == 1 and definitions.method_around(stores[0]) is not None
    return assigned(stores[0], definitions) if is_one and isinstance(node.value, ast.Name) else None


def method_in_file(node: ast.expr, definitions: Definitions) -> FunctionInfo | None:
    """The method behind `dataset.m`, if one class of the file has this method and nothing sets the attribute."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return None
    is_other = any(FileIndex.of(definitions.tree).stores_of(node.attr)) or node.value.id in definitions.imports
    found = [item for item in definitions.functions.values() if item.name == node.attr and item.owner is not None]
    return found[0] if len(found) == 1 and not is_other else None


def only_method(node: ast.expr, definitions: Definitions) -> FunctionInfo | None:
    """The method behind `model.metric.compute`, if one class of the file has a method of this name."""
    if not isinstance(node, ast.Attribute) or dotted(node).partition(".")[0] in definitions.imports:
        return None
    found = [item for item in definitions.functions.values() if item.name == node.attr and item.owner is not None]
    return found[0] if len(found) == 1 else None


def _of_module(name: ast.Name, definitions: Definitions) -> ast.expr | None:
    """The value of a module variable that a function reads."""
    around = definitions.function_around(name)
    if around is None or name.id in around.parameters:
        return None
    stores = FileIndex.of(definitions.tree).bindings_of(name.id)
    statement = definitions.tree.parent(stores[0]) if len(stores) == 1 else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or statement.targets[0] is not stores[0]:
        return None
    return statement.value if definitions.function_around(statement) is None else None


def attribute_value(node: ast.Attribute, definitions: Definitions) -> ast.expr | None:
    """The only value that the methods of a class give to an attribute."""
    around = definitions.method_around(node)
    if around is None or around.owner is None:
        return None
    found = list(stores_of(node.attr, around.owner))
    if len(found) != 1:
        return None
    return assigned(found[0], definitions) or _part_of_result(found[0], around.owner, definitions)


def _part_of_result(target: ast.expr, owner: ClassInfo, definitions: Definitions) -> ast.expr | None:
    """One of several values that a method returns at its only end: `self.x, self.y = self.load()`."""
    around = definitions.tree.parent(target)
    statement = definitions.tree.parent(around) if isinstance(around, ast.Tuple) else None
    call = statement.value if isinstance(statement, ast.Assign) else None
    name = dotted(call.func).removeprefix("self.") if isinstance(call, ast.Call) else ""
    method = owner.methods.get(name)
    if method is None or method.decorators or not isinstance(around, ast.Tuple):
        return None
    returned = [node.value for node in walk(method.node) if isinstance(node, ast.Return)]
    return _counterpart(target, around, returned[0]) if len(returned) == 1 else None


def _counterpart(target: ast.expr, targets: ast.Tuple, values: ast.expr | None) -> ast.expr | None:
    """The item of a tuple that a target of another tuple gets; None if the tuples do not pair up."""
    if not isinstance(values, ast.Tuple) or len(values.elts) != len(targets.elts):
        return None
    return values.elts[targets.elts.index(target)]


def assigned(target: ast.expr, definitions: Definitions) -> ast.expr | None:
    """The expression that an assignment gives to a target, also in a tuple: `self.x, self.y = x, y`."""
    around = definitions.tree.parent(target)
    statement = definitions.tree.parent(around) if isinstance(around, ast.Tuple) else around
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    if not isinstance(around, ast.Tuple):
        return statement.value
    return _counterpart(target, around, statement.value)


def stores_of(attribute: str, owner: ClassInfo) -> Iterator[ast.Attribute]:
    """The places where the methods of a class set an attribute."""
    for node in walk(owner.node):
        if isinstance(node, ast.Attribute) and node.attr == attribute and not is_load(node):
            if dotted(node.value) == "self":
                yield node


def is_load(node: ast.Name | ast.Attribute | ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Load)


def argument(call: ast.Call, index: int, name: str) -> ast.expr | None:
    """The argument at a position, or by its name; None if the call lacks it, or has a star before it."""
    if any(isinstance(item, ast.Starred) for item in call.args[: index + 1]):
        return None
    named = [item.value for item in call.keywords if item.arg == name]
    return call.args[index] if index < len(call.args) else named[0] if named else None

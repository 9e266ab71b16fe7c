"""Uses: all places that read or set a variable or an attribute, if no other code can reach it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.index import FileIndex
from torchlint.model.definitions import ClassInfo
from torchlint.model.queries import callees, variables
from torchlint.syntax.python_ast import dotted

if TYPE_CHECKING:
    from torchlint.model.model import Model
    from torchlint.syntax.python_tree import PythonTree

_BY_NAME = (b"getattr(", b"vars(", b"__dict__")
"""Words of code that may reach an attribute by its name."""


def of_place(target: ast.expr, model: Model) -> list[ast.Name | ast.Attribute] | None:
    """The places that read or set the same variable, or the same attribute of `self`; None if other code may do so.

    Other files may call an attribute, such as a network. These calls are not in the list.
    """
    if isinstance(target, ast.Name):
        return _uses_of_name(target, model)
    method = model.definitions.method_around(target)
    owner = method.owner if method is not None else None
    if owner is None or not isinstance(target, ast.Attribute) or dotted(target.value) != "self":
        return None
    others = (info for info in model.definitions.classes.values() if info is not owner)
    is_derived = any(owner in info.ancestors() for info in others)
    is_by_name = any(word in model.tree.source.code for word in _BY_NAME)
    if is_derived or is_by_name or any(isinstance(item, ClassInfo) for item in owner.ancestors() if item is not owner):
        return None
    importers = model.importers(owner.name, (f".{target.attr}".encode(),))
    if not all(_only_calls(target.attr, item.tree) for item in importers):
        return None
    return [item for item in model.tree.of_type(ast.Attribute) if item.attr == target.attr]


def stores(place: ast.expr, model: Model) -> list[ast.Name | ast.Attribute] | None:
    """The places that set a variable of the function, or an attribute of the own object; None if others may do so."""
    definitions = model.definitions
    if isinstance(place, ast.Attribute):
        method = definitions.method_around(place)
        is_own = method is not None and dotted(place.value) in method.parameters[:1]
        if method is None or not is_own or b"setattr" in model.tree.source.code:
            return None
        return [item for item in model.stores_of(place.attr) if _may_be_of(item, method.owner, model)]
    if not isinstance(place, ast.Name) or variables.is_shared(place.id, definitions):
        return None
    return (
        [*variables.bindings(place.id, place, definitions)]
        if not variables.is_parameter(place.id, place, definitions)
        else None
    )


def _may_be_of(store: ast.Attribute, owner: ClassInfo | None, model: Model) -> bool:
    """Whether an attribute may belong to an object of a class: not `self.x` of an unrelated class."""
    if owner is None or dotted(store.value) != "self":
        return True
    if model.tree.parent(store) is None:  # in another file
        return next(model.importers(owner.name, (b"(%s" % owner.name.encode(),)), None) is not None
    method = model.definitions.method_around(store)
    return method is None or owner.is_related_to(method.owner)


def _only_calls(attribute: str, tree: PythonTree) -> bool:
    """Whether code calls an attribute of this name, and does nothing else with it."""
    nodes = (node for node in tree.of_type(ast.Attribute) if node.attr == attribute)
    parents = ((node, tree.parent(node)) for node in nodes)
    return all(isinstance(parent, ast.Call) and parent.func is node for node, parent in parents)


def _uses_of_name(name: ast.Name, model: Model) -> list[ast.Name | ast.Attribute] | None:
    """The uses of a variable of a function, also in functions inside it, or of a module that no other file imports."""
    definitions, index = model.definitions, FileIndex.of(model.tree)
    around = definitions.function_around(name)
    same = [*index.bindings_of(name.id), *index.reads_of(name.id)]
    scope = around.node if around is not None else model.tree.module
    if variables.is_shared(name.id, definitions) or callees.reads_by_text(scope, definitions):
        return None
    if around is not None:
        own = {item for item in same if definitions.function_around(item) is around}
        inside = (item for item in same if around.node in model.tree.ancestors(item))
        return [item for item in inside if item in own or not variables.is_parameter(name.id, item, definitions)]
    if next(model.importers(name.id, (name.id.encode(),)), None) is not None:
        return None
    return [item for item in same if definitions.scopes.binding(item.id, item) is None]

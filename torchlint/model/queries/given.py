"""The expressions that a program gives to parameters, attributes and entries of its configuration, in any file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.index import FileIndex
from torchlint.model.definitions import Definitions, FunctionInfo, defaults_of
from torchlint.model.program import Program
from torchlint.model.queries import written
from torchlint.syntax.python_ast import FUNCTIONS, called_name, last_name

if TYPE_CHECKING:
    from torchlint.model.model import Model


def argument_for(node: ast.expr, program: Program) -> ast.expr | None:
    """The expression that the only call of a function, or of a class, passes for the parameter that a name reads."""
    definitions = program.definitions_of(node)
    around = definitions.function_around(node) if isinstance(node, ast.Name) else None
    while isinstance(node, ast.Name) and around is not None and node.id not in around.parameters:
        around = around.enclosing if node.id not in definitions.names_assigned([around.node]) else None
    if not isinstance(node, ast.Name) or around is None or node.id in definitions.names_assigned([around.node]):
        return None
    calls = list(_calls_of(around, program))
    place = around.parameters.index(node.id) - int(around.is_method)
    return written.argument(calls[0], place, node.id) if len(calls) == 1 and place >= 0 else None


def may_give(call: ast.Call, parameter: str, place: int, called: str) -> bool:
    """Whether a call to the function `called` passes a parameter, or may do so by position or a star."""
    names = {item.arg for item in call.keywords}
    if parameter in names or called_name(call) != called:
        return parameter in names
    return None in names or len(call.args) > place or any(isinstance(item, ast.Starred) for item in call.args)


def default_of(node: ast.expr, model: Model, *, is_called: bool = False) -> ast.expr | None:
    """The default of a parameter that no call of its function or class gives, in any file.

    The parameter that a name reads, or that a method stores in the attribute. With `is_called` there must be a call.
    """
    definitions = model.definitions
    name = written.attribute_value(node, definitions) if isinstance(node, ast.Attribute) else node
    function = definitions.function_around(name) if isinstance(name, ast.Name) else None
    if function is None or not isinstance(name, ast.Name) or name.id not in function.parameters:
        return None
    called = function.owner.name if function.name == "__init__" and function.owner is not None else function.name
    files = [definitions, *model.importers(called, (called.encode(),))]
    calls = [call for file in files for call in FileIndex.of(file.tree).calls_named(called)]
    place = function.parameters.index(name.id) - int(function.is_method)
    if (is_called and not calls) or any(may_give(call, name.id, place, called) for call in calls):
        return None
    return defaults_of(function.node).get(name.id)


def values_of(node: ast.expr, model: Model, file: Definitions | None = None, steps: int = 3) -> list[ast.expr]:
    """The constants that a parameter may have: its default, and what all calls give; empty if one is unknown.

    The parameter that a name reads, or that a method stores in the attribute. A caller may hand its own parameter on.
    """
    definitions = model.definitions if file is None else file
    name = written.attribute_value(node, definitions) if isinstance(node, ast.Attribute) else node
    function = definitions.function_around(name) if isinstance(name, ast.Name) else None
    if function is None or not isinstance(name, ast.Name) or name.id not in function.parameters or not steps:
        return [node] if isinstance(node, ast.Constant) else []
    called = function.owner.name if function.name == "__init__" and function.owner is not None else function.name
    files = [definitions, *(model.importers(called, (called.encode(),)) if file is None else ())]
    place = function.parameters.index(name.id) - int(function.is_method)
    default, found = defaults_of(function.node).get(name.id), list[ast.expr]()
    calls = [(call, each) for each in files for call in FileIndex.of(each.tree).calls_named(called)]
    for call, caller in calls:
        is_given = may_give(call, name.id, place, called)
        value = written.argument(call, place, name.id) if is_given else default
        inner = values_of(value, model, caller, steps - 1) if value is not None else []
        if not inner:
            return []
        found += inner
    return found if calls else [default] if isinstance(default, ast.Constant) else []


def stored_for(node: ast.expr, program: Program) -> ast.expr | None:
    """The only expression that the program assigns to an attribute or an entry: `args.total`, `config["total"]`."""
    name, owner = _entry(node), _owner(node)
    stores = [store for store in _stores(name, program) if _may_be_same(store, node, program)] if name else []
    if len(stores) != 1 or _is_conditional(stores[0], program):
        return None
    if isinstance(node, ast.Attribute) and owner == "self":
        return written.attribute_value(node, program.definitions_of(node))
    return written.assigned(stores[0], program.definitions_of(stores[0]))


def _calls_of(function: FunctionInfo, program: Program) -> Iterator[ast.Call]:
    is_constructor = function.name == "__init__" and function.owner is not None
    name = function.owner.name if is_constructor and function.owner is not None else function.name
    for tree in program.files:
        yield from FileIndex.of(tree).calls_named(name)


def _entry(node: ast.AST) -> str:
    """The name of an attribute or of an entry of a dictionary."""
    if isinstance(node, ast.Attribute):
        return node.attr
    key = node.slice if isinstance(node, ast.Subscript) else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _owner(node: ast.expr) -> str:
    return last_name(node.value) if isinstance(node, (ast.Attribute, ast.Subscript)) else ""


def _may_be_same(store: ast.expr, node: ast.expr, program: Program) -> bool:
    """Whether an assignment may set what an expression reads: of an object of this name, or of a related class."""
    if type(store) is not type(node) or "self" not in (_owner(store), _owner(node)):
        return type(store) is type(node) and _owner(store) == _owner(node)
    if _owner(store) != _owner(node):
        return _owner(node) == "self"
    methods = [program.definitions_of(item).method_around(item) for item in (store, node)]
    one, other = (method.owner if method is not None else None for method in methods)
    return one is None or other is None or one in other.ancestors() or other in one.ancestors()


def _stores(name: str, program: Program) -> Iterator[ast.expr]:
    """The places that set, change or delete an attribute or an entry of this name, of any object."""
    for node in program.nodes(ast.Attribute, ast.Subscript):
        if not isinstance(node.ctx, ast.Load) and _entry(node) == name:
            yield node


def _is_conditional(node: ast.expr, program: Program) -> bool:
    """Whether a condition in its function decides whether an assignment happens."""
    for item in program.definitions_of(node).tree.ancestors(node):
        if isinstance(item, (ast.If, ast.Match, ast.Try)):
            return True
        if isinstance(item, FUNCTIONS):
            break
    return False

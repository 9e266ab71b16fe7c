"""Modules that two objects are built from: a state loaded into one of them then reaches the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import ClassInfo, Definitions
from torchlint.model.queries import torch_classes, variables
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import dotted, names_read, start_of, walk

_COPYING = LazyPattern(r"(?i)(?:^|_)ema(?:_|$)|ema$|^ema|averag|deepcopy|^copy$|\.copy$|\.clone$")
"""Names of calls that copy the modules they get."""


def is_filled(made: ast.AST, place: str, load: ast.AST, definitions: Definitions) -> bool:
    """Whether a new object under a name is built from a module that the load into its predecessor filled.

    Both were built from it: `Pretraining(encoder)` and `Classifier(encoder)`. Or it is a part of the predecessor that a
    variable holds.
    """
    value = _value(made, definitions)
    given = {name for name in _given(value) if _is_module(name, load, definitions)} if value is not None else set()
    for name in list(given):
        around = list(_values(name, load, definitions))
        if value is not None and any(start_of(load) < start_of(item) < start_of(value) for item in around):
            given.discard(name)  # another module by then
            continue
        around = [item for item in around if start_of(item) < start_of(load)]
        if any(item == place or item.startswith(f"{place}.") for each in around for item in names_read(each)):
            return True
    before = (
        item for item in _values(place, load, definitions) if item is not value and start_of(item) < start_of(load)
    )
    return any(not given.isdisjoint(_given(item)) for item in before)


def _value(made: ast.AST, definitions: Definitions) -> ast.expr | None:
    """The value of the assignment to a name."""
    statement = definitions.tree.statement(made)
    return statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None


def _values(place: str, near: ast.AST, definitions: Definitions) -> Iterator[ast.expr]:
    """The values assigned to a variable of the function around a node, or to an attribute of `self` in the file."""
    found: list[ast.expr] = []
    if "." not in place:
        found += variables.bindings(place, near, definitions)
    else:
        attributes = definitions.tree.of_type(ast.Attribute)
        found += [item for item in attributes if isinstance(item.ctx, ast.Store) and dotted(item) == place]
    for item in found:
        value = _value(item, definitions)
        if value is not None:
            yield value


def _given(value: ast.expr) -> set[str]:
    """The names that calls in an expression get as arguments, also in lists; those that a call copies do not count."""
    found: set[str] = set()
    for call in (item for item in walk(value) if isinstance(item, ast.Call) and not _COPYING.search(dotted(item.func))):
        for item in (*call.args, *(each.value for each in call.keywords)):
            whole = item.value if isinstance(item, ast.Starred) else item
            found |= {dotted(each) for each in (whole.elts if isinstance(whole, (ast.List, ast.Tuple)) else [whole])}
    return found - {""}


def _is_module(name: str, near: ast.AST, definitions: Definitions) -> bool:
    """Whether a name is one of a network, or holds an object of a module's class."""
    if naming.MODULE.search(name.rpartition(".")[2]):
        return True
    made = (item for item in _values(name, near, definitions) if isinstance(item, ast.Call))
    return any(_makes_module(item, definitions) for item in made)


def _makes_module(call: ast.Call, definitions: Definitions) -> bool:
    info = definitions.class_named(dotted(call.func))
    if isinstance(info, ClassInfo):
        return torch_classes.is_module_class(info)
    return definitions.named(call.func).startswith(("torch.nn.", "torchvision.models.", "timm."))

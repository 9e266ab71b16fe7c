"""Parts of a dataset that share its object: subsets, and loaders with samplers of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names, variables, written
from torchlint.pytorch import datasets
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import ClassInfo, Definitions


_DRAW = LazyPattern(r"^(?:np\.random|numpy\.random|random|torch)\.(?:rand\w*|uniform|choice|rand)$")
_MOVING = LazyPattern(r"^(?:[hv]?flip(?:_?lr|_?ud)?|rotate|affine|[hv]flip|rot90)$")
_MODE = LazyPattern(r"(?i)train|augment|mode|phase|split|^is_|eval|val|test|random|^p(?:rob)?$")

_PER_SAMPLE = ("__getitem__", "__call__")
"""The methods of a dataset and of a transform that give one sample."""


class Part(NamedTuple):
    """The variable `name` gets the part that `call` takes of the dataset `made`."""

    call: ast.Call
    name: str
    made: ast.expr


def parts_of(definitions: Definitions) -> Iterator[Part]:
    """The subsets that code assigns to a name, and the loaders with samplers; changed datasets are left out."""
    for statement in definitions.tree.of_type(ast.Assign):
        call, name = statement.value, python_ast.dotted(statement.targets[0])
        if isinstance(call, ast.Call) and name and (dataset := _whole(call, definitions)) is not None:
            made = _value_before(dataset, definitions)
            if not _is_changed(python_ast.dotted(dataset), definitions):
                yield Part(call, name, made)


def _whole(call: ast.Call, definitions: Definitions) -> ast.expr | None:
    """The dataset of a subset, or of a loader with a sampler."""
    kind = names.imported(call.func, definitions)
    inner = written.argument(call, 0, "dataset") if kind in datasets.LOADERS else None
    if isinstance(inner, ast.Call):
        return _whole(inner, definitions)
    if kind in datasets.SUBSETS:
        return written.argument(call, 0, "dataset")
    has_sampler = any(item.arg == "sampler" and not python_ast.is_literal(item.value, None) for item in call.keywords)
    return written.argument(call, 0, "dataset") if kind in datasets.LOADERS and has_sampler else None


def random_call(made: ast.Call, definitions: Definitions) -> ast.expr | None:
    """The random draw by which the class of a dataset or transform changes each sample, whatever its mode.

    The change flips or turns the sample.
    """
    info = definitions.class_named(python_ast.dotted(made.func))
    found = (info.methods.get(name) for name in _PER_SAMPLE) if info is not None else ()
    method = next((item for item in found if item is not None), None)
    if method is None or method.definitions is not definitions:
        return None
    nodes = list(python_ast.walk(method.node))
    own = (node for node in nodes if isinstance(node, ast.Attribute) and python_ast.dotted(node.value) == "self")
    if any(_MODE.search(node.attr) for node in own):
        return None
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    draws = [node for node in calls if _DRAW.search(python_ast.dotted(node.func))]
    is_moved = any(_MOVING.search(python_ast.called_name(node)) for node in calls)
    return draws[0] if draws and is_moved else None


def applies_transform(info: ClassInfo) -> bool:
    """Whether the class of a dataset applies its transform to each sample, whatever its mode."""
    method = info.method("__getitem__")
    if method is None:
        return False
    nodes = list(python_ast.walk(method.node))
    applied = (node for node in nodes if isinstance(node, ast.Call))
    tests = [node.test for node in nodes if isinstance(node, (ast.If, ast.IfExp))]
    return any(python_ast.dotted(node.func) in ("self.transform", "self.transforms") for node in applied) and not any(
        isinstance(item, (ast.Name, ast.Attribute)) and _MODE.search(python_ast.last_name(item))
        for test in tests
        for item in python_ast.walk(test)
    )


def _value_before(node: ast.expr, definitions: Definitions) -> ast.expr:
    """The meaning of an expression; for a variable bound several times in one block, its last value before the use."""
    if not isinstance(node, ast.Name):
        return written.value_of(node, definitions)
    last = variables.value_before(node, definitions)
    return last if last is not None else written.value_of(node, definitions)


def _is_changed(dataset: str, definitions: Definitions) -> bool:
    """Whether code calls a method of a dataset or sets its attribute, or sets the transform of any other object."""
    for node in definitions.tree.of_type(ast.Attribute):
        owner, around = python_ast.dotted(node.value), definitions.tree.parent(node)
        if owner == dataset and isinstance(around, ast.Call) and around.func is node:
            return True
        if not written.is_load(node) and owner != "self" and (owner == dataset or node.attr.startswith("transform")):
            return True
    return False


def is_replaced_part(part: Part, definitions: Definitions) -> bool:
    """Whether the program may replace a subset's dataset; a loader keeps its dataset."""
    is_subset = names.imported(part.call.func, definitions) in datasets.SUBSETS
    return is_subset and is_replaced(part.name, part.call, definitions)


def is_replaced(part: str, made: ast.Call, definitions: Definitions) -> bool:
    """Whether the program may replace a part's transform or dataset: `val_set.dataset = ...`, `Subset(...)`."""
    for node in definitions.tree.of_type(ast.Name, ast.Attribute):
        if python_ast.dotted(node) != part or (isinstance(node, ast.Name) and _is_elsewhere(node, made, definitions)):
            continue
        around = definitions.tree.parent(node)
        if isinstance(around, ast.Attribute) and around.attr in ("dataset", "indices", "transform"):
            return True
        if isinstance(around, ast.Call) and python_ast.called_name(around) not in ("len", "DataLoader", "print"):
            return True
    return False


def _is_elsewhere(name: ast.Name, made: ast.Call, definitions: Definitions) -> bool:
    """Whether a name in another function is another variable than that of a function's dataset."""
    function = definitions.function_around(made)
    return function is not None and definitions.function_around(name) is not function

"""Datasets for training and for validation that name the same split."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import held_out
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site

_SPLIT = LazyPattern(r"(?i)^(train|training|trn|val|valid|validation|test|dev|eval)$")
_MODE = LazyPattern(
    r"(?i)^(split|set|mode|phase|subset|partition|image_set|part|flag|type|dataset_type|data_type|stage)$"
)
_FREE = LazyPattern(r"(?i)transform|augment|aug$|shuffle|batch|worker|drop|crop|size|repeat|return")
_PARTS = LazyPattern(r"(?i)split|subset|sampl|indices|index|fold|\bidx|debug|overfit|sanity|smoke|k_?means")


class EqualSplit(NamedTuple):
    """The datasets at `site` and `other`, for held-out data and for training, both name the split `split`."""

    site: Site
    other: Site
    split: str


def of_model(model: Model) -> Iterator[EqualSplit]:
    made = list(_made(model))
    for name, call, split in made:
        if not held_out.is_named_held_out(name):
            continue
        for other, first, same in made:
            if same == split and held_out.is_named_training(other) and _are_alike(call, first):
                if _are_together(call, first, model):
                    places = (call, first) if held_out.is_named_training(split) else (first, call)
                    sites = [python_ast.site_of(item) for item in places]
                    yield EqualSplit(sites[0], sites[1], split)
                    break


def _made(model: Model) -> Iterator[tuple[str, ast.Call, str]]:
    """The datasets of the program that name a split, with the name of their use."""
    for call in model.tree.of_type(ast.Call):
        splits = [item.value for item in call.keywords if item.arg and _MODE.search(item.arg)]
        info = model.definitions.class_named(python_ast.dotted(call.func)) if splits or call.args else None
        if info is None or info.method("__getitem__") is None:
            continue
        found = [item.value for item in [*splits, *call.args] if isinstance(item, ast.Constant)]
        words = [item for item in found if isinstance(item, str) and _SPLIT.search(item)]
        name = _use(call, model) if len(words) == 1 else ""
        if name:
            yield name, call, words[0]


def _use(call: ast.Call, model: Model) -> str:
    """The variable or the key of a dictionary that a dataset or its loader is for."""
    node: ast.AST = call
    for item in model.tree.ancestors(call):
        if isinstance(item, ast.Dict) and node in item.values:
            key = item.keys[item.values.index(node)]
            return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
        if isinstance(item, ast.Assign):
            return python_ast.dotted(item.targets[0])
        if not isinstance(item, (ast.Call, ast.keyword)):
            return ""
        node = item
    return ""


def _are_alike(call: ast.Call, first: ast.Call) -> bool:
    """Whether two calls create the same data, apart from transforms and settings of loaders."""
    if ast.dump(call.func) != ast.dump(first.func) or len(call.args) != len(first.args):
        return False
    pairs = zip(call.args, first.args, strict=True)
    if any(ast.dump(own) != ast.dump(other) and not _is_free(own) for own, other in pairs):
        return False
    own, other = ({item.arg: item.value for item in each.keywords} for each in (call, first))
    return all(
        name is not None
        and (_FREE.search(name) or (name in own and name in other and _is_equal(own[name], other[name])))
        for name in own.keys() | other.keys()
    )


def _is_equal(own: ast.expr, other: ast.expr) -> bool:
    return ast.dump(own) == ast.dump(other)


def _is_free(node: ast.expr) -> bool:
    return bool(_FREE.search(python_ast.dotted(node)))


def _are_together(call: ast.Call, first: ast.Call, model: Model) -> bool:
    """Whether one block or one dictionary creates both, and nothing there takes parts of the data."""
    own, other = model.tree.statement(call), model.tree.statement(first)
    if other is not own and other not in model.tree.block(call):
        return False
    scope = model.tree.scope_around(call)
    nodes = (item for item in python_ast.walk(scope) if isinstance(item, (ast.Name, ast.Attribute)))
    return not any(_PARTS.search(python_ast.last_name(item)) for item in nodes)

"""Iterable datasets that give the same data, to the end, in each worker of a loader."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.model.definitions import ClassInfo, FunctionInfo

_BASE = LazyPattern(r"^torch\.utils\.data\.(?:dataset\.)?IterableDataset$")
PARTS = LazyPattern(
    r"(?i)worker_?(?:info|id|init)|rank\b|world_?size|shard|webdataset|\bwds\b|\bdatasets\b|datapipe|torchdata|litdata"
    r"|streaming|accelerat|lightning"
)
"""Words of programs that may give each worker its own part of the data."""
_ENDLESS = LazyPattern(r"(?i)\bwhile\b|cycle|count\(|queue|socket|\benv|replay|buffer")
"""Words of classes whose data may have no end."""
_RANDOM = LazyPattern(r"(?i)rand|shuffl|sampl|choice|permut|rng|generator")
"""Words of code that may give other data in each worker."""
_SOURCES = LazyPattern(r"Sampler\(|Random(State)?\(|Generator\(|default_rng\(")
"""Objects that give other data at each use."""


def reads_all(info: ClassInfo) -> bool:
    """Whether a class iterates over the same data in each worker."""
    method = info.methods.get("__iter__")
    bases = [item for item in info.ancestors() if item is not info]
    if method is None or len(bases) != 1 or not isinstance(bases[0], str) or not _BASE.search(bases[0]):
        return False
    tree = method.definitions.tree
    is_finite = not _ENDLESS.search(tree.code(info.node)) and not PARTS.search(tree.source.text)
    run = _run_by(method)
    is_same = not any(_RANDOM.search(tree.code(item.node)) for item in run) and not _reads_source(info, run)
    returns = [item.value for item in names.own_nodes(method.node) if isinstance(item, ast.Return)]
    calls = [item for item in returns if isinstance(item, ast.Call)]
    made = [names.function(item.func, method.definitions) for item in calls]
    is_iterator = any(python_ast.called_name(item) == "iter" for item in calls) or (
        bool(made) and all(item is not None and item.is_generator for item in made)
    )
    return is_finite and is_same and not method.decorators and (method.is_generator or is_iterator)


def _run_by(method: FunctionInfo) -> list[FunctionInfo]:
    """A method, and the methods of its class that it calls, at any depth."""
    found = [method]
    for item in found:
        calls = (node for node in names.own_nodes(item.node) if isinstance(node, ast.Call))
        called = (names.function(node.func, item.definitions) for node in calls)
        found.extend(dict.fromkeys(other for other in called if other is not None and other not in found))
    return found


def _reads_source(info: ClassInfo, run: list[FunctionInfo]) -> bool:
    """Whether methods read an attribute that the class sets to an object which gives other data at each use."""
    nodes = [node for item in run for node in python_ast.walk(item.node) if isinstance(node, ast.Attribute)]
    read = {node.attr for node in nodes}
    tree = run[0].definitions.tree
    stores = (node for node in python_ast.walk(info.node) if isinstance(node, ast.Attribute) and node.attr in read)
    written_ = [tree.statement(node) for node in stores if isinstance(node.ctx, ast.Store)]
    return any(_SOURCES.search(tree.code(item)) for item in written_ if item is not None)

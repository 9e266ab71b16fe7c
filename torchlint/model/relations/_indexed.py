"""Datasets of a program whose index decides which sample they give."""

from __future__ import annotations

import ast

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.definitions import ClassInfo
from torchlint.model.values import Answer
from torchlint.syntax.python_ast import called_name, names_read, walk

_ITERABLE = "IterableDataset"
_OTHER_ORDERS = frozenset({"__iter__", "__getitems__"})
_DRAWS = LazyPattern(r"(?i)shuffl|permut|choice|sampl|rand_?int|randrange|epoch")
"""Methods and functions by which a dataset may choose its samples, or change their order."""


def index_decides(info: ClassInfo) -> Answer:
    """Whether the index decides which sample the datasets of a class give."""
    bases = list(info.ancestors())
    if any(isinstance(item, str) and item.endswith(_ITERABLE) for item in bases):
        return Answer.NO
    method = info.method("__getitem__")
    if method is None or any(info.method(name) is not None for name in _OTHER_ORDERS):
        return Answer.NO if info.method("__iter__") is not None else Answer.UNKNOWN
    if len(method.parameters) < 2 or isinstance(method.node, ast.Lambda):
        return Answer.UNKNOWN
    if not any(method.parameters[1] in names_read(item) for item in method.node.body):
        return Answer.NO
    own = [item for item in bases if isinstance(item, ClassInfo)]
    called = {called_name(node) for item in own for node in walk(item.node) if isinstance(node, ast.Call)}
    return Answer.UNKNOWN if any(map(_DRAWS.search, called.union(*(item.methods for item in own)))) else Answer.YES

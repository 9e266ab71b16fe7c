"""Bytes -> whether a question is worth a parse: a coarse reading, long before the model's exact one.

LibCST reads 26,000 lines a second, and most files that change something in place change counters, lists and buffers. So
this looks at bytes first (is there anything that autograd could follow, and where is something changed in place?), and
reads only those functions, with Python's own parser, for what may have been saved before it is changed. For a rule that
has a word, it reads the functions in which that stands: is it called, and in a loop?

It must not say no where the model finds something: what it does not understand is a yes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from torchlint.prefilter import searches, statements
from torchlint.prefilter.outline import Outline
from torchlint.prefilter.signs import AnyWord
from torchlint.prefilter.statements import stands_alone
from torchlint.pytorch.triggers import BACKWARD, holds
from torchlint.syntax.spelling import with_plain_lines

if TYPE_CHECKING:
    from torchlint.prefilter.changes import Changes
    from torchlint.prefilter.init_methods import Initializer

__all__ = [
    "AnyWord",
    "Initializer",
    "calls_for_nothing",
    "calls_in_method",
    "goes_backward",
    "initializers",
    "may_change_leaf",
    "may_change_saved_tensor",
    "may_empty_cache_in_loop",
    "may_evaluate_with_grad",
    "may_keep_graph",
    "optimizes",
    "plain",
    "renames_classes",
    "stands_alone",
    "training_names",
]


def calls_for_nothing(data: bytes, pattern: re.Pattern[bytes], matters: Callable[[ast.Attribute], bool]) -> bool:
    """Whether a statement of a file does nothing but call a method that matters; `pattern` matches every such call."""
    return statements.calls_for_nothing(Outline.of(data), pattern, matters)


def may_change_saved_tensor(data: bytes) -> bool:
    """Whether a file may change a tensor in place that autograd has saved for backward."""
    return _changes(data).saved


def may_change_leaf(data: bytes) -> bool:
    """Whether a file may change a leaf in place that requires grad."""
    return _changes(data).leaf


def goes_backward(data: bytes) -> bool:
    """Whether a file calls `backward`."""
    return holds(data, BACKWARD) and searches.goes_backward(Outline.of(data))


def initializers(data: bytes) -> Iterator[Initializer | None]:
    """The `__init__` methods that may do something before that of the class above; None for what cannot be read."""
    from torchlint.prefilter.init_methods import initializers

    return initializers(Outline.of(data))


def plain(data: bytes) -> bytes:
    """A file with lines that do not go on, and without blanks around dots: for searches by regular expressions."""
    return with_plain_lines(data)


def renames_classes(data: bytes) -> bool:
    """Whether a file calls a class by a name that does not look like one."""
    return any(name[:1].isupper() and not alias[:1].isupper() for alias, name in Outline.of(data).aliases.items())


def training_names(data: bytes) -> frozenset[bytes]:
    """The functions and classes of a file that go backward, or have an optimizer though nothing there does, by name."""
    return searches.training_names(Outline.of(data)) if holds(data, BACKWARD) or optimizes(data) else frozenset()


def optimizes(data: bytes) -> bool:
    """Whether an optimizer steps or is made: where nothing goes backward, what is imported is meant to."""
    return next(searches.optimizing(data), None) is not None


def may_empty_cache_in_loop(data: bytes) -> bool:
    """Whether a file may empty the cache in every iteration of a loop."""
    return goes_backward(data) or searches.repeats(Outline.of(data), "empty_cache")


def calls_in_method(data: bytes, method: str, names: Iterable[str]) -> bool:
    """Whether a method of this name, or something that it calls at once, mentions one of these names."""
    return searches.calls_in_method(Outline.of(data), method, names)


def may_keep_graph(data: bytes) -> bool:
    """Whether a file may keep tensors with their graphs in a loop, or from call to call of what trains."""
    return b"training_step" in data or goes_backward(data) or searches.keeps_while_evaluating(Outline.of(data))


def may_evaluate_with_grad(data: bytes) -> bool:
    """Whether a file may run a model in a loop, with gradients on, where one is switched to evaluation."""
    return searches.computes_while_evaluating(Outline.of(data))


@lru_cache(maxsize=1)
def _changes(data: bytes) -> Changes:
    from torchlint.prefilter.changes import Changes  # takes longer to import than most files to lint

    return Changes.of(data)

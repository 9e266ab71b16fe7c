"""Gradient clipping: whether a call has an effect, and the parameters it clips."""

from __future__ import annotations

import ast
import re

from torchlint.model.events import Clip
from torchlint.model.ownership import Ownership
from torchlint.model.values import Answer, Plain, Value, inputs_of
from torchlint.syntax.python_tree import PythonTree

LARGE = 1e5
"""A bound larger than the gradients of any successful training."""


def is_unbounded(clip: Clip, tree: PythonTree) -> bool:
    """Whether a clipping perhaps only measures the norm: its bound is infinite, very large, or missing."""
    return clip.bound is None or any(_is_large(value, tree) for value in inputs_of(clip.bound))


def may_be_of(clip: Clip, optimizer: Value, ownership: Ownership) -> bool:
    """Whether an optimizer may hold the clipped parameters."""
    return clip.parameters is None or ownership.holds(optimizer, clip.parameters) is not Answer.NO


def _is_large(bound: Value, tree: PythonTree) -> bool:
    """Whether a bound is a large number, or infinity: `float("inf")`, `math.inf`."""
    if isinstance(bound, Plain) and isinstance(bound.constant, (int, float)):
        return bound.constant >= LARGE
    node = tree.node(bound.site)
    return node is None or (isinstance(node, ast.expr) and re.search(r"\binf", tree.code(node)) is not None)

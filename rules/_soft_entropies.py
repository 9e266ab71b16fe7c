"""Cross-entropies with soft targets that code writes as a mean of products."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.model import lineage, values
from torchlint.model.queries import endings
from torchlint.pytorch import operators
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model

_LOG_SOFTMAX = "log_softmax"
_CAT = frozenset({"cat", "concat"})
_KEEPING = frozenset({"detach", "clone", operators.NEG})
"""Operators that keep a distribution, apart from its sign."""


def product_of(value: values.Value, model: Model) -> values.Tensor | None:
    """The product of soft targets and logarithms of other scores whose elements a value averages, all together."""
    if not isinstance(value, values.Tensor) or value.op != operators.MEAN or not _is_over_all(value, model):
        return None
    product = _positive(value.parents[0])
    if not isinstance(product, values.Tensor) or product.op != operators.MUL or len(product.parents) != 2:
        return None
    first, second = map(_positive, product.parents)
    for logarithms, targets in ((first, second), (second, first)):
        if isinstance(logarithms, values.Tensor) and logarithms.op == _LOG_SOFTMAX and logarithms.parents:
            is_other = not _is_of(targets, values.resolved(logarithms.parents[0]))
            return product if is_other and _is_distribution(targets, model) else None
    return None


def _positive(value: values.Value) -> values.Value:
    value = values.resolved(value)
    while isinstance(value, values.Tensor) and value.op == operators.NEG and value.parents:
        value = values.resolved(value.parents[0])
    return value


def _is_over_all(mean: values.Tensor, model: Model) -> bool:
    """Whether a mean has no dimension."""
    call = model.tree.node(mean.site) if mean.site is not None else None
    if not isinstance(call, ast.Call) or call.keywords or not mean.parents:
        return False
    is_function = python_ast.dotted(call.func) == "torch.mean"
    return len(call.args) == (1 if is_function else 0)


def _is_of(targets: values.Value, scores: values.Value) -> bool:
    """Whether targets come from the same scores: an entropy."""
    return scores in lineage.ancestry([values.resolved(targets)], lambda item: map(values.resolved, item.parents))


def _is_distribution(value: values.Value, model: Model) -> bool:
    """Whether a value surely holds probabilities of classes, perhaps with zeros for more classes."""
    value = values.resolved(value)
    if isinstance(value, values.Phi):
        return all(_is_distribution(item, model) for item in values.inputs_of(value) if item is not value)
    if isinstance(value, values.Tensor) and value.op in _CAT:
        parts = [part for item in value.parents for part in getattr(values.resolved(item), "parents", ())]
        return any(_is_distribution(item, model) for item in parts)
    site = model.endings.of(value, {"softmax"}, (endings.SHAPES - {operators.GETITEM}) | _KEEPING)
    return site is not None and not _is_over_samples(model.tree.node(site))


def _is_over_samples(softmax: ast.AST | None) -> bool:
    """Whether a softmax is along the first dimension, so that it weights samples."""
    if not isinstance(softmax, ast.Call):
        return False
    dimensions = [*softmax.args, *(item.value for item in softmax.keywords if item.arg == "dim")]
    return any(isinstance(item, ast.Constant) and item.value == 0 for item in dimensions)

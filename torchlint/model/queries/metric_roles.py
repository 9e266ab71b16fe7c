"""The role of a tensor in a metric, prediction or target, by the words of its name."""

from __future__ import annotations

import ast
from enum import Enum

from torchlint.lazy_pattern import LazyPattern
from torchlint.syntax import python_ast

_WORDS = LazyPattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PREDICTED = frozenset("pred preds predict predicts predicted prediction predictions hat yhat ypred".split())
_COMPUTED = frozenset("output outputs out outs logit logits prob probs probabilities score scores pr".split())
_TRUE = frozenset("true truth trues gt gts actual actuals target targets tgt tgts ytrue ground real".split())
_LABELS = frozenset("y label labels mask masks ys".split())
_PLAIN = frozenset("all list lst test val valid validation dev eval train tr te epoch batch total".split())
_PLAIN |= frozenset("np array arr cpu flat final step set gold class classes b t s of i".split())
"""Words that leave labels what they are. Other labels may be those of another model."""
_OTHER = frozenset("fake loss losses n num len size shape id ids name names idx index".split())


class Role(Enum):
    """The role of an argument of a metric."""

    PREDICTION = "prediction"
    TARGET = "target"


def of(node: ast.expr | None) -> Role | None:
    """The role that the name of a variable, attribute or entry tells, before methods: `preds` of `preds.cpu()`."""
    return of_name(_name(node))


def of_name(name: str) -> Role | None:
    """The role that a name tells; None if its words say nothing or contradict each other."""
    words = {item.lower() for item in _WORDS.findall(name)}
    is_predicted = not words.isdisjoint(_PREDICTED)
    is_true = not words.isdisjoint(_TRUE)
    if (is_predicted and is_true) or not words.isdisjoint(_OTHER):
        return None
    if is_predicted:
        return Role.PREDICTION
    is_computed, is_label = not words.isdisjoint(_COMPUTED), not words.isdisjoint(_LABELS)
    if is_computed:
        return None if is_label or is_true else Role.PREDICTION
    return Role.TARGET if is_true or (is_label and words <= _LABELS | _PLAIN) else None


def _name(node: ast.expr | None) -> str:
    while True:
        if isinstance(node, ast.Call):
            inner = node.func.value if isinstance(node.func, ast.Attribute) else None
            is_library = isinstance(inner, ast.Name) and inner.id in ("np", "numpy", "torch")
            node = node.args[0] if (inner is None or is_library) and node.args else inner
        elif isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                return node.slice.value
            node = node.value
        elif isinstance(node, ast.Attribute) and node.attr in ("data", "T", "values"):
            node = node.value
        else:
            return python_ast.last_name(node) if node is not None else ""

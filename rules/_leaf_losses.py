"""Losses that are leaves: made anew of a number, with no graph behind them."""

from __future__ import annotations

from torchlint.model import kinds, values

RESCALING = frozenset("scale to cuda cpu float double half clone mean sum add sub mul div neg squeeze view".split())
"""Operators whose result is no more learned from than what they are given."""


def leaf_of(loss: values.Value) -> values.Tensor | None:
    """The leaf that a loss is, perhaps scaled or moved."""
    loss = values.resolved(loss)
    while isinstance(loss, values.Tensor) and not loss.leaf and loss.op in RESCALING:
        others = loss.parents[1:]
        if not loss.parents or any(kinds.is_number(item) is not values.Answer.YES for item in others):
            return None
        loss = values.resolved(loss.parents[0])
    return loss if isinstance(loss, values.Leaf) and loss.leaf else None

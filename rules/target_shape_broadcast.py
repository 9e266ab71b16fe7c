"""Losses between a column and a row, which compare each prediction with each target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.model.queries import losses
from torchlint.pytorch import operators

if TYPE_CHECKING:
    from torchlint.model.shapes.tensor_type import TensorType
    from torchlint.syntax.python_ast import Site

_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_AMOUNTS = frozenset({operators.POW, operators.SQUARE, operators.ABS})
_INSERTED = frozenset("unsqueeze view reshape getitem expand".split())
"""What makes a column on purpose: differences between all pairs are written so."""
_SQUARES = (b"pow", b"square", b"abs", b"**")
"""What losses that are written by hand take the mean of."""


class BroadcastTarget(NamedTuple):
    """One operand of the loss at `loss` is a column (`column` says whether the first), the other has one dimension."""

    loss: Site
    column_first: bool


class TargetShapeBroadcast(Rule):
    """A loss between sizes (N, 1) and (N,) compares each prediction with each target.

    ## What it does
    Finds `mse_loss`, `l1_loss`, `smooth_l1_loss` and `huber_loss`, as functions and as modules, and
    `(a - b).pow(2).mean()`, between a column of size (N, 1) and a tensor of one dimension, where the dimensions of both
    are known: from `Linear(..., 1)`, `gather`, `keepdim=True`, `mean(dim=1)`, `max(1)`, `view(-1)`.

    ## Why is this bad?
    The operands are broadcast to (N, N). The loss is the mean over all pairs, and is lowest where all predictions are
    the mean of the targets: the model learns that. The loss functions warn; written by hand nothing does.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def loss(x, y):
        prediction = torch.nn.Linear(3, 1)(x)
        return F.mse_loss(prediction, y.view(-1))
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def loss(x, y):
        prediction = torch.nn.Linear(3, 1)(x)
        return F.mse_loss(prediction, y.view(-1, 1))
    ```

    ## References
    - [torch.nn.functional.mse_loss](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.mse_loss.html)
    - [Broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html)
    """

    code = "TL508"
    category = Category.CORRECTNESS
    preview = True
    triggers = (
        (b"torch",),
        (b"mse_loss", b"MSELoss", b"l1_loss", b"L1Loss", b"huber", b"Huber", b"pow", b"square", b"abs", b"**"),
        (b"Linear", b"gather", b"keepdim", b"view", b"reshape", b"flatten"),
    )
    calls = frozenset("mse_loss MSELoss l1_loss L1Loss smooth_l1_loss SmoothL1Loss huber_loss HuberLoss".split())

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        names_loss = any(name.encode() in code for name in cls.calls)
        return names_loss or (b"mean" in code and any(word in code for word in _SQUARES))

    def ask(self) -> Iterator[BroadcastTarget]:
        for event, loss in self.model.endings.losses(*_LOSSES):
            operands = losses.operands(loss)
            if len(operands) > 1 and (column := self._column(operands[0], operands[1])) is not None:
                yield BroadcastTarget(event.site, column)
        for event in (event for trace in self.model.program.traces for event in trace.of(events.Compute)):
            operands_ = self._squared_difference(event.value)
            if operands_ is not None and (column := self._column(*operands_)) is not None:
                yield BroadcastTarget(event.site, column)

    def _squared_difference(self, value: values.Value) -> tuple[values.Value, values.Value] | None:
        """The operands of a difference whose square, or amount, is averaged here."""
        if not isinstance(value, values.Tensor) or value.op != operators.MEAN or len(value.parents) != 1:
            return None
        square = values.resolved(value.parents[0])
        if not isinstance(square, values.Tensor) or square.op not in _AMOUNTS or not square.parents:
            return None
        difference = values.resolved(square.parents[0])
        if not isinstance(difference, values.Tensor) or difference.op != operators.SUB or len(difference.parents) != 2:
            return None
        left, right = (values.resolved(item) for item in difference.parents)
        meant = any(isinstance(item, values.Tensor) and item.op in _INSERTED for item in (left, right))
        return None if meant else (left, right)

    def _column(self, first: values.Value, second: values.Value) -> bool | None:
        """Which of two operands is a column, the first or not, where the other one surely has one dimension."""
        left, right = self.model.shapes.types_of(first), self.model.shapes.types_of(second)
        if left and right and all(_is_column(item, other) for item in left for other in right):
            return True
        if left and right and all(_is_column(other, item) for item in left for other in right):
            return False
        return None

    def report_BroadcastTarget(self, answer: BroadcastTarget) -> None:
        first, second = ("(N, 1)", "(N,)") if answer.column_first else ("(N,)", "(N, 1)")
        self.report(
            answer.loss,
            f"the loss is between sizes {first} and {second}: each prediction is compared with each target",
            help="give both the same shape: `view(-1, 1)` for the one, or `squeeze(1)` for the other",
        )


def _is_column(column: TensorType, row: TensorType) -> bool:
    """Whether a type ends in a single column, and the other has one dimension, which is more than that."""
    last = column.size(-1)
    is_one = last is not None and last.number == 1
    if not is_one or row.rank != 1 or (column.rank is not None and column.rank != 2):
        return False
    count, rows = row.sizes[0], column.size(-2) if column.rank == 2 else None
    return (count is None or count.number != 1) and (rows is None or rows.number != 1)

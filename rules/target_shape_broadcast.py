"""Losses and metrics between a column and a row, which compare each prediction with each target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model import events, values
from torchlint.model.queries import compared_operands, losses

from . import _chosen_actions as actions

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.model.shapes.tensor_type import TensorType
    from torchlint.syntax.python_ast import Site

_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_SQUARES = (b"pow", b"square", b"abs", b"**")
"""Functions whose mean a hand-written loss takes."""

_ADVICE = "give both the same shape: `view(-1, 1)` for one, or `squeeze(1)` for the other"

_OF_MATRIX = "the target adds sizes (N, 1) and (N,): it is a matrix, and each prediction is compared with each row"


class BroadcastTarget(NamedTuple):
    """One operand of the loss at `loss` is a column (`column`: the first), and the other has one dimension."""

    loss: Site
    column_first: bool
    is_sure: bool
    """Whether both operands come from a batch of a loader whose dataset is known."""
    is_matrix: bool = False
    """Whether the other operand adds a row to a column, so that it has all pairs."""


class CrossedSamples(NamedTuple):
    """The operands of the loss at `loss` have these ranks, so samples are broadcast against another dimension."""

    loss: Site
    ranks: tuple[int, int]


class BroadcastMetric(NamedTuple):
    """The metric at `metric` counts equal elements between a column and a tensor of one dimension."""

    metric: Site
    column_first: bool


class TargetShapeBroadcast(Rule):
    """A loss or metric of (N, 1) and (N,) compares each prediction with all targets.

    ## What it does
    Finds a comparison between a column of size (N, 1) and a tensor of one dimension, in `mse_loss`, `l1_loss`,
    `smooth_l1_loss` and `huber_loss`, as functions and as modules, and in `(a - b).pow(2).mean()`. Reported only if
    torchlint knows the dimensions of both, from `Linear(..., 1)`, `gather`, `keepdim=True`, `mean(dim=1)`, `max(1)` or
    `view(-1)`.

    Also finds:

    - operands with different numbers of dimensions, such as (N, 1, D) and (N, D), if the sizes of the batch are known
    - `(prediction == y).sum()` between a column and a tensor of one dimension, if the sizes of the batch are known
    - the loss of a Q-network: `q.gather(1, a.unsqueeze(1))` against `r + gamma * q.max(1)[0]`

    Batches of a `DataLoader` have known sizes where its dataset is a `TensorDataset` or a subset of one, or where its
    `__getitem__` returns a number or a tensor of known size. Reported only with `--preview`: all other findings.

    ## Why is this bad?
    PyTorch broadcasts the operands to (N, N). The loss is the mean over all pairs, and it is lowest where every
    prediction equals the mean of the targets (for L1, the median). The model learns that constant. The loss functions
    warn, but a hand-written loss does not.

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

    ## What verify shows
    `torchlint verify` observes the shapes that the line compares. It confirms the finding if PyTorch broadcasts them,
    so that each prediction meets each target. It refutes the finding if the shapes are equal at every call.

    ## References
    - [torch.nn.functional.mse_loss](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.mse_loss.html)
    - [Broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html)
    """

    code = "TL508"
    category = Category.CORRECTNESS
    triggers = (
        (b"torch",),
        (
            b"mse_loss",
            b"MSELoss",
            b"l1_loss",
            b"L1Loss",
            b"huber",
            b"Huber",
            b"pow",
            b"square",
            b"abs",
            b"**",
            b"TensorDataset",
        ),
        (b"Linear", b"gather", b"keepdim", b"view", b"reshape", b"flatten"),
    )
    calls = frozenset("mse_loss MSELoss l1_loss L1Loss smooth_l1_loss SmoothL1Loss huber_loss HuberLoss".split())

    @classmethod
    def may_fire(cls, code: bytes) -> bool:
        names_loss = any(name.encode() in code for name in cls.calls)
        return names_loss or b"TensorDataset" in code or (b"mean" in code and any(word in code for word in _SQUARES))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.names_one(cls.calls) or compared_operands.may_average(index) or compared_operands.may_count(index)

    def ask(self) -> Iterator[BroadcastTarget | CrossedSamples | BroadcastMetric]:
        for event, loss in self.model.endings.losses(*_LOSSES):
            operands = losses.operands(loss)
            if len(operands) > 1 and (column := self._column(operands[0], operands[1])) is not None:
                yield BroadcastTarget(event.site, column, self._are_of_batch(*operands[:2]))
            elif (
                len(operands) > 1 and (column := actions.chosen_first(operands[0], operands[1], self.model)) is not None
            ):
                target = operands[1] if column else operands[0]
                is_matrix = actions.adds_column(target, self.model.program)
                yield BroadcastTarget(event.site, column, is_sure=True, is_matrix=is_matrix)
            elif len(operands) > 1 and self._are_of_batch(*operands[:2]):
                ranks = compared_operands.crossed(*(self.model.shapes.types_of(item) for item in operands[:2]))
                if ranks is not None:
                    yield CrossedSamples(event.site, ranks)
        for event in (event for trace in self.model.program.traces for event in trace.of(events.Compute)):
            operands_ = compared_operands.squared_difference(event.value)
            if operands_ is not None and (column := self._column(*operands_)) is not None:
                yield BroadcastTarget(event.site, column, self._are_of_batch(*operands_))
            operands_ = compared_operands.counted_hits(event.value)
            if operands_ is not None and self._are_of_batch(*operands_):
                column = self._column(*operands_)
                if column is not None:
                    yield BroadcastMetric(event.site, column)

    def _are_of_batch(self, first: values.Value, second: values.Value) -> bool:
        """Whether both operands surely have the samples of one batch, sized by a loader, in their first dimension."""
        if self.model.shapes.are_of_batch(first, second):
            return True
        parts = [self.model.layout.part_of(item) for item in (first, second)]
        batches = {self.model.layout.batch_of(part) if part is not None else None for part in parts}
        sized = self.model.shapes.are_of_batch(first) or self.model.shapes.are_of_batch(second)
        return sized and len(batches) == 1 and None not in batches

    def _column(self, first: values.Value, second: values.Value) -> bool | None:
        """Whether the column is the first of two operands, where the other one surely has one dimension."""
        left, right = self.model.shapes.types_of(first), self.model.shapes.types_of(second)
        if left and right and all(_is_column(item, other) for item in left for other in right):
            return True
        if left and right and all(_is_column(other, item) for item in left for other in right):
            return False
        return None

    def report_BroadcastTarget(self, answer: BroadcastTarget) -> None:
        self.report(
            answer.loss,
            _OF_MATRIX if answer.is_matrix else _message("loss", answer.column_first),
            help=_ADVICE,
            confidence=Confidence.HIGH if answer.is_sure else Confidence.LOW,
        )

    def report_CrossedSamples(self, answer: CrossedSamples) -> None:
        self.report(
            answer.loss,
            f"the loss compares tensors with {answer.ranks[0]} and {answer.ranks[1]} dimensions: "
            "each sample is compared with all samples",
            help="give both the same shape, for example with `flatten(1)` or `squeeze(1)`",
        )

    def report_BroadcastMetric(self, answer: BroadcastMetric) -> None:
        self.report(answer.metric, _message("metric", answer.column_first), help=_ADVICE)


def _message(subject: str, column_first: bool) -> str:
    first, second = ("(N, 1)", "(N,)") if column_first else ("(N,)", "(N, 1)")
    return f"the {subject} compares sizes {first} and {second}: each prediction is compared with each target"


def _is_column(column: TensorType, row: TensorType) -> bool:
    """Whether a type ends in a single column and the other has one dimension with more elements."""
    last = column.size(-1)
    is_one = last is not None and last.number == 1
    if not is_one or row.rank != 1 or (column.rank is not None and column.rank != 2):
        return False
    count, rows = row.sizes[0], column.size(-2) if column.rank == 2 else None
    return (count is None or count.number != 1) and (rows is None or rows.number != 1)

"""The first row of a batch of predictions, used as if it were the first output of the module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model import events, values
from torchlint.model.queries import compared_operands, losses
from torchlint.pytorch import losses as functions

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.model.relations.layout import FirstRow
    from torchlint.syntax.python_ast import Site

_SAME = frozenset(
    "to float double half long int bool cuda cpu detach clone squeeze argmax softmax log_softmax sigmoid tanh relu "
    "round compare gt ge lt le".split()
)
"""Operators that compute a prediction or a target sample by sample."""
_LOSSES = functions.AVERAGED.union(name for name, same in functions.FUNCTIONS.items() if same in functions.AVERAGED)
_MOST_STEPS = 12


class Row(NamedTuple):
    """The code at `compared` compares one sample of an output, at `row`, with the targets of the whole batch."""

    compared: Site
    row: Site
    is_sure: bool
    """Whether the loader surely yields batches of several samples."""


class FirstRowAsOutput(Rule):
    """One sample's prediction is compared with the targets of the whole batch.

    ## What it does
    Finds `output[0]` of a module that returns one tensor, in a loss or metric with the targets of the same batch.
    Reported only with `--preview`: files without a `DataLoader` whose `batch_size` is above 1.

    ## Why is this bad?
    `output[0]` is the first output of a module that returns a tuple. For a single tensor, it is the first row. The loss
    broadcasts this row, so the model learns to predict all targets from the first sample. The other samples contribute
    no gradient.

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, optimizer):
        model = torch.nn.Linear(8, 1)
        for x, y in DataLoader(dataset, batch_size=32):
            output = model(x)
            loss = torch.nn.functional.mse_loss(output[0], y)
            loss.backward()
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import DataLoader

    def train(dataset, optimizer):
        model = torch.nn.Linear(8, 1)
        for x, y in DataLoader(dataset, batch_size=32):
            output = model(x)
            loss = torch.nn.functional.mse_loss(output, y)
            loss.backward()
    ```

    ## References
    - [Broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html)
    """

    code = "TL714"
    category = Category.CORRECTNESS
    triggers = ((b"[0]", b"[-1]"), (b"torch",))
    calls = frozenset("mse_loss MSELoss l1_loss L1Loss smooth_l1_loss SmoothL1Loss huber_loss HuberLoss".split())

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        named = (
            *functions.AVERAGED,
            *(name for name, same in functions.FUNCTIONS.items() if same in functions.AVERAGED),
        )
        return index.names_one(named) or compared_operands.may_average(index) or compared_operands.may_count(index)

    def ask(self) -> Iterator[Row]:
        seen: set[Site] = set()
        if self.model.is_test or not self.model.program.observations.indexed:
            return
        for site, operands in self._comparisons():
            for first, second in (operands, operands[::-1]):
                row, target = self._row(first), self._target(second)
                if row is None or row.row.site is None or target is None or site in seen:
                    continue
                batch = self.model.layout.batch_of(row.part)
                if batch is not None and batch is self.model.layout.batch_of(target):
                    several = self.model.layout.holds_several(target)
                    if several is not values.Answer.NO:
                        seen.add(site)
                        yield Row(site, row.row.site, several is values.Answer.YES)

    def _comparisons(self) -> Iterator[tuple[Site, tuple[values.Value, values.Value]]]:
        """The losses, differences and comparisons of the program, with their operands."""
        for event, loss in self.model.endings.losses(*functions.AVERAGED):
            given = losses.operands(loss)
            if len(given) > 1:
                yield event.site, (given[0], given[1])
        for event in (event for trace in self.model.program.traces for event in trace.of(events.Compute)):
            operands = compared_operands.squared_difference(event.value) or compared_operands.counted_hits(event.value)
            if operands is not None:
                yield event.site, operands

    def _row(self, value: values.Value) -> FirstRow | None:
        """The sample that an operand is computed from."""
        for _ in range(_MOST_STEPS):
            value = values.resolved(value)
            row = self.model.layout.first_row(value)
            if row is not None or not isinstance(value, values.Tensor) or value.op not in _SAME or not value.parents:
                return row
            value = value.parents[0]
        return None

    def _target(self, value: values.Value) -> values.Value | None:
        """The batch part that an operand equals as a whole."""
        for _ in range(_MOST_STEPS):
            value = values.resolved(value)
            if not isinstance(value, values.Tensor):
                return value if self.model.layout.batch_of(value) is not None else None
            if value.op not in _SAME or not value.parents:
                return None
            value = value.parents[0]
        return None

    def report_Row(self, found: Row) -> None:
        self.report(
            found.compared,
            "this compares one sample's prediction with all targets of the batch: the model ignores the other samples",
            related=[(found.row, "the module returns one tensor, and this is its first row")],
            help="leave out the index",
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )

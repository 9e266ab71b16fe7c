"""Losses and metrics between a column and a row, which compare each prediction with each target."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model import events, values
from torchlint.model.queries import compared_operands, losses, numbers
from torchlint.pytorch import api, operators
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.index import FileIndex
    from torchlint.model.program import Program
    from torchlint.model.shapes.tensor_type import TensorType
    from torchlint.syntax.python_ast import Site

_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_SQUARES = (b"pow", b"square", b"abs", b"**")
"""Functions whose mean a hand-written loss takes."""

_ADVICE = "give both the same shape: `view(-1, 1)` for one, or `squeeze(1)` for the other"

_OF_MATRIX = "the target adds sizes (N, 1) and (N,): it is a matrix, and each prediction is compared with each row"
_SAME = frozenset({"float", "double", "to", "detach", "contiguous", "clone", "type"})
_ELEMENTWISE = frozenset({operators.ADD, operators.SUB, operators.RSUB, operators.MUL, operators.DIV})
_CHOOSING = frozenset({"gather"})
_CONVERTED = _SAME | {"long"}
_WIDENING = frozenset({operators.UNSQUEEZE, "view", "reshape"})
_SECOND = (1, -1)
_REDUCED = frozenset({"amax", "amin"})
_EXTREMA = frozenset({"max", "min"})
_MOST_STEPS = 16


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
    from torch.utils.data import DataLoader, TensorDataset

    def train():
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        dataset = TensorDataset(torch.randn(100, 3), torch.randn(100))
        for x, y in DataLoader(dataset, batch_size=10):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    def train():
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        dataset = TensorDataset(torch.randn(100, 3), torch.randn(100))
        for x, y in DataLoader(dataset, batch_size=10):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y.view(-1, 1)).backward()
            optimizer.step()
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
            elif len(operands) > 1 and (column := _chosen_first(operands[0], operands[1], self.model)) is not None:
                target = operands[1] if column else operands[0]
                is_matrix = _adds_column(target, self.model.program)
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


def _chosen_first(first: values.Value, second: values.Value, model: Model) -> bool | None:
    """Whether the first operand is a column of chosen values, if the other one lacks its second dimension."""
    if _is_chosen(first, model.program) and _lacks_second(second, model):
        return True
    return False if _is_chosen(second, model.program) and _lacks_second(first, model) else None


def _is_chosen(value: values.Value, program: Program) -> bool:
    """Whether a value holds chosen numbers of each row and keeps the dimension: `q.gather(1, action)`."""
    value = values.resolved(value)
    while isinstance(value, values.Tensor) and value.op in _SAME and value.parents:
        value = values.resolved(value.parents[0])
    if not isinstance(value, values.Tensor) or value.op not in _CHOOSING:
        return False
    dimension = numbers.dimension(value, program)
    return dimension == 1 or (dimension == -1 and _is_widened(numbers.argument(value, 1, "index", program)))


def _is_widened(index: values.Value | None) -> bool:
    """Whether an index has a new last dimension: the values then belong to rows of a batch."""
    while isinstance(index, values.Tensor) and index.op in _CONVERTED and index.parents:
        index = values.resolved(index.parents[0])
    return isinstance(index, values.Tensor) and index.op in _WIDENING


def _adds_column(value: values.Value, program: Program) -> bool:
    """Whether a sum also has a term that keeps the second dimension: a column, `memory[:, 3:4]`."""
    return any(_makes_column(item, program) for item in _terms(value))


def _lacks_second(value: values.Value, model: Model) -> bool:
    """Whether a sum has a term without the second dimension: `reward + gamma * q.max(1)[0] * (1 - done)`."""
    return any(_is_extremum(item, model.program) or _is_row(item, model) for item in _terms(value))


def _terms(value: values.Value) -> Iterator[values.Value]:
    """The parts of a sum or product of the same size as the whole, or broadcast to it."""
    stack, seen = [value], set[values.Value]()
    while stack and len(seen) < _MOST_STEPS:
        item = values.resolved(stack.pop())
        if item in seen:
            continue
        seen.add(item)
        yield item
        if isinstance(item, values.Tensor) and item.op in _SAME:
            stack.extend(item.parents[:1])
        elif isinstance(item, values.Tensor) and item.op in _ELEMENTWISE:
            stack.extend(item.parents)


def _makes_column(value: values.Value, program: Program) -> bool:
    """Whether an expression makes a tensor of a slice of columns: `torch.FloatTensor(batch[:, n : n + 1])`."""
    node = program.tree.node(value.site) if value.site is not None else None
    if isinstance(node, ast.Call) and node.args and python_ast.called_name(node) in api.CREATORS:
        node = node.args[0]
    index = node.slice if isinstance(node, ast.Subscript) else None
    parts = index.elts if isinstance(index, ast.Tuple) else []
    return len(parts) == 2 and all(isinstance(part, ast.Slice) for part in parts)


def _is_row(value: values.Value, model: Model) -> bool:
    """Whether a new tensor has one dimension of several elements, which code may fill: `torch.zeros(batch_size)`."""
    if not isinstance(value, values.Tensor):
        return False
    types = model.shapes.types_of(value)
    return bool(types) and all(
        item.rank == 1 and (item.sizes[0] is None or item.sizes[0].number != 1) for item in types
    )


def _is_extremum(value: values.Value, program: Program) -> bool:
    """Whether a value is `x.max(1)[0]`, `x.max(1).values` or `x.amax(1)`."""
    if isinstance(value, values.Tensor) and value.op in _REDUCED:
        return _drops_second(value, program)
    owner = values.resolved(value.parents[0]) if value.parents else None
    if not isinstance(owner, values.Tensor) or owner.op not in _EXTREMA:
        return False
    is_named = isinstance(value, values.Attribute) and value.label == "values"
    return (is_named or _takes_first(value, program)) and _drops_second(owner, program)


def _drops_second(value: values.Tensor, program: Program) -> bool:
    keeps = numbers.argument(value, 1, "keepdim", program)
    return keeps is None and numbers.dimension(value, program) in _SECOND


def _takes_first(value: values.Value, program: Program) -> bool:
    """Whether an expression is `x[0]`."""
    node = program.tree.node(value.site) if value.site is not None else None
    index = node.slice if isinstance(node, ast.Subscript) else None
    return isinstance(index, ast.Constant) and index.value == 0

"""Softmaxes and predictions along the dimension of the batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, values
from torchlint.model.queries import attention, losses
from torchlint.pytorch import operators
from torchlint.syntax import python_ast

from . import _batch_predictions as batch_predictions
from . import _chosen_dimension as chosen_dimension
from . import _written_sums as written_sums

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_LOADER = LazyPattern(r"(?i)loader|(?:^|_)dl$")
_LOG = "log_softmax"
_STEPS = 6


class OverBatch(NamedTuple):
    """The call at `site` compares the samples of a batch instead of their classes; `use` expects classes."""

    site: Site
    use: Site
    picks: str


class SoftmaxOverBatch(Rule):
    """A softmax or a prediction compares the samples of a batch, not the classes.

    ## What it does
    Finds, for batches of a loader:

    - a `softmax` or `log_softmax` along dimension 0 whose result is the input of `nll_loss`;
    - an `argmax` or `max` of the model's output along dimension 0 that is compared with the labels.

    ## Why is this bad?
    Dimension 0 is the batch dimension. The scores of one sample do not sum to one, and its loss depends on the other
    samples. A prediction along dimension 0 is the number of a sample, so the accuracy is random.

    ## Example
    ```python
    import torch

    def accuracy(model, loader):
        correct = 0
        for x, y in loader:
            output = model(x)
            correct += (output.argmax(dim=0) == y).sum().item()
        return correct
    ```

    Use instead:
    ```python
    import torch

    def accuracy(model, loader):
        correct = 0
        for x, y in loader:
            output = model(x)
            correct += (output.argmax(dim=1) == y).sum().item()
        return correct
    ```

    ## Known limits
    torchlint does not see a softmax layer inside `nn.Sequential`.

    ## References
    - [torch.nn.NLLLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html)
    """

    code = "TL720"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"argmax", b"max", b"oftmax"), (b"==", b"eq", b"nll_loss", b"NLLLoss"))
    calls = frozenset({"nll_loss", "NLLLoss"})

    def ask(self) -> Iterator[OverBatch]:
        if not self.model.is_test:
            yield from self._losses()
            for loop in self.model.tree.of_type(ast.For):
                if _LOADER.search(written_sums.iterated(loop.iter)):
                    yield from self._predictions(loop)

    def _losses(self) -> Iterator[OverBatch]:
        """The losses whose input is a softmax along dimension 0, in a loop over a loader."""
        seen = set[python_ast.Site]()
        for trace in self.model.program.traces:
            for event in trace.of(events.Compute):
                value = event.value
                if losses.loss_function(value) != "nll_loss" or not self._is_in_loop(event):
                    continue
                made = self._softmax(losses.operands(value)[0])
                if made is not None and made.site is not None and made.site not in seen:
                    seen.add(made.site)
                    yield OverBatch(made.site, event.site, "")

    def _softmax(self, value: values.Value) -> values.Tensor | None:
        """The softmax along dimension 0 whose result is a value, perhaps returned by a module."""
        for _ in range(_STEPS):
            value = values.resolved(value)
            if isinstance(value, values.ModuleOutput) and value.body is not None:
                value = value.body
            elif isinstance(value, values.Tensor) and value.op == operators.LOG and value.parents:
                value = value.parents[0]
            else:
                break
        if not isinstance(value, values.Tensor):
            return None
        is_layer = attention.is_layer(value, "LogSoftmax") or attention.is_layer(value)
        is_softmax = is_layer or value.op in (_LOG, operators.SOFTMAX)
        return value if is_softmax and attention.dimension(value, self.model.program) == 0 else None

    def _is_in_loop(self, event: events.Compute) -> bool:
        loops = (self.model.tree.node(loop.site) for loop in event.loops)
        return any(isinstance(item, ast.For) and _LOADER.search(written_sums.iterated(item.iter)) for item in loops)

    def _predictions(self, loop: ast.For) -> Iterator[OverBatch]:
        """The predictions along dimension 0 that a loop compares with the labels of its batch."""
        outputs = batch_predictions.outputs(loop)
        for call in (item for item in python_ast.walk(loop) if outputs and isinstance(item, ast.Call)):
            name, of, dimension = chosen_dimension.choice(call, self.model.definitions)
            base = written_sums.tensor_of(chosen_dimension.kept(of)) if of is not None else None
            if dimension == 0 and isinstance(base, ast.Name) and base.id in outputs:
                compared = batch_predictions.comparison(call, loop, self.model.tree)
                if compared is not None:
                    yield OverBatch(python_ast.site_of(call), python_ast.site_of(compared), name)

    def report_OverBatch(self, found: OverBatch) -> None:
        if found.picks:
            message = f"`{found.picks}` along dimension 0 picks a sample of the batch, not a class"
        else:
            message = "the softmax is along dimension 0, which is the batch dimension"
        self.report(found.site, message, related=[(found.use, "this expects classes")], help="use `dim=1`")

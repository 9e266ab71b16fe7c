"""Losses whose logits come from dropout."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import default_numbers, endings, losses
from torchlint.pytorch import api
from torchlint.syntax import python_ast

_LOSSES = ("cross_entropy", "nll_loss", "binary_cross_entropy_with_logits")


class Dropped(NamedTuple):
    """The loss at `loss` receives logits that the dropout at `dropout` partly sets to zero."""

    loss: python_ast.Site
    dropout: python_ast.Site


class DropoutOfLogits(Rule):
    """Dropout sets some of a classifier's logits to zero.

    ## What it does
    Finds cross-entropy whose input is the result of dropout: a classifier that ends in `nn.Dropout`, or a `forward`
    that returns `self.dropout(self.fc(x))`.

    Not reported if the dropout probability is zero by default.

    ## Why is this bad?
    The loss is noisy, and the model learns logits near zero. A dropped logit is zero, and the others are scaled up,
    so the class probabilities change at random in each step, even for the correct class. Dropout belongs before the
    last layer, where it drops features.

    ## Example
    ```python
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4), nn.Dropout(0.2))

    def train(loader):
        for x, y in loader:
            nn.functional.cross_entropy(model(x), y).backward()
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))

    def train(loader):
        for x, y in loader:
            nn.functional.cross_entropy(model(x), y).backward()
    ```

    ## References
    - [torch.nn.Dropout](https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html)
    """

    code = "TL128"
    category = Category.SUSPICIOUS
    triggers = (
        (b"CrossEntropyLoss", b"cross_entropy", b"NLLLoss", b"nll_loss", b"BCEWithLogits", b"with_logits"),
        (b"ropout",),
    )
    calls = frozenset({"CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss", "BCEWithLogitsLoss",
                       "binary_cross_entropy_with_logits"})  # fmt: skip

    def ask(self) -> Iterator[Dropped]:
        """One finding for each dropout."""
        done = set[python_ast.Site]()
        for event, loss in self.model.endings.losses(*_LOSSES) if not self.model.is_test else ():
            if event.mode is api.GradMode.OFF:
                continue
            given = losses.operands(loss)[0]
            dropout = self.model.endings.of(given, {"dropout"}, endings.SHAPES | {"log_softmax"}, event.value)
            if dropout is not None and dropout not in done and self._drops(dropout):
                done.add(dropout)
                yield Dropped(event.site, dropout)

    def _drops(self, dropout: python_ast.Site) -> bool:
        """Whether a dropout is created with a rate above zero."""
        tree = self.model.tree if dropout.inner is None else dropout.inner.tree
        call = tree.own_node(dropout.written)
        made = self.model.provenance.created(call.func) if isinstance(call, ast.Call) else None
        is_layer = isinstance(made, ast.Call) and python_ast.called_name(made) == "Dropout"
        layer = made if is_layer else call
        if not isinstance(layer, ast.Call):
            return False
        is_function = python_ast.called_name(layer) == "dropout"
        placed = layer.args[is_function : is_function + 1]
        written = [item.value for item in layer.keywords if item.arg == "p"] or placed
        share = default_numbers.default_number(written[0], self.model.definitions) if written else 0.5
        return share is not None and share > 0

    def report_Dropped(self, found: Dropped) -> None:
        self.report(
            found.loss,
            "dropout sets some of these logits to zero: the class probabilities change at random",
            related=[(found.dropout, "the dropout is here")],
            help="put the dropout before the last layer",
        )

"""Losses whose logits come from a ReLU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import endings, losses
from torchlint.pytorch import api
from torchlint.syntax.python_ast import Site


class Cut(NamedTuple):
    """The loss at `loss` receives logits that the ReLU at `relu` keeps from being negative."""

    loss: Site
    relu: Site


class ReluOfLogits(Rule):
    """A ReLU cuts off the negative logits of a classifier.

    ## What it does
    Finds cross-entropy, or binary cross-entropy with logits, whose input is the output of a ReLU: a classifier that
    ends with `nn.ReLU()`, or a `forward` that returns `F.relu(self.fc(x))`.

    ## Why is this bad?
    A class whose logits are negative for all samples has no gradient, so the model never learns it. Negative logits
    become 0, so a sigmoid is never below 0.5, and the model cannot predict the negative class. In a softmax, a class
    gets a low probability only if another logit is large.

    ## Example
    ```python
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4), nn.ReLU())

    def train(loader):
        criterion = nn.CrossEntropyLoss()
        for x, y in loader:
            criterion(model(x), y).backward()
    ```

    Use instead:
    ```python
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))

    def train(loader):
        criterion = nn.CrossEntropyLoss()
        for x, y in loader:
            criterion(model(x), y).backward()
    ```

    ## References
    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html)
    """

    code = "TL513"
    category = Category.CORRECTNESS
    triggers = ((b"CrossEntropyLoss", b"cross_entropy", b"BCEWithLogits", b"with_logits"), (b"relu", b"ReLU"))
    calls = frozenset({"CrossEntropyLoss", "cross_entropy", "BCEWithLogitsLoss", "binary_cross_entropy_with_logits"})

    def ask(self) -> Iterator[Cut]:
        """One finding for each ReLU."""
        done = set[Site]()
        found = self.model.endings.losses("cross_entropy", "binary_cross_entropy_with_logits")
        for event, loss in found if not self.model.is_test else ():
            if event.mode is not api.GradMode.OFF:
                relu = self.model.endings.of(losses.operands(loss)[0], {"relu"}, endings.SHAPES, event.value)
                if relu is not None and relu not in done:
                    done.add(relu)
                    yield Cut(event.site, relu)

    def report_Cut(self, found: Cut) -> None:
        self.report(
            found.loss,
            "a ReLU sets the negative logits to zero: a class with negative logits has no gradient",
            related=[(found.relu, "the ReLU is here")],
            help="remove the ReLU after the last layer",
        )

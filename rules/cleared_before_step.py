"""Gradients that are cleared before the step could use them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from torchlint import Category, Rule, prefilter

if TYPE_CHECKING:
    from torchlint.model.queries.protocol import ClearedGradients


class ClearedBeforeStep(Rule):
    """Gradients are cleared between the backward and the step that needs them.

    ## What it does
    Finds a `zero_grad` that stands, on every path, between a `backward` and the `step` of the same optimizer.

    ## Why is this bad?
    The step sees no gradient: with SGD the weights do not move at all, with momentum or weight decay they move
    in a direction that has nothing to do with the loss.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.zero_grad()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## What verify shows
    `torchlint verify` confirms it by steps that find no gradients although a backward has given some, and
    refutes it by steps that all find them.

    ## Known limits
    A hand-written clearing (`p.grad = None` for each parameter) is not reported, since which optimizer it clears
    is seldom certain.

    ## References
    - [torch.optim: taking an optimization step](https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step)
    """

    code = "TL102"
    category = Category.CORRECTNESS
    triggers = (prefilter.BACKWARD, prefilter.STEP, prefilter.CLEAR)

    @classmethod
    def is_worth_a_parse(cls, data: bytes) -> bool:
        return prefilter.goes_backward(data)

    def ask(self) -> Iterable[ClearedGradients]:
        return self.model.protocol.cleared_gradients()

    def report_ClearedGradients(self, cleared: ClearedGradients) -> None:
        name = cleared.step.name
        self.report(
            cleared.clear.site,
            f"gradients are cleared before `{name}` steps: the step sees none",
            related=[
                (cleared.backward.site, "the gradients are computed here"),
                (cleared.step.site, "and would be used here"),
            ],
            help="clear the gradients before the `backward`, or after the step",
        )

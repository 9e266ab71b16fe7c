"""Steps that no backward precedes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from torchlint import Category, Rule, prefilter

if TYPE_CHECKING:
    from torchlint.model.queries.protocol import EmptyStep


class StepWithoutBackward(Rule):
    """An optimizer steps without a backward pass before it.

    ## What it does
    Finds a `step` that no `backward` precedes although a loss is computed: none at all, or only one that
    follows below it in the same loop.

    ## Why is this bad?
    A step without gradients updates nothing. Where the `backward` comes below, the first step is empty, each
    later one uses the gradients of the iteration before, and the last gradients are never used.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.step()
            optimizer.zero_grad()
            loss.backward()
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
    `torchlint verify` confirms it by steps before which no backward gave any gradient, and refutes it by steps
    that all have gradients and move the parameters.

    ## References
    - [torch.optim: taking an optimization step](https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step)
    """

    code = "TL103"
    category = Category.SUSPICIOUS
    triggers = ((*prefilter.BACKWARD, *prefilter.CLEAR), prefilter.STEP)

    @classmethod
    def is_worth_a_parse(cls, data: bytes) -> bool:
        return any(word in data for word in prefilter.CLEAR) or prefilter.goes_backward(data)

    def ask(self) -> Iterable[EmptyStep]:
        return self.model.protocol.empty_steps()

    def report_EmptyStep(self, empty: EmptyStep) -> None:
        name = empty.step.name
        if empty.backward is None:
            self.report(
                empty.step.site,
                f"`{name}` steps, but no `backward` has given it gradients: it updates nothing",
                help="call `backward` on the loss before the step",
            )
            return
        self.report(
            empty.step.site,
            f"`{name}` steps before the `backward` of its iteration: the first is empty, the others are late",
            related=[(empty.backward.site, "the gradients are computed here")],
            help="step after the `backward`",
        )

"""Losses that both the program and accelerate divide by the number of micro-batches."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint import Category, Rule
from torchlint.model.relations import gradients
from torchlint.pytorch import triggers


class LossDividedTwice(Rule):
    """A loss is divided by the accumulation steps, and again by `backward`.

    ## What it does
    Finds `accelerator.backward(loss / n)` where the `Accelerator` is created with `gradient_accumulation_steps=n`.

    ## Why is this bad?
    `Accelerator.backward` divides the loss by the number of steps itself, so the gradients are `n` times too small.
    With SGD, each step is too small as well. With any optimizer, clipping and weight decay no longer fit the gradients.

    ## Example
    ```python
    from accelerate import Accelerator

    def train(model, optimizer, loader, criterion):
        accelerator = Accelerator(gradient_accumulation_steps=4)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = criterion(model(x), y) / 4
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
    ```

    Use instead:
    ```python
    from accelerate import Accelerator

    def train(model, optimizer, loader, criterion):
        accelerator = Accelerator(gradient_accumulation_steps=4)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = criterion(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## References
    - [Gradient accumulation with Accelerate](https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation)
    """

    code = "TL123"
    category = Category.CORRECTNESS
    triggers = ((b"gradient_accumulation_steps",), (b"Accelerator",), triggers.BACKWARD)

    def ask(self) -> Iterator[gradients.DividedTwice]:
        yield from gradients.divided_twice(self.model.program)

    def report_DividedTwice(self, found: gradients.DividedTwice) -> None:
        divided_at = found.quotient.site
        self.report(
            found.backward.site,
            "the loss is divided by the number of micro-batches, and `backward` divides it again",
            related=[(divided_at, "it is divided here")] if divided_at is not None else [],
            help="leave the division to `backward`",
        )

"""Learning-rate schedules whose length counts something else than their steps do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import Category, Confidence, Rule
from torchlint.model.relations import cadence
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast


class ScheduleInWrongUnit(Rule):
    """A schedule is stepped once a batch, but its length is in epochs, or the reverse.

    ## What it does
    Compares the length of a learning-rate schedule, as it is written (`T_max=epochs`,
    `num_training_steps=len(loader) * epochs`), with the loop in which `scheduler.step()` stands: over epochs, over
    batches, or over micro-batches of which several make one optimizer step. In Lightning it compares the length with
    the `interval` that `configure_optimizers` returns, which is an epoch by default. It is silent where the unit of
    the length is not known. In preview: a schedule that steps with each micro-batch, of unknown length; a schedule in
    batches that steps with the optimizer, where the number of micro-batches is not known.

    ## Why is this bad?
    A schedule in epochs that steps once a batch is over within the first epochs: the rate is close to zero, or
    goes up and down, for the rest of the training. A schedule in batches that steps once an epoch hardly begins: the
    rate stays in its warm-up, or never decays.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
                scheduler.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            scheduler.step()
    ```

    ## References
    - [torch.optim: how to adjust learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    - [Lightning: learning rate scheduling](https://lightning.ai/docs/pytorch/stable/common/optimization.html)
    """

    code = "TL119"
    category = Category.CORRECTNESS
    triggers = (triggers.SCHEDULER,)

    def ask(self) -> Iterator[cadence.Mismatch]:
        if not self.model.is_test:
            for trace in self.model.program.traces:
                yield from self.model.cadence.mismatches(trace)
            yield from self.model.cadence.configured_mismatches()

    def report_Mismatch(self, found: cadence.Mismatch) -> None:
        call = self.model.tree.node(found.site)
        name = python_ast.dotted(call.func).rpartition(".")[0] if isinstance(call, ast.Call) else ""
        name = "the schedule" if found.is_configured or not name else f"`{name}`"
        counts = f"its length `{found.written}` is in {found.unit.value}" if found.unit else "its optimizer less often"
        self.report(
            found.site,
            f"{name} steps {found.pace.value}, but {counts}",
            related=[(found.made, "the schedule is made here")] if found.made != found.site else (),
            help=self._advice(found),
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )

    def _advice(self, found: cadence.Mismatch) -> str:
        if found.is_configured:
            interval = "step" if found.pace is cadence.Pace.EPOCH else "epoch"
            return f'return the schedule in a dictionary with `"interval": "{interval}"`'
        if found.unit is cadence.Unit.EPOCHS:
            return "step it once an epoch, or multiply its length by the number of batches"
        if found.pace is cadence.Pace.EPOCH:
            return "step it behind the step of the optimizer, or give its length in epochs"
        if found.pace is cadence.Pace.MICRO_BATCH:
            return "step it where the optimizer steps"
        return "divide its length by the number of micro-batches of a step"

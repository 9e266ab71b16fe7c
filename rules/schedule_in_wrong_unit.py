"""Learning-rate schedules whose length and steps use different units."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint import Category, Confidence, Rule
from torchlint.model.relations import cadence
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast


class ScheduleInWrongUnit(Rule):
    """A schedule steps once a batch but is measured in epochs, or the reverse.

    ## What it does
    Compares the length of a learning-rate schedule (`T_max=epochs`, `num_training_steps=len(loader) * epochs`) with the
    loop that contains `scheduler.step()`: a loop over epochs, batches or micro-batches. A length in samples, such as
    `len(dataset) * epochs`, fits none of them. In Lightning, torchlint
    compares the length with the `interval` that `configure_optimizers` returns, which is an epoch by default.

    Also finds schedules that fall to 0, such as `get_linear_schedule_with_warmup`, whose length is the number of
    batches of one epoch, although they step in several epochs.

    Not reported if torchlint does not know the unit of the length.

    Two kinds of findings need `--preview`:

    - a schedule of unknown length that steps with each micro-batch
    - a schedule measured in batches that steps with the optimizer, if the number of micro-batches is unknown

    ## Why is this bad?
    The learning rate is wrong for most of the training. If a schedule is measured in epochs but steps once per batch,
    it ends within the first epochs. After that, the rate stays near zero or goes up and down. If a schedule is measured
    in batches but steps once per epoch, it hardly starts: the rate stays in its warm-up, or never decays.

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

    ## What verify shows
    Confirmed if the schedule lowered the learning rate to a thousandth of its first value before `torchlint verify`
    stopped the program, or if a short `CosineAnnealingLR` went on for three times its length. Nothing refutes it.

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
        if found.is_of_one_epoch:
            self.report(
                found.site,
                f"{name} steps in several epochs, but its length `{found.written}` is the number of batches of one",
                related=[(found.made, "the schedule is created here")],
                help="multiply its length by the number of epochs",
            )
            return
        counts = (
            f"its length `{found.written}` is in {found.unit.value}" if found.unit else "its optimizer steps less often"
        )
        self.report(
            found.site,
            f"{name} steps {found.pace.value}, but {counts}",
            related=[(found.made, "the schedule is created here")] if found.made != found.site else (),
            help=self._advice(found),
            confidence=Confidence.HIGH if found.is_sure else Confidence.LOW,
        )

    def _advice(self, found: cadence.Mismatch) -> str:
        if found.is_configured:
            interval = "step" if found.pace is cadence.Pace.EPOCH else "epoch"
            return f'return the schedule in a dictionary with `"interval": "{interval}"`'
        if found.unit is cadence.Unit.SAMPLES:
            return "divide its length by the batch size: `len(loader)` is the number of batches"
        if found.unit is cadence.Unit.EPOCHS:
            return "step it once an epoch, or multiply its length by the number of batches"
        if found.pace is cadence.Pace.EPOCH:
            return "step it after the optimizer's step, or give its length in epochs"
        if found.pace is cadence.Pace.MICRO_BATCH:
            return "step it where the optimizer steps"
        return "divide its length by the number of micro-batches per step"

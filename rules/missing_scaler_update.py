"""Gradient scalers that some iterations do not update."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint import Category, Rule
from torchlint.model import events
from torchlint.model.relations import gradients


class MissingScalerUpdate(Rule):
    """A gradient scaler steps or unscales, but some paths do not update it.

    ## What it does
    Finds `scaler.step(optimizer)` or `scaler.unscale_(optimizer)` in a loop in which an iteration can end without
    `scaler.update()`. The `update()` is missing, comes after a `continue`, or is only in one branch.

    ## Why is this bad?
    A scaler may step and unscale only once between two updates. If an iteration ends without an update, the next one
    raises `unscale_() has already been called on this optimizer since the last update()`, or the same for `step()`.
    Often this happens hours into a run, at the first batch with infinite gradients.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, optimizer):
        scaler = torch.amp.GradScaler()
        for x, y in loader:
            optimizer.zero_grad()
            scaler.scale(criterion(model(x), y)).backward()
            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if torch.isfinite(norm):
                scaler.step(optimizer)
                scaler.update()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, optimizer):
        scaler = torch.amp.GradScaler()
        for x, y in loader:
            optimizer.zero_grad()
            scaler.scale(criterion(model(x), y)).backward()
            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if torch.isfinite(norm):
                scaler.step(optimizer)
            scaler.update()
    ```

    ## References
    - [torch.amp.GradScaler](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
    """

    code = "TL121"
    category = Category.CORRECTNESS
    triggers = ((b"GradScaler",), (b"step", b"unscale_"))

    def ask(self) -> Iterator[gradients.NotUpdated]:
        yield from gradients.not_updated(self.model.program)

    def report_NotUpdated(self, found: gradients.NotUpdated) -> None:
        scaler, call = found.event.scaler, "unscale_" if isinstance(found.event, events.Unscale) else "step"
        name = scaler.label if scaler is not None and scaler.label else "the scaler"
        self.report(
            found.event.site,
            f"some iterations do not update `{name}`: the next `{call}` raises",
            related=[(found.update.site, "only some iterations reach this `update`")]
            if found.update is not None
            else [],
            help=f"call `{name}.update()` once in each iteration that calls `step` or `unscale_`",
        )

"""Gradients of an optimizer that are never cleared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from torchlint import Category, Rule, repairs, triage

if TYPE_CHECKING:
    from torchlint.model.protocol import StaleGradients


class MissingZeroGrad(Rule):
    """Gradients are never cleared between two steps of an optimizer.

    ## What it does
    Follows every path from one `step` of an optimizer to its next. When at least one of them has a `backward`
    and none of them clears the gradients, the `backward` adds to gradients that were already used.

    ## Why is this bad?
    `backward` adds to `.grad`. Without a `zero_grad`, each step uses the sum of all gradients since training
    began: the effective learning rate and the direction are wrong, the loss often still falls, and the run is wasted.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    The fix clears the gradients before the forward pass where that, the `backward` and the step follow each other
    in one block, and else after the step. It changes what is trained, which is its purpose, so it is unsafe; code
    that reads `.grad` after the step would see none where it clears there.

    ## What verify shows
    `torchlint verify` follows each gradient from step to step: confirmed by steps that use gradients which an
    earlier step has used and nobody has cleared, with the norm of the accumulated against that of the fresh gradient;
    refuted by steps that never do, and clearings that were seen, however they are written.

    ## References
    - [torch.optim.Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    """

    code = "TL101"
    category = Category.CORRECTNESS
    triggers = ((b"backward(",), (b"step(", b".grad"))

    @classmethod
    def is_worth_a_parse(cls, data: bytes) -> bool:
        return triage.goes_backward(data)

    def ask(self) -> Iterable[StaleGradients]:
        return self.model.protocol.stale_gradients()

    def report_StaleGradients(self, stale: StaleGradients) -> None:
        name = stale.step.name
        if stale.step.manual:
            adds = "this `backward` adds to those already used for its update"
        else:
            adds = "this `backward` adds to those of its previous step"
        self.report(
            stale.backward.site,
            f"gradients of `{name}` are never cleared: {adds}",
            related=[(stale.step.site, f"`{name}` has already used the old gradients here")],
            help=_help(name, stale.step.manual),
            fix=repairs.missing_clear(self.model, self.nodes, stale),
        )


def _help(name: str, manual: bool) -> str:
    if manual:
        return f"clear them after the update: `{name}.grad = None`"
    return f"call `{name}.zero_grad()` once per step, before the `backward`"

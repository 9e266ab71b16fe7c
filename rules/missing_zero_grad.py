"""Gradients of an optimizer that are never cleared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint import Category, Rule, repairs
from torchlint.model.relations import gradients
from torchlint.pytorch import triggers

if TYPE_CHECKING:
    from torchlint.index import FileIndex


class MissingZeroGrad(Rule):
    """Gradients are never cleared between two steps of an optimizer.

    ## What it does
    Follows all paths from one `step` of an optimizer to its next `step`. Reports a `backward` on such a path if nothing
    clears the gradients on the way. This `backward` adds to gradients that the optimizer has already used.

    If the code clears the gradients of only some parameters, torchlint checks each module and parameter. If a condition
    depends on known numbers, as in `if (i + 1) % 4 == 0:`, torchlint checks each iteration.

    Not reported: loops that only measure time. Such loops train on constants and keep no result.

    ## Why is this bad?
    The run is wasted. `backward` adds to `.grad`, so without `zero_grad` each step uses the sum of all gradients since
    training began. The optimizer then moves too far and in the wrong direction, but the loss often still falls.

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
    The fix clears the gradients before the forward pass, or after the step. It calls what the function already uses
    elsewhere, such as `model.zero_grad()`. Otherwise it calls the optimizer's own `zero_grad`.

    If an iteration may skip the step, the place depends on the reason:

    - The code checks the loss or the gradients, as in `if torch.isfinite(norm):`. The fix clears before the forward
      pass. Otherwise one bad batch would spoil all later steps.
    - The code counts, as in `if (i + 1) % 4 == 0:`. Here gradients accumulate on purpose, so the fix clears after the
      step.

    There is no fix in these cases:

    - Both reasons apply, or torchlint does not know the reason.
    - The code reads `.grad` after the step.
    - The class of the optimizer is imported, and may have no `zero_grad`.
    - A `lambda` that the step calls goes backward: `optimizer.step(lambda: loss().backward())`.

    The fix is unsafe because it changes training, which is its purpose.

    ## What verify shows
    `torchlint verify` follows each gradient from step to step. It confirms the finding if a step uses gradients that an
    earlier step has already used. The report then says how many times too large the gradients are. It refutes the
    finding if no step does this and something in the program clears the gradients.

    ## Known limits
    A program may collect the parameters of a model in a list, add more parameters to the model, and then clear only the
    gradients of the list. torchlint assumes that the list is complete.

    ## References
    - [torch.optim.Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    """

    code = "TL101"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, (*triggers.STEP, b"grad"))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[gradients.StaleGradients | gradients.StalePart]:
        self._words = repairs.clearing_words(self.model)
        found = list(self.model.gradients.stale())
        yield from found
        steps = {answer.step for answer in found}
        yield from (part for part in self.model.gradients.stale_parts() if part.following not in steps)

    def report_StalePart(self, stale: gradients.StalePart) -> None:
        name, used, following = stale.part.label, stale.step.name, stale.following.name
        self.report(
            stale.backward.site,
            f"this `backward` adds to old gradients of `{name}`: the code clears other gradients, but not these",
            related=[(stale.step.site, f"`{used}` used the old gradients of `{name}` here, in an earlier step")],
            help=f"call `{following}.zero_grad()` before the `backward`: it clears all its gradients",
        )

    def report_StaleGradients(self, stale: gradients.StaleGradients) -> None:
        name, manual = self._words.name(stale.step), stale.step.manual
        statement, cleared = self._words.statement(stale)
        when = _when(stale.cleared_elsewhere, stale.loop is not None)
        whose = "already used for its update" if manual else "of the previous step"
        self.report(
            stale.backward.site,
            f"gradients of `{name}` are {when}: this `backward` adds to those {whose}",
            related=[(stale.step.site, f"`{name}` used the old gradients here, in an earlier step")],
            help=_help(name, statement, manual),
            fix=repairs.missing_clear(self.model, self.nodes, stale, statement=statement, target=cleared),
        )


def _when(elsewhere: bool, in_loop: bool) -> str:
    if not elsewhere:
        return "never cleared"
    return "not cleared between the steps of this loop" if in_loop else "not cleared between its steps"


def _help(name: str, statement: str | None, manual: bool) -> str:
    if manual:
        return f"clear them after the update: `{name}.grad = None`"
    call = f"call `{statement}`" if statement is not None else "clear them"
    return f"{call} once per step, before the `backward`"

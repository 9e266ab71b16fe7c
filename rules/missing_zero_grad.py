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
    Follows every path from one `step` of an optimizer to its next. Reports a `backward` on such a path if no path
    clears the gradients: the `backward` then adds to gradients that the optimizer has already used.

    If the code clears only some of the optimizer's parameters, torchlint follows each module and parameter. If the
    step depends on a condition with known numbers, such as `(i + 1) % 4 == 0`, torchlint follows each iteration.

    Not reported: loops that only measure time. They train on constants and keep no result.

    ## Why is this bad?
    The run is wasted. `backward` adds to `.grad`, so without `zero_grad` each step uses the sum of all gradients
    since training began. The effective learning rate and the direction are wrong, but the loss often still falls.

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
    The fix clears the gradients before the forward pass, or after the step. On every path it clears the gradients
    that a step has used, and no others. The place depends on why an iteration may skip the step:

    - A check of the loss or gradients, such as `if torch.isfinite(norm):`. The fix clears before the forward pass,
      because one bad batch would otherwise spoil all later steps.
    - A count, such as `if (i + 1) % 4 == 0:`. Gradients accumulate, so the fix clears after the step.

    There is no fix where both apply, where the reason is unknown, or where code reads `.grad` after the step.

    The fix repeats the clearing that the function uses elsewhere, such as `model.zero_grad()`, or calls the
    optimizer's own `zero_grad`. There is no fix for an optimizer of an imported class that may lack this method.
    The fix is unsafe: it changes training, which is its purpose.

    ## What verify shows
    `torchlint verify` follows each gradient from step to step. It confirms the finding if a step uses gradients
    that an earlier step has already used. The report compares the norms of the accumulated and the new gradient. It
    refutes the finding if no step does this and the program clears its gradients, in any form.

    ## Known limits
    If a program adds parameters to a model and then clears an older list of parameters, torchlint assumes that the
    list is complete.

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
            f"gradients of `{name}` are not cleared with the others: this `backward` adds to those already used",
            related=[(stale.step.site, f"`{used}` has already used the old gradients of `{name}` here")],
            help=f"before the `backward`, call `{following}.zero_grad()`, which clears all its parameters",
        )

    def report_StaleGradients(self, stale: gradients.StaleGradients) -> None:
        name, manual = self._words.name(stale.step), stale.step.manual
        statement, cleared = self._words.statement(stale)
        when = _when(stale.cleared_elsewhere, stale.loop is not None)
        whose = "already used for its update" if manual else "of the previous step"
        self.report(
            stale.backward.site,
            f"gradients of `{name}` are {when}: this `backward` adds to those {whose}",
            related=[(stale.step.site, f"`{name}` has already used the old gradients here")],
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

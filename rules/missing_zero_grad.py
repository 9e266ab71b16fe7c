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
    Follows every path from one `step` of an optimizer to its next. When at least one of them has a `backward`
    and none of them clears the gradients, the `backward` adds to gradients that were already used.
    Where only some of what the optimizer holds is cleared, it follows each module and parameter; where conditions such
    as `(i + 1) % 4 == 0` decide, with numbers that the file says, each iteration.
    Nothing is said of a loop that is timed on constants and leaves nothing: it trains nothing.

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
    The fix clears the gradients where, on every path, none that a step has used are left and none that a step still
    needs are lost: before the forward pass, or after the step. A step that an iteration may leave out decides. Where
    a check of the loss or of the gradients does, such as `if torch.isfinite(norm):`, the fix clears before the forward
    pass, or one bad batch would spoil all later steps. Where a count does, `if (i + 1) % 4 == 0:`, gradients add up,
    and the fix clears after the step. There is no fix where both do, where the reason is unknown, or where code reads
    `.grad` after the step.

    The fix repeats what the function clears with elsewhere, such as `model.zero_grad()`, or calls the optimizer's own
    `zero_grad`; there is none for an optimizer of an imported class that is not known to have one. It is unsafe: it
    changes what is trained, which is its purpose.

    ## What verify shows
    `torchlint verify` follows each gradient from step to step: confirmed by steps that use gradients which an
    earlier step has used and nobody has cleared, with the norm of the accumulated against that of the fresh gradient;
    refuted by steps that never do, and clearings that were seen, however they are written.

    ## Known limits
    A clearing by hand of parameters that were listed before the model grew is taken for one of all of them: which there
    were by then, only a run knows.

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
            help=f"call `{following}.zero_grad()`, which clears all that it holds, before the `backward`",
        )

    def report_StaleGradients(self, stale: gradients.StaleGradients) -> None:
        name, manual = self._words.name(stale.step), stale.step.manual
        statement, cleared = self._words.statement(stale)
        when = _when(stale.cleared_elsewhere, stale.loop is not None)
        whose = "already used for its update" if manual else "of its previous step"
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

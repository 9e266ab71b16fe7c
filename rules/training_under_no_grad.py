"""Losses that are backpropagated though their forward ran with gradients off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint import Category, Rule, edits, prefilter

if TYPE_CHECKING:
    from torchlint.model.queries.grad_mode import LossWithoutGraph, UntrainedModule
    from torchlint.syntax.python_ast import Site


class TrainingUnderNoGrad(Rule):
    """The forward pass of a backpropagated loss runs with gradients off.

    ## What it does
    Follows the grad mode (`no_grad`, `inference_mode`, `enable_grad`, `set_grad_enabled`, as block, decorator or
    statement, through calls in the module) to the loss that a `backward` is called on.

    ## Why is this bad?
    A loss that was computed with gradients off has no graph: `backward` raises, or, where only a part of the
    model is left out, that part silently never learns.

    ## Example
    ```python
    import torch

    @torch.no_grad()
    def train(model, loader, criterion, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    ```

    ## Fix safety
    The fix removes a decorator that switches gradients off, and is unsafe: everything in the function records a graph
    from then on. Blocks are left alone, since which of their lines were meant to be without gradients is unknown.

    ## What verify shows
    `torchlint verify` confirms it by a backward that fails for want of a graph, or by parameters of a module that
    runs there and never get a gradient in the steps of the optimizer that holds them; it refutes it if all that is
    trained gets gradients and moves.

    ## Known limits
    `enable_grad()` inside `inference_mode()` is taken to switch gradients on, which it does not.

    ## References
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation)
    """

    code = "TL104"
    category = Category.CORRECTNESS
    triggers = (prefilter.BACKWARD, prefilter.NO_GRAD)

    @classmethod
    def is_worth_a_parse(cls, data: bytes) -> bool:
        return prefilter.goes_backward(data)

    def ask(self) -> Iterator[LossWithoutGraph | UntrainedModule]:
        yield from self.model.grad_modes.losses_without_graph()
        yield from self.model.grad_modes.untrained_modules()

    def report_LossWithoutGraph(self, loss: LossWithoutGraph) -> None:
        self.report(
            loss.backward.site,
            "the loss was computed with gradients off: it has no graph to go backward through",
            related=[(loss.switch, "gradients are switched off here")] if loss.switch is not None else [],
            help="run the forward pass with gradients on",
            fix=self._without(loss.switch),
        )

    def report_UntrainedModule(self, untrained: UntrainedModule) -> None:
        related = [(untrained.step.site, f"`{untrained.step.name}` has its parameters")]
        if untrained.switch is not None:
            related.append((untrained.switch, "gradients are switched off here"))
        self.report(
            untrained.forward.site,
            f"`{untrained.name}` only runs with gradients off: its parameters are stepped on but never learn",
            related=related,
            help="run the forward pass with gradients on, or leave the parameters out of the optimizer",
            fix=self._without(untrained.switch),
        )

    def _without(self, switch: Site | None) -> edits.Change | None:
        decorator = self.nodes.at(switch) if self.nodes is not None else None
        if not isinstance(decorator, cst.Decorator):
            return None
        return edits.Change("remove the decorator that switches gradients off", [edits.Delete(decorator)])

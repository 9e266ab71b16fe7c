"""Graphs retained for a second backward that never comes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from torchlint import Category, Rule, repairs
from torchlint.pytorch import triggers

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.model.events import Backward
    from torchlint.model.queries.retained_graphs import UnusedRetention
    from torchlint.syntax.python_ast import Site


class RetainGraphInLoop(Rule):
    """A backward in a loop retains a graph that no later backward uses.

    ## What it does
    Finds `backward(retain_graph=True)` in a loop, if nothing in the same iteration uses the graph again.

    Also finds a hidden state that is never detached, if `retain_graph=True` keeps its graph from batch to batch.
    torchlint reports this once for each hidden state, even if the next `backward` raises an error because the optimizer
    has changed weights that the old graph needs.

    Not reported:

    - A loop that always ends in `break` runs only once.
    - Only local variables of a function hold the graph. It is freed when the function returns.
    - No variable holds the graph, as in `loss_of(x).backward(retain_graph=True)`. It is freed after the statement.

    ## Why is this bad?
    The activations stay in memory until the next iteration assigns a new loss, so the activations of two iterations are
    in memory at once.

    Often somebody added the argument to silence "Trying to backward through the graph a second time". Then it hides a
    hidden state that is never detached. Each `backward` goes through all earlier iterations, so time and memory grow
    with each batch.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward(retain_graph=True)
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
    The fix removes the argument. It is unsafe: if code that torchlint does not see uses the graph again, its `backward`
    raises an error. There is no fix for a hidden state that is never detached. Detach it first.

    ## What verify shows
    `torchlint verify` watches the retained graphs. It confirms the finding if no later `backward` uses them, or if the
    graph grows from iteration to iteration. It refutes the finding if a later `backward` uses them.

    ## References
    - [torch.Tensor.backward](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html)
    """

    code = "TL202"
    category = Category.SUSPICIOUS
    triggers = (triggers.BACKWARD,)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterable[UnusedRetention]:
        return self.model.retained_graphs.unused()

    def report_UnusedRetention(self, unused: UnusedRetention) -> None:
        related = [(unused.loop.site, "in this loop")]
        if unused.hidden is not None:
            self._report_hidden_state(unused.backward, unused.name or "a hidden state", related)
            return
        self.report(
            unused.backward.site,
            "`retain_graph=True` keeps the activations for one more iteration, but no later `backward` uses them",
            related=related,
            help="drop `retain_graph=True`",
            fix=repairs.without_argument(self.nodes, unused.backward.site, "retain_graph"),
            about=unused.backward.site,
        )

    def _report_hidden_state(self, backward: Backward, name: str, related: list[tuple[Site, str]]) -> None:
        outcome = "each backward runs through all earlier iterations"
        if (step := self.model.parameter_updates.step_across(backward)) is not None:
            outcome = "the next backward raises, because it needs the old weights"
            related = [*related, (step.site, f"`{step.name}` changes them here")]
        self.report(
            backward.site,
            f"this needs `retain_graph=True` only because `{name}` is never detached: {outcome}",
            related=related,
            help=f"detach `{name}` between iterations and drop `retain_graph=True`",
        )

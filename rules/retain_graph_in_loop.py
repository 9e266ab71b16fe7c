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
    Finds `retain_graph=True` where no later pass of the same iteration uses any part of the graph, and no part of
    the graph is older than the iteration. Also finds a hidden state that is never detached, even where the next
    `backward` raises because the optimizer changed weights that the old graph needs. Each hidden state is one
    finding.

    Not reported:

    - a loop that always ends in `break`, so nothing repeats;
    - a graph held only by local variables of a function that the loop calls, because it is freed when the function
      returns;
    - a graph that no name holds, as in `loss_of(x).backward(retain_graph=True)`, because it is freed after the
      statement.

    ## Why is this bad?
    The activations stay in memory until the loss is reassigned, so two iterations' activations are in memory at the
    peak. Often the argument was added to silence "Trying to backward through the graph a second time", and hides a
    hidden state that is never detached. Then each backward runs through all earlier iterations, and time and memory
    grow without end.

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
    The fix drops the argument. It is unsafe: if code that torchlint does not see uses the graph again, its
    `backward` raises. There is no fix for a hidden state that is never detached, which must be detached first.

    ## What verify shows
    `torchlint verify` marks the nodes of retained graphs. Confirmed if no later backward reaches these nodes, or if the
    graph grows from iteration to iteration. Refuted if a later backward reaches the nodes.

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
            "`retain_graph=True`, but no later `backward` uses the graph: its activations stay for one more iteration",
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

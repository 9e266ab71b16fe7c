"""Tensors stored across iterations together with their graphs."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from torchlint import Category, Confidence, Rule, Severity, repairs
from torchlint.model import events
from torchlint.pytorch import triggers

if TYPE_CHECKING:
    from torchlint.index import FileIndex

    from ._kept_graphs import KeptGraph


class UndetachedAccumulation(Rule):
    """A tensor is stored across iterations together with its graph.

    ## What it does
    Finds tensors that have a graph and are stored in a sum, list, dictionary, attribute or meter that outlives the
    iteration. Not reported if a later `backward` goes through these graphs.

    Two kinds of findings need `--preview`, if no `backward` through the tensor is visible:

    - The training loop stores the tensors in a list or dictionary.
    - An object from another file stores the tensors in an attribute.

    ## Why is this bad?
    Memory grows until the run dies. Two cases differ:

    - No `backward` goes through the graph, or the `backward` has `retain_graph=True`. Then the activations of every
      iteration stay in memory.
    - `backward` was called on the loss. PyTorch has then freed the saved tensors, but the nodes of the graph stay. A
      sum grows into one long chain of nodes.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.Adam(model.parameters())
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss
        return total / len(loader)
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.Adam(model.parameters())
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total / len(loader)
    ```

    ## Severity
    An error if the activations of every iteration stay in memory. A warning if a `backward` has freed them and only the
    nodes of the graph stay.

    ## Fix safety
    `.detach()` is safe if a `backward` without `retain_graph=True` has already used the graph, because then nothing
    else can use it. Otherwise it is unsafe, because a `backward` that torchlint does not see may need the graph.
    `.item()` replaces sums that are only printed or logged. It is unsafe because Python adds in higher precision than
    the tensor.

    ## What verify shows
    `torchlint verify` counts the graphs of earlier iterations that are still in memory. It confirms the finding if
    there are more and more of them. On a GPU, the report also says how many bytes each step adds. `verify` refutes the
    finding if the graphs are freed at the end of their iteration.

    ## Known limits
    If a list drops its oldest elements beyond some length, torchlint does not report it, however long the list is. It
    does not report a `deque` whose `maxlen` is at most 100 or unknown. It does not report tensors that a forward hook
    stores, because torchlint does not run hooks when a module is called.

    ## References
    - [My model reports out of memory](https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory)
    """

    code = "TL201"
    category = Category.CORRECTNESS
    triggers = (
        (b"torch", *triggers.BACKWARD),
        (*triggers.BACKWARD, *triggers.EVAL, b"training_step"),
        (b"+", b"-=", b"]", *triggers.SUM, *triggers.KEEP),
    )

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        trains = index.goes_backward or index.has_word((b"training_step",))
        return trains or index.keeps_while_evaluating

    def ask(self) -> Iterable[KeptGraph]:
        from ._kept_graphs import KeptGraphs

        return KeptGraphs(self.model).answers()

    def report_KeptGraph(self, kept: KeptGraph) -> None:
        name = kept.keep.name or "a container"
        is_called = kept.site.inner is None and kept.keep.site.inner is not None
        place = f"`{name}` of `{kept.keep.site.file}`" if is_called else f"`{name}`"
        verb = self._verb(kept)
        if kept.is_beside_loss and not kept.holds_activations:
            cost = "every iteration's graph stays in memory, with tensors that `backward` has not freed"
        elif not kept.holds_activations:
            cost = "every iteration's graph stays in memory, although `backward` frees its saved tensors"
        elif kept.backward is None:
            every = "every iteration's activations" if kept.limit is None else f"activations of {kept.limit} iterations"
            cost = f"{every} stay in memory"
        else:
            option = "retain_graph" if kept.backward.retain is True else "create_graph"
            cost = f"`{option}=True` keeps every iteration's activations in memory"
        related = [(kept.loop.site, "on every iteration of this loop")] if kept.loop is not None else []
        if kept.site != kept.keep.site:
            related.append((kept.keep.site, f"it is stored here, in `{name}`"))
        self.report(
            kept.site,
            f"this {verb} {place}: {cost}",
            related=related,
            help=_help(kept),
            severity=Severity.ERROR if kept.holds_activations else Severity.WARNING,
            confidence=_confidence(kept),
            fix=None if kept.is_used_inside or kept.is_drawn_from else repairs.detach(self.model, self.nodes, kept),
        )

    def _verb(self, kept: KeptGraph) -> str:
        if kept.keep.how is not events.Keeping.ADD:
            return "stores a tensor with its graph in"
        node = self.model.tree.node(kept.keep.site)
        is_taken = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub)
        return "subtracts a tensor with its graph from" if is_taken else "adds a tensor with its graph to"


def _confidence(kept: KeptGraph) -> Confidence:
    if not kept.is_sure:
        return Confidence.LOW
    return Confidence.HIGH if kept.backward is not None or kept.framework else Confidence.MEDIUM


def _help(kept: KeptGraph) -> str:
    if kept.is_drawn_from:
        return f"empty `{kept.keep.name}` after its `backward`"
    if kept.backward is None and not kept.framework and kept.is_sure:
        return "evaluate under `torch.no_grad()`, or use `.item()` for a number"
    is_sum = kept.keep.how is events.Keeping.ADD
    return "use `.item()` for a number, or `.detach()`" if is_sum else "use `.detach()`, or `.item()` for a number"

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
    Finds tensors with a graph in a list, sum, dictionary, attribute or meter that outlives the iteration, unless a
    later `backward` runs through them.

    Reported only with `--preview`:

    - tensors that the training loop puts into a list or dictionary with no `backward` through it;
    - tensors that an object from another file stores in an attribute, such as a meter.

    ## Why is this bad?
    Memory grows until the run dies. If no `backward` runs through the graph, or one with `retain_graph=True`, every
    iteration's activations stay in memory. If the loss was backpropagated, the saved tensors are freed but the
    nodes of the graph stay. A sum then carries an ever longer history instead of a number.

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
    An error where every iteration's activations stay in memory: no `backward` runs through the graph, or one with
    `retain_graph=True`. A warning where a `backward` has freed them and only nodes of the graph stay.

    ## Fix safety
    `.detach()` is safe where the tensor already went through a `backward` without `retain_graph=True`, since no other
    backward can use its graph. Elsewhere it is unsafe, because a `backward` that torchlint does not see may need the
    graph. `.item()`, for sums that are only printed or logged, is unsafe because Python adds in higher precision.

    ## What verify shows
    `torchlint verify` counts live autograd graphs of earlier iterations. Confirmed if these graphs pile up; on a GPU,
    the report also gives the bytes per step. Refuted if the graphs do not outlive their iteration and the container
    holds none of them.

    ## Known limits
    A list that drops its oldest elements beyond a size counts as bounded, however large that size is. A `deque` is
    bounded where its `maxlen` is at most 100 or not a literal number. Tensors that a forward hook stores are not
    reported, because torchlint does not run hooks at the module's call.

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
            cost = "every iteration's graph stays in memory, with the tensors saved outside the loss"
        elif not kept.holds_activations:
            cost = "every iteration's graph stays in memory, though `backward` has freed its saved tensors"
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

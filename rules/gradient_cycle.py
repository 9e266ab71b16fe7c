"""Gradients with a graph that are stored in tensors of one iteration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, lineage, program, values
from torchlint.pytorch import naming, triggers

if TYPE_CHECKING:
    from torchlint.index import FileIndex


class Cycle(NamedTuple):
    """`backward` stores a gradient with its graph in `leaf`, which is in that graph."""

    backward: events.Backward
    leaf: values.Tensor


class GradientCycle(Rule):
    """`backward(create_graph=True)` leaves a gradient whose graph is never freed.

    ## What it does
    Finds `backward(create_graph=True)` in a loop, as in a gradient penalty. The loop reads the `.grad` of a tensor that
    it created in the same iteration, and never sets `.grad` to None.

    Files that assign or delete any `.grad` are not reported. The gradients of parameters are not reported either,
    because `zero_grad` breaks their cycles.

    ## Why is this bad?
    Each iteration leaks memory. The tensor holds its gradient, and the graph of the gradient holds the tensor. Nothing
    frees such a cycle, not even Python's garbage collector. `backward` also adds to the gradients of all parameters,
    and the next step of the optimizer uses them.

    ## Example
    ```python
    import torch

    def train(critic, loader, optimizer):
        for real in loader:
            optimizer.zero_grad()
            x = real.clone().requires_grad_(True)
            critic(x).sum().backward(create_graph=True)
            penalty = (x.grad.norm(dim=1) - 1).pow(2).mean()
            penalty.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(critic, loader, optimizer):
        for real in loader:
            optimizer.zero_grad()
            x = real.clone().requires_grad_(True)
            (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
            penalty = (gradient.norm(dim=1) - 1).pow(2).mean()
            penalty.backward()
            optimizer.step()
    ```

    ## What verify shows
    `torchlint verify` confirms the finding if the graphs of ten gradients from the line all still exist. It refutes the
    finding if all of these graphs except the last were freed.

    ## References
    - [torch.Tensor.backward](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html)
    - [torch.autograd.backward](https://docs.pytorch.org/docs/stable/generated/torch.autograd.backward.html): "Using
      this method with `create_graph=True` will create a reference cycle"
    """

    code = "TL210"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, (b"create_graph",))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[Cycle]:
        for trace in self.model.program.traces if not self._resets_gradients() else ():
            for backward in trace.of(events.Backward):
                leaf = self._stored_in(trace, backward) if backward.create and backward.loops else None
                if leaf is not None:
                    yield Cycle(backward, leaf)

    def _resets_gradients(self) -> bool:
        """Whether the program assigns, deletes or detaches some `.grad`."""
        stored = (node for node in self.model.program.nodes(ast.Attribute) if node.attr == "grad")
        is_reset = any(not isinstance(node.ctx, ast.Load) for node in stored)
        texts = (tree.source.code for tree in self.model.program.files)
        return is_reset or any(word in text for text in texts for word in (b".grad.detach_", b'"grad"', b"'grad'"))

    def _stored_in(self, trace: program.Trace, backward: events.Backward) -> values.Tensor | None:
        """A leaf of the same iteration in the graph of a loss, whose gradient is read and that no optimizer holds."""
        made = (event.value for event in trace.of(events.Fresh))
        optimizers = [item for item in made if isinstance(item, values.Optimizer)]
        for item in self.model.tracking.graph(backward.loss):
            if isinstance(item, values.Leaf) and item.leaf and _is_new(item, backward.loops):
                are_others = (self.model.ownership.holds(each, item) is values.Answer.NO for each in optimizers)
                if item.part("grad") is not None and all(are_others):
                    return item
        return None

    def report_Cycle(self, cycle: Cycle) -> None:
        name = cycle.leaf.label or "x"
        self.report(
            cycle.backward.site,
            f"`{name}` and its gradient reference each other because of `create_graph=True`: each iteration leaks both",
            related=[(cycle.leaf.site, "it is created here")] if cycle.leaf.site is not None else [],
            help=f"compute the gradient with `torch.autograd.grad(..., {name}, create_graph=True)`",
        )


def _is_new(leaf: values.Leaf, loops: tuple[events.Loop, ...]) -> bool:
    """Whether a leaf, possibly made by `requires_grad_`, is new in each iteration."""
    made_of = [values.resolved(item) for item in leaf.parents[:1]]
    batches = [lineage.whole_of(item) for item in made_of if not isinstance(item, values.Tensor)]
    elements = [item.parents[0].label for item in batches if isinstance(item, values.Iteration) and item.parents]
    return all(item.loops == loops for item in (leaf, *made_of)) and all(map(naming.LOADER.search, elements))

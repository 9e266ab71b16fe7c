"""Gradient accumulation that steps on all micro-batches except the last of each window."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, program, values
from torchlint.model.relations import gradients
from torchlint.pytorch import triggers
from torchlint.syntax.python_ast import Site, dotted, site_of

if TYPE_CHECKING:
    from torchlint.index import FileIndex


class Inverted(NamedTuple):
    """`test` prevents `step` from using the gradients of `backward` only in every `window`-th iteration."""

    test: Site
    window: str
    step: events.Step
    backward: events.Backward


class InvertedAccumulation(Rule):
    """An optimizer steps on every micro-batch except the last of each window.

    ## What it does
    Finds `if i % k:` or `if i % k != 0:` around `optimizer.step()` and its `zero_grad`, if every iteration computes
    gradients.

    Not reported if the `else` branch steps or clears, if `k` is 2, or if the condition also contains the `backward`.

    ## Why is this bad?
    The condition is true for all micro-batches except every `k`-th one. So the optimizer steps `k - 1` times instead of
    once. Each step uses the gradients of one micro-batch. If the code divides the loss by `k`, these gradients are `k`
    times too small.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, k):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, (x, y) in enumerate(loader, start=1):
            (criterion(model(x), y) / k).backward()
            if i % k:
                optimizer.step()
                optimizer.zero_grad()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, k):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, (x, y) in enumerate(loader, start=1):
            (criterion(model(x), y) / k).backward()
            if i % k == 0:
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## References
    - [Gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "TL126"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, triggers.STEP, triggers.CLEAR, (b"%",))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[Inverted]:
        seen = set[Site]()
        for trace in self.model.program.traces if not self.model.is_test else ():
            for step in trace.of(events.Step):
                for branch, arm in step.path if not step.manual else ():
                    window = self._window(branch, arm)
                    backward = self._accumulated(trace, step, (branch, arm)) if window is not None else None
                    if backward is not None and window is not None and site_of(window) not in seen:
                        seen.add(site_of(window))
                        assert isinstance(branch, events.Branch)
                        yield Inverted(branch.site, ast.unparse(window.right), step, backward)

    def _window(self, branch: object, arm: int) -> ast.BinOp | None:
        """The remainder that controls a branch, and enables it except at 0."""
        tree = self.model.tree
        if isinstance(branch, events.Branch) and branch.site.inner is not None:
            tree = branch.site.inner.tree
        node = tree.own_node(branch.site.written) if isinstance(branch, events.Branch) else None
        if not isinstance(node, ast.If):
            return None
        test = node.test if arm == 0 else ast.UnaryOp(ast.Not(), node.test)
        window = gradients.windows.inverted(test)
        if window is None or not (isinstance(window.right, ast.Constant) or dotted(window.right)):
            return None
        is_wide = not isinstance(window.right, ast.Constant) or window.right.value not in (1, 2)
        return window if is_wide else None

    def _accumulated(self, trace: program.Trace, step: events.Step, arm: tuple[object, int]) -> events.Backward | None:
        """The backward of every iteration whose step, with all clearings, is in one branch."""
        optimizer = values.resolved(step.optimizer)
        loops = step.loops[-1:]
        around = [event for event in trace.events if not loops or loops[0] in event.loops]
        clears = [event for event in around if self.model.ownership.may_clear(event, optimizer)]
        steps = [item for item in around if isinstance(item, events.Step) and _is_of(item, optimizer)]
        if not any(isinstance(item, events.Clear) and item.order > step.order for item in clears):
            return None
        if not all(arm in item.path for item in (*clears, *steps)):
            return None
        passes = [item for item in around if isinstance(item, events.Backward)]
        own = [item for item in passes if self.model.ownership.reaches(item, optimizer)]
        if not own or any(_is_decided(item, arm[0]) or item.order > step.order for item in own):
            return None
        return own[-1]

    def report_Inverted(self, found: Inverted) -> None:
        self.report(
            found.test,
            f"`{found.step.name}` steps on every micro-batch except every `{found.window}`-th one",
            related=[(found.backward.site, "gradients are computed here"), (found.step.site, "they are used here")],
            help=f"step where the remainder modulo `{found.window}` is zero",
        )


def _is_of(step: events.Step, optimizer: values.Value) -> bool:
    return values.resolved(step.optimizer) is optimizer


def _is_decided(event: events.Event, branch: object) -> bool:
    """Whether an event happens only in one branch, or after a branch that leaves."""
    return any(item is branch for item, _ in (*event.path, *event.passed))

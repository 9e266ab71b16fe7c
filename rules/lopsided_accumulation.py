"""Gradient accumulation whose first update uses one micro-batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule, edits
from torchlint.model import events, program, values
from torchlint.model.relations import gradients
from torchlint.pytorch import triggers
from torchlint.syntax.python_ast import FUNCTIONS, LOOPS, site_of, walk, written_alike

if TYPE_CHECKING:
    from torchlint.index import FileIndex


class LopsidedWindow(NamedTuple):
    """`test` lets `step` use the first iteration's gradients of `backward`, since `counter` starts at zero."""

    test: ast.If
    counter: ast.Name
    window: str
    backward: events.Backward
    step: events.Step


class LopsidedAccumulation(Rule):
    """Gradient accumulation takes its first step after a single micro-batch.

    ## What it does
    Finds loops that accumulate gradients and step under `if i % k == 0`, with a counter that starts at 0. The condition
    is already true after the first micro-batch.

    Also finds accumulation that is unfinished at the end of an epoch, in two cases:

    - The gradients stay for the next epoch, although the counter starts again.
    - `zero_grad` deletes the gradients, although the counter continues.

    ## Why is this bad?
    The first step uses one micro-batch instead of `k`. If the code divides the loss by `k`, the gradient of this step
    is about `k` times too small. Each later step comes one micro-batch too late. At the end of the epoch some
    micro-batches are left. Their gradients are lost, or are mixed into the first step of the next epoch.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion, k, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        count = 0
        for epoch in range(epochs):
            optimizer.zero_grad()
            for x, y in loader:
                (criterion(model(x), y) / k).backward()
                count += 1
                if count % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion, k, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        count = 0
        for epoch in range(epochs):
            for x, y in loader:
                (criterion(model(x), y) / k).backward()
                count += 1
                if count % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    ```

    ## Fix safety
    The fix counts from one: `if (i + 1) % k == 0`. It is unsafe because it changes when the optimizer steps. There is
    no fix if other code in the function depends on the same remainder, such as `model.no_sync()`, because both must
    change together.

    ## What verify shows
    `torchlint verify` counts the backward passes between steps. It confirms the finding if the first step has fewer
    backward passes than the later steps. It refutes the finding if all steps have the same number.

    ## References
    - [Gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "TL113"
    category = Category.SUSPICIOUS
    triggers = (triggers.BACKWARD, triggers.STEP, triggers.CLEAR, (b"%", b"==", b">="))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[LopsidedWindow | gradients.OpenWindow]:
        for trace in self.model.program.traces:
            for optimizer in self.model.ownership.optimizers(trace):
                yield from gradients.open_windows(self.model.gradients, trace, optimizer)
            for step in trace.of(events.Step):
                for branch, arm in step.path if not step.manual else ():
                    node = self.model.tree.node(branch.site) if isinstance(branch, events.Branch) else None
                    if isinstance(node, ast.If) and arm == 0:
                        yield from self._lopsided(trace, step, (branch, arm), node)

    def _lopsided(
        self, trace: program.Trace, step: events.Step, arm: tuple[object, int], test: ast.If
    ) -> Iterator[LopsidedWindow]:
        """A step that belongs to a window, if the window ends after the first iteration."""
        tree = self.model.tree
        window = gradients.windows.remainder(test.test)
        around = next((item for item in tree.ancestors(test) if isinstance(item, (*LOOPS, *FUNCTIONS))), None)
        if window is None or around is None or not self._is_wide(window):
            return
        counter = window.left
        assert isinstance(counter, ast.Name)
        if isinstance(around, FUNCTIONS):
            backward = self._accumulated(trace, step, arm, ()) if _is_index_of_batch(counter, around) else None
            if backward is not None:
                yield LopsidedWindow(test, counter, tree.code(window.right), backward, step)
            return
        inside = [loop for loop in step.loops if tree.node(loop.site) is around]
        if inside and gradients.windows.counts_from_zero(counter.id, around, test, tree):
            backward = self._accumulated(trace, step, arm, step.loops[: step.loops.index(inside[-1]) + 1])
            if backward is not None:
                yield LopsidedWindow(test, counter, tree.code(window.right), backward, step)

    def _accumulated(
        self, trace: program.Trace, step: events.Step, arm: tuple[object, int], loops: tuple[events.Loop, ...]
    ) -> events.Backward | None:
        """The backward whose step, with its clearing, is alone in one branch of a loop."""
        optimizer = values.resolved(step.optimizer)
        passes = [item for item in trace.of(events.Backward, loops) if self.model.ownership.reaches(item, optimizer)]
        clears = [event for event in trace.of(events.Event, loops) if self.model.ownership.may_clear(event, optimizer)]
        steps = [item for item in trace.of(events.Step, loops) if values.resolved(item.optimizer) is optimizer]
        is_cleared = any(isinstance(clear, events.Clear) and clear.order > step.order for clear in clears)
        if not is_cleared or not all(arm in event.path for event in (*clears, *steps)):
            return None
        if any(arm in backward.path or backward.order > step.order for backward in passes):
            return None
        return next((item for item in reversed(passes) if not events.apart(item, step)), None)

    def _is_wide(self, window: ast.BinOp) -> bool:
        """Whether a window may have two or more micro-batches: by a number, or a variable that is not set to one."""
        width = window.right
        if isinstance(width, ast.Constant):
            return isinstance(width.value, int) and width.value >= 2
        if not isinstance(width, (ast.Name, ast.Attribute)):
            return False
        assigned = (node for node in self.model.tree.of_type(ast.Assign) if gradients.windows.is_number(node.value, 1))
        return not any(written_alike(target, width) for node in assigned for target in node.targets)

    # -- report -----------------------------------------------------------------------------------------

    def report_LopsidedWindow(self, found: LopsidedWindow) -> None:
        counter = found.counter.id
        self.report(
            site_of(found.test),
            f"`{counter}` counts from zero: `{found.step.name}` steps after the first micro-batch, not after "
            f"`{found.window}`",
            related=[
                (found.backward.site, "gradients are accumulated here"),
                (found.step.site, "and used here"),
            ],
            help=f"test `({counter} + 1) % {found.window} == 0`",
            fix=self._fix(found.counter),
            confidence=Confidence.LOW,
        )

    def report_OpenWindow(self, found: gradients.OpenWindow) -> None:
        name = found.step.name
        if found.clear is None:
            self.report(
                site_of(found.test),
                "an epoch may end in the middle of an accumulation window: its last gradients leak into the next "
                f"epoch's first `{name}` step",
                related=[(found.backward.site, "gradients are accumulated here")],
                help="step or clear once more at the end of each epoch",
                confidence=Confidence.LOW,
            )
        else:
            self.report(
                found.clear.site,
                "each epoch clears the gradients of an accumulation window that may be unfinished: "
                f"the next `{name}` step uses fewer micro-batches",
                related=[(found.step.site, "the window continues, and ends here")],
                help="clear only after the step, or restart the counter with each epoch",
                confidence=Confidence.MEDIUM,
            )

    def _fix(self, counter: ast.Name) -> edits.Change | None:
        """The test moved to the end of the window, where no other code depends on the same remainder."""
        tree, node = self.model.tree, self.written(site_of(counter))
        window, function = tree.parent(counter), tree.function_around(counter)
        inside = walk(function if function is not None else tree.module)
        others = (item for item in inside if isinstance(item, ast.BinOp) and item is not window)
        if node is None or window is None or any(written_alike(item, window) for item in others):
            return None
        return edits.Change("count from one", [edits.Replace(node, f"({counter.id} + 1)")])


# -- tests and counters -----------------------------------------------------------------------------------


def _is_index_of_batch(counter: ast.Name, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether Lightning passes the batch index to a function: `training_step(self, batch, index)`."""
    names = [item.arg for item in function.args.args]
    return function.name == "training_step" and names[2:3] == [counter.id]

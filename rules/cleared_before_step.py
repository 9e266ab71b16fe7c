"""Gradients that are cleared before the step could use them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model import definitions, events, program, values
from torchlint.model.relations import gradients
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_SETS_HOOK = "register_step_pre_hook"


class ClearedGradients(NamedTuple):
    """`clear` throws away what `backward` computed before `step` could use it."""

    clear: events.Clear
    backward: events.Backward
    step: events.Step
    is_before_another: bool
    """Whether another `backward` comes before the step, which gives other parameters their gradients."""


class ClearingStep(NamedTuple):
    """`clear` is the first thing that the step of an optimizer does, by its class or by a hook that is set `at`."""

    clear: events.Clear
    at: python_ast.Site


class ClearedBeforeStep(Rule):
    """Gradients are cleared between the backward and the step that needs them.

    ## What it does
    Finds a `zero_grad` that stands, on every path, between a `backward` and the `step` of the same optimizer; also in
    callbacks, in a hook that runs before the step, and in a `step` that the program defines. Nothing is said where an
    exception handler clears: a step that failed is undone.

    Also finds clearings that come with each micro-batch where the step comes once in several: under
    `if (i + 1) % k == 0:`, behind the loop over micro-batches, or, with accelerate, at the end of `accumulate`; there
    also a `zero_grad` of the prepared optimizer before the `backward`, which clears what earlier micro-batches gave.

    ## Why is this bad?
    The step sees no gradient: with SGD the weights do not move at all, with momentum or weight decay they move
    in a direction that has nothing to do with the loss.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.zero_grad()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## What verify shows
    `torchlint verify` confirms it by two steps or more that find no gradients although a backward has given some, or
    that miss those which the flagged line has taken from a part of the parameters: it says how many steps, and of how
    many parameters. It refutes it by steps that all find the gradients of their backwards, and parameters that move.
    What lost gradients without the flagged line being seen to take them, or at one step only, is inconclusive.

    ## Known limits
    Where another `backward` comes between the two that gives gradients to other parameters only, the finding is a
    preview. A hand-written clearing (`p.grad = None` for each parameter) is not reported, since which optimizer it
    clears is seldom certain.

    ## References
    - [torch.optim: taking an optimization step](https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step)
    """

    code = "TL102"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, triggers.STEP, triggers.CLEAR)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[ClearedGradients | ClearingStep | gradients.LostMicroBatch]:
        """Steps that every path reaches with the fresh gradients just cleared."""
        yield from self._clearing_steps()
        yield from gradients.cleared_in_window(self.model.program, self.model.ownership)
        for trace in self.model.program.traces:
            for optimizer in self.model.ownership.optimizers(trace):
                yield from self._cleared_in(trace, optimizer)
                yield from gradients.lost_micro_batches(self.model.gradients, trace, optimizer)

    def _clearing_steps(self) -> Iterator[ClearingStep]:
        """Steps that clear before they step, whoever has gone backward: of a class of this file, or by a hook."""
        hooks = dict(self._hooks())
        for trace in self.model.program.traces:
            clear = self._first_clear(trace)
            if clear is None or trace.root is None:
                continue
            if trace.root in hooks:
                yield ClearingStep(clear, hooks[trace.root])
            after = next((event for event in trace.of(events.Call) if event.order > clear.order), None)
            if after is not None and self._is_step_of_base(after, trace.root):
                yield ClearingStep(clear, after.site)

    def _first_clear(self, trace: program.Trace) -> events.Clear | None:
        """The clearing that a function begins with: of its first parameter, on every path, before anything else."""
        root = trace.root
        first = next(iter(trace.of_kinds(events.Clear, events.Backward, events.Call, events.Step)), None)
        if root is None or not root.parameters or not isinstance(first, events.Clear) or first.target is None:
            return None
        is_own = values.resolved(first.target) is trace.frame.locals.get(root.parameters[0])
        return first if is_own and first.explicit and not (first.path or first.loops or first.passed) else None

    def _is_step_of_base(self, call: events.Call, function: definitions.FunctionInfo) -> bool:
        """Whether a call is the `super().step(...)` of an optimizer's `step`."""
        node, callee = self.model.tree.node(call.site), call.value.callee
        if not isinstance(node, ast.Call) or not isinstance(callee, values.Unknown) or function.owner is None:
            return False
        is_step = isinstance(callee, values.Super) and python_ast.called_name(node) == function.name == "step"
        return is_step and self.model.program.is_optimizer_class(function.owner)

    def _hooks(self) -> Iterator[tuple[definitions.FunctionInfo, python_ast.Site]]:
        """The functions that optimizers call before they step, and where they are told to."""
        for trace in self.model.program.traces:
            for event in trace.of(events.Call):
                callee, given = event.value.callee, event.value.parents
                hook = values.resolved(given[-1]) if len(given) == 2 else None
                if callee is not None and callee.label == _SETS_HOOK and isinstance(hook, values.Function):
                    yield hook.info, event.site

    def _cleared_in(self, trace: program.Trace, optimizer: values.Value) -> Iterator[ClearedGradients]:
        """The clearings whose gradients every path to a step has lost."""
        arrivals = self.model.gradients.arrivals(trace, optimizer)
        for step in trace.of(events.Step):
            paths = arrivals.get(step, frozenset())
            is_sure = not any(path.is_unknown or path.is_pending for path in paths)
            if values.resolved(step.optimizer) is optimizer and is_sure:
                lost = {path.then: path.backward for path in sorted(paths, key=_when) if path.is_thrown_away}
                for clear, backward in lost.items():
                    assert isinstance(clear, events.Clear) and backward is not None
                    if not set(events.handlers(clear.path)) - set(events.handlers(backward.path)):
                        between = (item for item in trace.of(events.Backward) if clear.order < item.order < step.order)
                        is_before_another = any(not events.exclusive(item.path, step.path) for item in between)
                        yield ClearedGradients(clear, backward, step, is_before_another)

    def report_ClearingStep(self, step: ClearingStep) -> None:
        self.report(
            step.clear.site,
            "gradients are cleared as the first thing of each step: it sees none",
            related=[(step.at, "the step that would use them")],
            help="clear them after the step",
        )

    def report_LostMicroBatch(self, lost: gradients.LostMicroBatch) -> None:
        name = lost.step.name
        self.report(
            lost.clear.site,
            f"gradients are cleared for each micro-batch, but `{name}` steps once in several: it uses only the last",
            related=[
                (lost.backward.site, "the gradients of each micro-batch are computed here"),
                (lost.step.site, "and only those of the last one are used here"),
            ],
            help="clear the gradients after the step, under the same condition",
        )

    def report_ClearedGradients(self, cleared: ClearedGradients) -> None:
        name = cleared.step.name
        self.report(
            cleared.clear.site,
            f"gradients are cleared before `{name}` steps: the step sees none",
            related=[
                (cleared.backward.site, "the gradients are computed here"),
                (cleared.step.site, "and would be used here"),
            ],
            help="clear the gradients before the `backward`, or after the step",
            confidence=Confidence.LOW if cleared.is_before_another else Confidence.HIGH,
        )


def _when(path: gradients.Arrival) -> tuple[int, int]:
    """When gradients were cleared, and computed."""
    return path.then.order if path.then is not None else 0, path.backward.order if path.backward is not None else 0

"""Gradients that are cleared before the step can use them."""

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
    """`clear` discards the gradients of `backward` before `step` can use them."""

    clear: events.Clear
    backward: events.Backward
    step: events.Step
    is_before_another: bool
    """Whether another `backward` before the step computes gradients for other parameters."""


class ClearingStep(NamedTuple):
    """An optimizer's step starts with `clear`, by its class or by a hook registered at `at`."""

    clear: events.Clear
    at: python_ast.Site


class ClearedBeforeStep(Rule):
    """Gradients are cleared between the backward and the step that needs them.

    ## What it does
    Finds a `zero_grad` between a `backward` and the `step` of the same optimizer, if it runs there on every path. The
    `zero_grad` may also be in a callback, in a hook that runs before the step, or in a `step` method that the program
    defines.

    Also finds a mistake in gradient accumulation: `zero_grad` runs for each micro-batch, but the optimizer steps only
    after several micro-batches. The step may be in an `if (i + 1) % k == 0:`, after the loop over micro-batches, or in
    a block `with accelerator.accumulate(model):`. In such a block, an optimizer from `accelerator.prepare` clears and
    steps only in the last micro-batch. If `zero_grad` comes before `backward` there, it clears the gradients of the
    earlier micro-batches.

    Also finds a `zero_grad` between two `backward` calls of one step, such as those for real and for generated images,
    if no other optimizer and no other code uses the first gradients.

    Not reported: a `zero_grad` in an exception handler, which discards a failed step.

    ## Why is this bad?
    The step has no gradients. With plain SGD the weights do not move at all. With momentum or weight decay the weights
    move, but the loss has no influence on the direction.

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
    `torchlint verify` confirms the finding in two cases: at least two steps find no gradients although a `backward`
    computed some, or the reported line clears gradients that the next steps lack. The report gives the number of steps
    and parameters. `verify` refutes the finding if all steps find their gradients and the parameters move. A single
    step without gradients is inconclusive.

    ## Known limits
    If another `backward` runs between the `zero_grad` and the `step`, and gives gradients only to other parameters, the
    finding needs `--preview`. Clearing by hand (`p.grad = None` for each parameter) is not reported, because the code
    rarely shows which optimizer holds these parameters.

    ## References
    - [torch.optim: taking an optimization step](https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step)
    """

    code = "TL102"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, triggers.STEP, triggers.CLEAR)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[ClearedGradients | ClearingStep | gradients.LostMicroBatch | gradients.DiscardedPass]:
        """Steps that every path reaches after a `zero_grad` has just cleared the new gradients."""
        yield from self._clearing_steps()
        if self._names_a_step():
            return
        yield from gradients.cleared_in_window(self.model.program, self.model.ownership)
        for trace in self.model.program.traces:
            for optimizer in self.model.ownership.optimizers(trace):
                yield from self._cleared_in(trace, optimizer)
                yield from gradients.lost_micro_batches(self.model.gradients, trace, optimizer)
                yield from gradients.discarded_passes(self.model.gradients, trace, optimizer)

    def _names_a_step(self) -> bool:
        """Whether a statement is `optimizer.step` without a call, which uncalled-method reports as the cause."""
        statements = (item.value for item in self.model.tree.of_type(ast.Expr))
        return any(isinstance(item, ast.Attribute) and item.attr == "step" for item in statements)

    def _clearing_steps(self) -> Iterator[ClearingStep]:
        """Steps that clear before they step, in a class of this file or by a hook."""
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
        """The `zero_grad` that starts a function: on its first parameter, on every path."""
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
        """Functions that optimizers call before they step, with the place of their registration."""
        for trace in self.model.program.traces:
            for event in trace.of(events.Call):
                callee, given = event.value.callee, event.value.parents
                hook = values.resolved(given[-1]) if len(given) == 2 else None
                if callee is not None and callee.label == _SETS_HOOK and isinstance(hook, values.Function):
                    yield hook.info, event.site

    def _cleared_in(self, trace: program.Trace, optimizer: values.Value) -> Iterator[ClearedGradients]:
        """The `zero_grad` calls after which every path to a step has lost the gradients."""
        if self._ignores_gradients(optimizer, trace):
            return
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

    def _ignores_gradients(self, optimizer: values.Value, trace: program.Trace) -> bool:
        """Whether an optimizer of the program reads no gradients, such as one that applies proximal operators."""
        info = optimizer.info if isinstance(optimizer, values.Optimizer) else self._stored_class(optimizer, trace)
        step = info.method("step") if info is not None else None
        if info is None or step is None or step.owner is not info:
            return False
        return not any(isinstance(item, ast.Attribute) and "grad" in item.attr for item in python_ast.walk(info.node))

    def _stored_class(self, optimizer: values.Value, trace: program.Trace) -> definitions.ClassInfo | None:
        """The class of the object that another method of the class stores in an attribute."""
        steps = [item for item in trace.of(events.Step) if values.resolved(item.optimizer) is optimizer]
        node = self.model.tree.own_node(steps[0].site) if steps and isinstance(optimizer, values.Attribute) else None
        called = node.func if isinstance(node, ast.Call) else None
        made = self.model.provenance.created(called.value) if isinstance(called, ast.Attribute) else None
        return self.model.definitions.class_named(python_ast.dotted(made.func)) if isinstance(made, ast.Call) else None

    def report_ClearingStep(self, step: ClearingStep) -> None:
        self.report(
            step.clear.site,
            "gradients are cleared at the start of each step, so the step sees no gradients",
            related=[(step.at, "the step that would use them")],
            help="clear them after the step",
        )

    def report_LostMicroBatch(self, lost: gradients.LostMicroBatch) -> None:
        name = lost.step.name
        self.report(
            lost.clear.site,
            f"gradients are cleared for each micro-batch, but `{name}` steps only once every few micro-batches: "
            "the step uses only the last one's gradients",
            related=[
                (lost.backward.site, "the gradients of each micro-batch are computed here"),
                (lost.step.site, "only those of the last one are used here"),
            ],
            help="clear the gradients after the step, under the same condition",
        )

    def report_DiscardedPass(self, lost: gradients.DiscardedPass) -> None:
        self.report(
            lost.clear.site,
            f"gradients are cleared between two `backward` calls: `{lost.step.name}` uses only those of the second",
            related=[
                (lost.backward.site, "these gradients are lost"),
                (lost.following.site, "these are used"),
                (lost.step.site, "in this step"),
            ],
            help="clear the gradients once, before the first `backward`",
        )

    def report_ClearedGradients(self, cleared: ClearedGradients) -> None:
        name = cleared.step.name
        self.report(
            cleared.clear.site,
            f"gradients are cleared before `{name}` steps: the step sees no gradients",
            related=[
                (cleared.backward.site, "the gradients are computed here"),
                (cleared.step.site, "they would be used here"),
            ],
            help="clear the gradients before the `backward`, or after the step",
            confidence=Confidence.LOW if cleared.is_before_another else Confidence.HIGH,
        )


def _when(path: gradients.Arrival) -> tuple[int, int]:
    """The places at which gradients are cleared and computed."""
    return path.then.order if path.then is not None else 0, path.backward.order if path.backward is not None else 0

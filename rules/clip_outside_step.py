"""Gradients that are clipped where no step uses the result."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule, edits
from torchlint.model import events, program, values
from torchlint.model.queries import clipping
from torchlint.model.relations import gradients
from torchlint.pytorch import triggers
from torchlint.syntax.python_ast import names_read, site_of

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class UselessClip(NamedTuple):
    """`clip` sees no new gradients on any path: `step` uses those of `backward` unclipped."""

    clip: events.Clip
    backward: events.Backward
    step: events.Step
    after_step: bool
    """Whether the clipping comes after the step, rather than before the backward."""
    other: events.Clip | None = None
    """The clipping that does bound the gradients of this step."""


class OtherParametersClipped(NamedTuple):
    """`clip` is between `backward` and `step`, but on parameters that the optimizer does not hold."""

    clip: events.Clip
    backward: events.Backward
    step: events.Step


class ClipInWindow(NamedTuple):
    """`clip` runs for each micro-batch of a window, after `backward`; it belongs at `place`."""

    clip: events.Clip
    backward: events.Backward
    place: str


class ClipOfNothing(NamedTuple):
    """`clip` is given an iterator in each iteration that is `made` once, so that it is soon used up."""

    clip: events.Clip
    made: Site


class ClipOutsideStep(Rule):
    """Gradients are clipped before `backward` or after the step, without effect.

    ## What it does
    Finds `torch.nn.utils.clip_grad_norm_` and `clip_grad_value_` in the wrong place:

    - Before the clipping, no `backward` has computed gradients since the last step or `zero_grad`.
    - The clipping is right before the step of another optimizer, and clips the wrong parameters.
    - A Lightning hook that runs before `backward`, such as `training_step`, clips the gradients. Or `on_after_backward`
      clips them while mixed precision still scales them.
    - The clipping runs for each micro-batch, but the optimizer steps only after several micro-batches.
    - The clipping gets an iterator that is already used up: `params = model.parameters()` before the loop.

    ## Why is this bad?
    The step uses gradients that are not clipped, so one bad batch can ruin the weights. Clipping changes only the
    gradients that exist at that moment. Before `backward` there are none, or old ones. After the step they have been
    used. If each micro-batch is clipped, the sum of the earlier ones shrinks again and again, so the last micro-batches
    count most.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    ```

    ## Fix safety
    The fix moves the call before the step. It is unsafe because it changes training. There is no fix if the optimizer
    also steps elsewhere, or if the code reassigns a name in the call in between.

    ## What verify shows
    `torchlint verify` compares the clipped gradients with those that the step uses. It confirms the finding if the
    gradients of the step exceed the bound, or if the call clips several times for each step. It refutes the finding if
    the call clips once for each step and the step uses the clipped gradients.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    code = "TL107"
    category = Category.CORRECTNESS
    triggers = (triggers.CLIP, (*triggers.BACKWARD, b"LightningModule"), triggers.STEP)
    calls = frozenset({"clip_grad_norm_", "clip_grad_value_"})

    def ask(
        self,
    ) -> Iterator[UselessClip | OtherParametersClipped | ClipInWindow | ClipOfNothing | gradients.ClipInHook]:
        for clip, backward in gradients.clipped_in_window(self.model.program):
            if not clipping.is_unbounded(clip, self.model.tree):
                yield ClipInWindow(clip, backward, "under `if accelerator.sync_gradients:`")
        for found in gradients.clips_in_hooks(self.model.program):
            if not clipping.is_unbounded(found.clip, self.model.tree):
                yield found
        for trace in self.model.program.traces:
            clips = [clip for clip in trace.of(events.Clip) if not clipping.is_unbounded(clip, self.model.tree)]
            for clip in clips:
                if (made := clipping.spent_iterator(clip, self.model.tree)) is not None:
                    yield ClipOfNothing(clip, site_of(made))
            if clips and not trace.called:
                for optimizer in self.model.ownership.optimizers(trace):
                    for clip, backward in gradients.clipped_micro_batches(self.model.gradients, trace, optimizer):
                        if clip in clips:
                            yield ClipInWindow(clip, backward, "right before the step")
                for clip in clips:
                    others = self._of_others(trace, clip)
                    if others is not None and self._is_unused(trace, clip):
                        yield others
                        continue
                    for useless in self._useless(trace, clip):
                        yield others or useless

    def _of_others(self, trace: program.Trace, clip: events.Clip) -> OtherParametersClipped | None:
        """The step right after a clipping in the same function, if the clipping is on other parameters.

        A backward has just computed gradients for the step, and nothing clips them.
        """
        steps = [item for item in trace.of(events.Step, clip.loops) if item.order > clip.order]
        step = steps[0] if steps else None
        if step is None or step.calls != clip.calls or self._may_be_of(clip, step):
            return None
        optimizer = values.resolved(step.optimizer)
        passes = [item for item in trace.of(events.Backward) if item.order < clip.order and item.calls == clip.calls]
        backward = next((item for item in reversed(passes) if self.model.ownership.reaches(item, optimizer)), None)
        if backward is None or events.exclusive(backward.path, step.path):
            return None
        between = [item for item in trace.of(events.Clip) if backward.order < item.order < step.order]
        is_stepped = any(backward.order < item.order < clip.order for item in trace.of(events.Step))
        if is_stepped or any(self._may_be_of(item, step) for item in between):
            return None
        return OtherParametersClipped(clip, backward, step)

    def _is_unused(self, trace: program.Trace, clip: events.Clip) -> bool:
        """Whether optimizers that surely hold the clipped parameters never use these gradients."""
        optimizers = {values.resolved(step.optimizer): step for step in trace.of(events.Step)}
        holders = [item for item in optimizers if clipping.may_be_of(clip, item, self.model.ownership)]
        for optimizer in holders:
            arrivals = self.model.gradients.arrivals(trace, optimizer, repeated=True)
            clipped = set(self.model.gradients.pending(arrivals.get(clip, ())))
            steps = [step for step in trace.of(events.Step) if values.resolved(step.optimizer) is optimizer]
            there = [item for step in steps for item in arrivals.get(step, ())]
            if not clipped or any(item.is_unknown for item in there):
                return False
            if not clipped.isdisjoint(self.model.gradients.pending(there)):
                return False
        return bool(holders)

    def _may_be_of(self, clip: events.Clip, step: events.Step) -> bool:
        """Whether the optimizer of a step may hold the clipped parameters."""
        return clipping.may_be_of(clip, values.resolved(step.optimizer), self.model.ownership)

    def _useless(self, trace: program.Trace, clip: events.Clip) -> Iterator[UselessClip]:
        """A clipping outside the steps of each optimizer that may hold the clipped parameters."""
        steps = {values.resolved(step.optimizer): step for step in trace.of(events.Step, clip.loops)}
        steps = {item: steps[item] for item in steps if clipping.may_be_of(clip, item, self.model.ownership)}
        found = [self._outside(trace, clip, step) for step in steps.values()]
        useless = [item for item in found if item is not None]
        if useless and len(useless) == len(found):
            yield min(useless, key=lambda item: _distance(clip, item.step))

    def _outside(self, trace: program.Trace, clip: events.Clip, step: events.Step) -> UselessClip | None:
        """The clipping, if no path brings new gradients of an optimizer to it."""
        optimizer, passes = values.resolved(step.optimizer), trace.of(events.Backward, clip.loops)
        passes = [item for item in passes if self.model.ownership.reaches(item, optimizer)]
        there = self.model.gradients.arrivals(trace, optimizer, repeated=True).get(clip, frozenset())
        if not passes or not there or any(item.is_pending or item.is_unknown for item in there):
            return None
        backward = min(passes, key=lambda item: _distance(clip, item))
        is_used = any(isinstance(item.then, events.Step) for item in there)
        clips = [item for item in trace.of(events.Clip) if backward.order < item.order < step.order]
        other = next((item for item in clips if item is not clip and self._may_be_of(item, step)), None)
        return UselessClip(clip, backward, step, after_step=is_used and clip.order > step.order, other=other)

    def report_UselessClip(self, useless: UselessClip) -> None:
        name = useless.step.name
        where = f"after `{name}` has stepped" if useless.after_step else "before `backward` computes them"
        other = useless.other
        effect = f"`{name}` steps with unclipped gradients" if other is None else "this call has no effect"
        self.report(
            useless.clip.site,
            f"gradients are clipped {where}: {effect}",
            related=[
                (useless.backward.site, "the gradients are computed here"),
                *([(other.site, "they are clipped here")] if other is not None else []),
                (useless.step.site, "they are used here"),
            ],
            help="clip between the last `backward` and the step" if other is None else "remove the call",
            fix=self._fix(useless.clip.site, useless.backward.site, useless.step) if other is None else None,
        )

    def report_ClipOfNothing(self, found: ClipOfNothing) -> None:
        self.report(
            found.clip.site,
            "the iterator that this clips is used up after the first use: later calls clip nothing",
            related=[(found.made, "it is made here, once")],
            help="make a list of it: `list(...)`",
        )

    def report_ClipInWindow(self, found: ClipInWindow) -> None:
        self.report(
            found.clip.site,
            "gradients are clipped after each micro-batch, not once for the sum that the step uses",
            related=[(found.backward.site, "one micro-batch adds its gradients here")],
            help=f"clip {found.place}",
        )

    def report_ClipInHook(self, found: gradients.ClipInHook) -> None:
        if found.scaling is not None:
            self.report(
                found.clip.site,
                f"gradients are clipped in `{found.hook}`, before Lightning divides them by the scale",
                related=[(site_of(found.scaling), "this precision scales the loss")],
                help="clip in `on_before_optimizer_step`",
            )
            return
        when = "after the step" if found.is_after else "before `backward`"
        self.report(
            found.clip.site,
            f"gradients are clipped in `{found.hook}`, which Lightning runs {when}: the step uses unclipped gradients",
            help="pass `gradient_clip_val` to the `Trainer`, or clip in `on_before_optimizer_step`",
        )

    def report_OtherParametersClipped(self, found: OtherParametersClipped) -> None:
        name = found.step.name
        self.report(
            found.clip.site,
            f"the clipped parameters do not belong to `{name}`, which steps with unclipped gradients",
            related=[(found.backward.site, "its gradients are computed here"), (found.step.site, "they are used here")],
            help=f"clip the parameters that `{name}` holds",
        )

    def _fix(self, clip: Site, backward: Site, step: events.Step) -> edits.Change | None:
        """The call moved to the step, where all three are statements of one block and there is no scaler."""
        tree, call = self.model.tree, self.model.tree.code(clip)
        nodes = [tree.node(site) for site in (clip, backward, step.site)]
        block = tree.block(nodes[0])
        if not all(tree.stands_alone(node) and tree.statement(node) in block for node in nodes) or "\n" in call:
            return None
        old = self.written(clip)
        new = self.written(step.site)
        if old is None or new is None or not tree.code(step.site).startswith(f"{step.name}."):
            return None
        if self._steps_again(step) or not self._means_the_same(nodes[0], nodes[2], block):
            return None
        return edits.Change("move the call before the step", [edits.Delete(old), edits.InsertBefore(new, call)])

    def _steps_again(self, step: events.Step) -> bool:
        """Whether the optimizer also steps elsewhere, with gradients that would stay unclipped."""
        trace = next(trace for trace in self.model.program.traces if step in trace.events)
        optimizer = values.resolved(step.optimizer)
        return any(
            values.resolved(other.optimizer) is optimizer for other in trace.of(events.Step) if other is not step
        )

    def _means_the_same(self, clip: ast.AST, step: ast.AST, block: list[ast.AST]) -> bool:
        """Whether no statement between a clipping and the step assigns a name that the clipping reads."""
        first, last = sorted(block.index(self.model.tree.statement(node)) for node in (clip, step))
        bound = self.model.definitions.names_assigned(block[first + 1 : last])
        return bound.isdisjoint(name.partition(".")[0] for name in names_read(clip))


def _distance(clip: events.Clip, event: events.Event) -> tuple[bool, int]:
    """The distance of an event after a clipping; an earlier event belongs to the next iteration."""
    return event.order < clip.order, event.order

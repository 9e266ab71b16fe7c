"""Gradients that are clipped while a gradient scaler still scales them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule, edits
from torchlint.model import events, program, utilities, values
from torchlint.model.queries import clipping
from torchlint.model.relations import gradients
from torchlint.pytorch import triggers


class ScaledClip(NamedTuple):
    """`clip` sees the gradients of `backward` multiplied by the scale of the scaler that makes `step`."""

    clip: events.Clip
    backward: events.Backward
    step: events.Step
    is_simple: bool
    """Whether `unscale_` right before the clipping would unscale once per step."""


class ClipBeforeUnscale(Rule):
    """Gradients are clipped before they are unscaled: the bound is far too low.

    ## What it does
    Finds `torch.nn.utils.clip_grad_norm_` or `clip_grad_value_` between `scaler.scale(loss).backward()` and
    `scaler.step(optimizer)`, if nothing calls `scaler.unscale_(optimizer)` before the clipping.

    ## Why is this bad?
    With SGD, training makes no progress. A gradient scaler multiplies the loss, and thus the gradients, by a scale that
    starts at 65536. Clipping compares these scaled gradients with the bound, and almost always shrinks them.
    `scaler.step` then divides them by the scale, so the step sees a norm of 0.000015 instead of 1.0. Adam compensates
    for small gradients, but the bound then clips every step instead of only the outliers.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            scaler.scale(criterion(model(x), y)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    ```

    Use instead:
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            scaler.scale(criterion(model(x), y)).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    ```

    ## Fix safety
    The fix calls `scaler.unscale_` before the clipping. It is unsafe because it changes training. `unscale_` raises if
    it runs twice before `scaler.update()`. So torchlint offers the fix only if it knows that `step` and `update`
    follow, and that the gradients belong to one optimizer.

    ## What verify shows
    `torchlint verify` compares the clipped gradients with those that the step uses. It confirms the finding if the
    step's gradients are many times smaller than the clipped ones. It refutes the finding if the clipping made gradients
    smaller and the step used them unchanged.

    ## References
    - [Automatic mixed precision: gradient clipping](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping)
    - [torch.amp.GradScaler.unscale_](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.unscale_)
    """

    code = "TL108"
    category = Category.CORRECTNESS
    triggers = (triggers.CLIP, triggers.BACKWARD, triggers.STEP, (b"scale",))

    def ask(self) -> Iterator[ScaledClip]:
        for trace in self.model.program.traces:
            clips = [clip for clip in trace.of(events.Clip) if self._compares(clip)]
            steps = [step for step in trace.of(events.Step) if self._is_scaled(step)] if clips else []
            if steps:
                for clip in clips:
                    yield from self._scaled(trace, clip, steps)

    def _compares(self, clip: events.Clip) -> bool:
        """Whether a clipping has a bound that is not scaled like the gradients."""
        return (
            not clipping.is_unbounded(clip, self.model.tree) and clip.bound is not None and not _knows_scale(clip.bound)
        )

    def _is_scaled(self, step: events.Step) -> bool:
        """Whether a step goes through a gradient scaler that is not disabled."""
        return step.scaler is not None and _is_scaler(step.scaler)

    # -- paths ------------------------------------------------------------------------------------------

    def _scaled(self, trace: program.Trace, clip: events.Clip, steps: list[events.Step]) -> Iterator[ScaledClip]:
        """A clipping of scaled gradients, for any optimizer that holds the clipped parameters."""
        following = {_of(step): step for step in reversed(steps) if _follows(step, clip)}
        found = []
        for optimizer, step in following.items():
            if not clipping.may_be_of(clip, optimizer, self.model.ownership):
                continue
            arrivals = self.model.gradients.arrivals(trace, optimizer).get(clip, frozenset())
            waiting = self.model.gradients.pending(arrivals)
            scaled = [backward for backward in waiting if self._is_of_scaled(backward)]
            if not scaled or any(map(_may_be_unscaled, arrivals)):
                return
            passes = (item for item in trace.of(events.Backward, clip.loops) if item.order < clip.order)
            before = [item for item in passes if item.path == clip.path[: len(item.path)]]
            if before and max(before, key=lambda backward: backward.order) not in scaled:
                return  # the clipped gradients come from another pass
            first = min(scaled, key=lambda backward: backward.order)
            found.append(ScaledClip(clip, first, step, self._is_simple(trace, clip, step)))
        yield from (item._replace(is_simple=item.is_simple and len(found) == 1) for item in found[:1])

    def _is_of_scaled(self, backward: events.Backward) -> bool:
        """Whether a pass starts, on at least one path, at a loss that a gradient scaler has scaled."""
        scaled = self.model.program.observations.scaled
        return any(_is_scaler(scaled[item]) for item in values.inputs_of(backward.loss) if item in scaled)

    def _is_simple(self, trace: program.Trace, clip: events.Clip, step: events.Step) -> bool:
        """Whether one clipping belongs to one step that certainly follows it, and nothing else unscales."""
        alone = len(trace.of(events.Clip, clip.loops)) == 1 and not trace.of(events.Unscale, clip.loops)
        follows = clip.path == step.path and clip.passed == step.passed
        return alone and follows and clip.loops == step.loops and clip.calls == step.calls

    # -- report -----------------------------------------------------------------------------------------

    def report_ScaledClip(self, found: ScaledClip) -> None:
        name = self._scaler(found)
        self.report(
            found.clip.site,
            f"gradients are clipped while still scaled by `{name}`: "
            f"the bound for `{found.step.name}` is thousands of times too low",
            related=[
                (found.backward.site, "the scaled gradients are computed here"),
                (found.step.site, "they are unscaled here, after the clipping"),
            ],
            help=f"call `{name}.unscale_` with the optimizer before clipping",
            fix=self._fix(found) if found.is_simple else None,
        )

    def _scaler(self, found: ScaledClip) -> str:
        """The scaler as the step names it, or the name of its value where another function steps."""
        call = self.model.tree.node(found.step.site)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and found.step.expression is not None:
            return self.model.tree.code(call.func.value)
        scaler = found.step.scaler
        return scaler.label if scaler is not None and scaler.label else "the scaler"

    def _fix(self, found: ScaledClip) -> edits.Change | None:
        """`unscale_` before the clipping, with the step's scaler and optimizer."""
        tree, call = self.model.tree, self.model.tree.node(found.step.site)
        clip = self.written(found.clip.site)
        if clip is None or found.step.expression is None or not isinstance(call, ast.Call):
            return None
        scaler = tree.code(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        code = f"{scaler}.unscale_({tree.code(found.step.expression)})"
        is_statement = isinstance(tree.statement(tree.node(found.clip.site)), (ast.Expr, ast.Assign))
        if not is_statement or not scaler or "\n" in code or not self._is_updated(call, scaler):
            return None
        return edits.Change("unscale the gradients first", [edits.InsertBefore(clip, code)])

    def _is_updated(self, step: ast.Call, scaler: str) -> bool:
        """Whether a later statement in the step's block updates the scaler; otherwise the next `unscale_` raises."""
        block = self.model.tree.block(step)
        below = block[block.index(self.model.tree.statement(step)) + 1 :]
        calls = [item.value for item in below if isinstance(item, ast.Expr) and isinstance(item.value, ast.Call)]
        return any(self.model.tree.code(call.func) == f"{scaler}.update" for call in calls)


def _may_be_unscaled(arrival: gradients.Arrival) -> bool:
    """Whether something unscales gradients, or may; what may only clear them leaves their scale."""
    is_changed = arrival.is_unknown and not isinstance(arrival.then, events.Clear)
    return is_changed or arrival.is_unscaled


def _of(step: events.Step) -> values.Value:
    return values.resolved(step.optimizer)


def _follows(step: events.Step, clip: events.Clip) -> bool:
    """Whether a step may come after a clipping, in the order of the file or of a loop."""
    return not events.apart(step, clip) and (step.order > clip.order or not set(step.loops).isdisjoint(clip.loops))


def _is_scaler(value: values.Value) -> bool:
    """Whether a value is a gradient scaler, by class or by use, that is not disabled."""
    return any(map(_is_one_scaler, values.inputs_of(value)))


def _is_one_scaler(value: values.Value) -> bool:
    if not isinstance(value, values.Unknown):
        return False
    enabled = value.part("enabled")
    enabled = values.resolved(enabled) if enabled is not None else None
    if isinstance(enabled, values.Plain) and enabled.is_literal and not enabled.constant:
        return False
    used = value.has_use("scale") and value.has_use("step") and value.has_use("update")
    return utilities.is_kind(value, utilities.Kind.SCALER) or used


def _knows_scale(bound: values.Value) -> bool:
    """Whether a bound depends on the scale."""
    stack, seen = [bound], set[values.Value]()
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        callee = value.callee if isinstance(value, values.Unknown) else None
        if "scale" in (callee.label if callee is not None else value.label):
            return True
        stack.extend(value.parents)
    return False

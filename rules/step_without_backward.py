"""Steps without a backward before them."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import dataflow, events, held_parameters, module_values, ownership, program, values, whole_steps
from torchlint.model.relations import gradients, terms
from torchlint.pytorch import api, triggers

if TYPE_CHECKING:
    from torchlint.index import FileIndex

_HOOKS = frozenset({"register_step_pre_hook", "register_optimizer_step_pre_hook"})
_ASKED = LazyPattern(r"backprop|backward$")


class EmptyStep(NamedTuple):
    """`step` comes before any `backward`; one follows in the same iteration, or (None) there is none."""

    step: events.Step
    backward: events.Backward | None
    of_others: events.Backward | None = None
    """The `backward` between the last `zero_grad` and the step whose loss depends only on other parameters."""


class StepWithoutBackward(Rule):
    """An optimizer steps without a backward pass before it.

    ## What it does
    Finds a `step` without a `backward` before it, although the code computes a loss:

    - There is no `backward` at all.
    - The `backward` comes later in the same loop.
    - No loss depends on the parameters of the optimizer.
    - `optimizer.step()` follows `scaler.step(optimizer)` and uses the same gradients again.

    ## Why is this bad?
    A step without gradients changes nothing. If the `backward` comes later in the loop, the first step has no effect,
    and each later step uses the gradients of the previous iteration. The last gradients are never used.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.step()
            optimizer.zero_grad()
            loss.backward()
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
    `torchlint verify` confirms the finding if the optimizer steps and no `backward` has computed a gradient for it. It
    refutes the finding if all steps have gradients and change the parameters.

    ## Known limits
    If a `backward` comes before the step but computes gradients only for other parameters, torchlint reports the step
    only if the file creates all modules that take part. Otherwise the finding needs `--preview`.

    If gradients accumulate, a step after the loop of an epoch is not reported: only a run shows whether some batches
    are left for this step.

    ## References
    - [torch.optim: taking an optimization step](https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step)
    """

    code = "TL103"
    category = Category.SUSPICIOUS
    triggers = ((*triggers.BACKWARD, *triggers.CLEAR), triggers.STEP)

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.has_word(triggers.CLEAR) or index.goes_backward

    def ask(self) -> Iterator[EmptyStep | gradients.UnreachedStep | gradients.SteppedAgain]:
        """Steps without a backward before them, with one later in the same loop (late), or with none at all."""
        for trace in self.model.program.traces if not self._hands_backward_on() else ():
            if trace.called or _steps_itself(trace):
                continue
            yield from gradients.stepped_again(trace, self.model.ownership)
            for optimizer in self.model.ownership.optimizers(trace):
                if held_parameters.surely_optimizer(optimizer):
                    unreached = {item.step: item for item in self._unreached(trace, optimizer)}
                    yield from unreached.values()
                    yield from (item for item in self._empty_in(trace, optimizer) if item.step not in unreached)

    def _unreached(self, trace: program.Trace, optimizer: values.Value) -> Iterator[gradients.UnreachedStep]:
        return gradients.unreached_steps(self.model.gradients, trace, optimizer)

    def _hands_backward_on(self) -> bool:
        """Whether other code may go backward.

        The program passes on a bound method, `measure(loss.backward)`, registers a call before steps, or asks a model
        to do so: `model(x, replay_backprop=True)`.
        """
        nodes = self.model.program.nodes
        if any(node.attr in _HOOKS for node in nodes(ast.Attribute)):
            return True
        if any(item.arg is not None and _ASKED.search(item.arg) for item in nodes(ast.keyword)):
            return True
        is_replaced = any(isinstance(node.ctx, ast.Store) for node in nodes(ast.Attribute) if node.attr == "backward")
        return is_replaced or bool(gradients.unseen.handed_on(self.model.program, frozenset({"backward"})))

    def _empty_in(self, trace: program.Trace, optimizer: values.Value) -> Iterator[EmptyStep]:
        """Whether each step of an optimizer runs, first or always, before any backward."""
        may_give_gradients = self.model.ownership.may_give_gradients
        arrivals = self._cleared_in(trace, optimizer)
        cleared = {step: paths for step, paths in arrivals.items() if None not in paths}
        runs = self._runs(trace, optimizer) if cleared else []
        for step in trace.of(events.Step):
            if step.manual or values.resolved(step.optimizer) is not optimizer:
                continue
            if step in cleared and _runs_for_nothing(step, cleared[step], runs):
                yield EmptyStep(step, None)
                continue
            giving = trace.of_kinds(*ownership.GIVING)
            if any(may_give_gradients(event, optimizer) for event in _earlier(giving, step)):
                continue
            around = trace.training_loop(step)
            later = (event for event in giving if event.order > step.order and around in event.loops)
            late = next((event for event in later if may_give_gradients(event, optimizer)), None)
            if late is None and not self._is_cut_before(trace, step):
                passes = _earlier(trace.of_kinds(events.Compute, events.Call), step)
                if self._forward_before(step, passes, optimizer) is not None:
                    yield EmptyStep(step, None, _backward_of_others(trace, step, arrivals))
            elif isinstance(late, events.Backward) and late.path == step.path and late.loops[-1] is around:
                yield EmptyStep(step, late if self.model.gradients.may_use_some(trace, step) else None)

    def _is_cut_before(self, trace: program.Trace, step: events.Step) -> bool:
        """Whether a backward of the iteration has a loss without a graph, which is then the actual bug."""
        passes = (item for item in trace.of(events.Backward) if item.order < step.order and item.loops == step.loops)
        return any(
            terms.leaf_of(item.loss) is not None for item in passes if not events.exclusive(item.path, step.path)
        )

    def _cleared_in(self, trace: program.Trace, optimizer: values.Value) -> dict[events.Step, set[events.Clear | None]]:
        """The last `zero_grad` on the paths to each step; None: none, or a backward came later."""
        found: dict[events.Step, set[events.Clear | None]] = {}
        owned = self.model.ownership

        def transfer(event: events.Event, states: frozenset[events.Clear | None]) -> frozenset[events.Clear | None]:
            if isinstance(event, events.Step):
                found.setdefault(event, set()).update(states)
                return states
            if isinstance(event, events.Clear) and event.explicit:
                if owned.clears(event.target, optimizer) is values.Answer.YES:
                    return frozenset({event})
            gives = isinstance(event, events.Backward) or owned.may_give_gradients(event, optimizer)
            return frozenset({None}) if gives else states

        kinds = (events.Step, events.Clear, *ownership.GIVING)
        dataflow.Flow(transfer).run(trace.only(*kinds), frozenset({None}))
        return found

    def _runs(self, trace: program.Trace, optimizer: values.Value) -> list[int]:
        """The times at which modules that an optimizer may hold run, in order."""
        ours, known = self.model.ownership.held_by(optimizer)
        passes = trace.of_kinds(events.Compute, events.Call)
        return [
            event.order
            for event in passes
            if module_values.is_forward(event.value) and self._uses(event.value, ours, known)
        ]

    def _forward_before(
        self, step: events.Step, earlier: Iterator[events.Event], optimizer: values.Value
    ) -> events.Event | None:
        """A forward pass of an optimizer's module in the same iteration, whose loss is unused."""
        loops = events.repeating(step.loops)
        ours, known = self.model.ownership.held_by(optimizer)
        for event in earlier:
            if not isinstance(event, (events.Compute, events.Call)) or (loops and loops[-1] not in event.loops):
                continue
            if event.value.mode is api.GradMode.ON and self._uses(event.value, ours, known):
                return event
        return None

    def _uses(self, value: values.Value, ours: set[values.Value], known: bool) -> bool:
        """Whether a value depends on an optimizer's parameters: through a module that may hold them, or a leaf."""
        if module_values.is_forward(value):
            return not known or self.model.ownership.may_use(value, ours)
        return any(item in ours and isinstance(item, values.Tensor) for item in map(values.resolved, value.parents))

    def report_SteppedAgain(self, found: gradients.SteppedAgain) -> None:
        self.report(
            found.step.site,
            f"`{found.step.name}` steps again with the gradients of the scaler's step: each batch counts twice",
            related=[(found.first.site, "the scaler steps here, unless it finds infinite gradients")],
            help="remove this step",
        )

    def report_UnreachedStep(self, found: gradients.UnreachedStep) -> None:
        was_there = values.resolved(found.step.optimizer).order < found.backward.order
        self._report_others(found.step, found.backward, Confidence.HIGH if was_there else Confidence.LOW)

    def _report_others(self, step: events.Step, backward: events.Backward, confidence: Confidence) -> None:
        name = step.name
        self.report(
            step.site,
            f"`{name}` updates nothing: the loss of the previous `backward` does not depend on its parameters",
            related=[(backward.site, "this computes gradients for other parameters")],
            help=f"call `backward` on a loss that uses the parameters of `{name}`, or delete the step",
            confidence=confidence,
        )

    def report_EmptyStep(self, empty: EmptyStep) -> None:
        name = empty.step.name
        if empty.of_others is not None:
            self._report_others(empty.step, empty.of_others, Confidence.LOW)
            return
        if empty.backward is None:
            self.report(
                empty.step.site,
                f"`{name}` steps, but no `backward` computed its gradients: it updates nothing",
                help="call `backward` on the loss before the step",
            )
            return
        self.report(
            empty.step.site,
            f"`{name}` steps before the `backward` of its iteration: it uses the gradients of the previous iteration",
            related=[(empty.backward.site, "the gradients are computed here")],
            help="step after the `backward`",
        )


def _steps_itself(trace: program.Trace) -> bool:
    """Whether a module may go backward in its own `forward`: `losses = model(batch, "train")`."""
    passes = trace.of_kinds(events.Compute, events.Call)
    return any(whole_steps.may_go_backward_itself(event.value) for event in passes)


def _runs_for_nothing(step: events.Step, cleared: set[events.Clear | None], runs: list[int]) -> bool:
    """Whether all paths to a step clear the gradients, and a model runs in between with an unused loss."""
    return all(
        clear is not None
        and clear.loops == step.loops
        and bisect_right(runs, clear.order) < bisect_right(runs, step.order)
        for clear in cleared
    )


def _backward_of_others(
    trace: program.Trace, step: events.Step, arrivals: dict[events.Step, set[events.Clear | None]]
) -> events.Backward | None:
    """The last backward before a step that computes other parameters' gradients, with no later `zero_grad`."""
    clears = arrivals.get(step, {None})
    since = min((clear.order if clear is not None else 0 for clear in clears), default=0)
    passes = [item for item in trace.of(events.Backward) if since < item.order < step.order]
    return next((item for item in reversed(passes) if not events.exclusive(item.path, step.path)), None)


def _earlier(happened: Iterable[events.Event], step: events.Step) -> Iterator[events.Event]:
    """The events that may happen before a step, in the same pass."""
    before = (event for event in happened if event.order < step.order)
    return (event for event in before if not events.exclusive(event.path, step.path))

"""Gradients that are cleared before the step could use them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchlint import Category, Rule, prefilter
from torchlint.model import dataflow, events, program, values
from torchlint.pytorch import triggers

if TYPE_CHECKING:
    Pending = tuple[events.Backward | None, events.Event | None]
    """The backward whose gradients wait for the step, and what cleared them; no backward but an event: unknown."""


@dataclass(frozen=True)
class ClearedGradients:
    """`clear` throws away what `backward` computed before `step` could use it."""

    clear: events.Clear
    backward: events.Backward
    step: events.Step


class ClearedBeforeStep(Rule):
    """Gradients are cleared between the backward and the step that needs them.

    ## What it does
    Finds a `zero_grad` that stands, on every path, between a `backward` and the `step` of the same optimizer.

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
    `torchlint verify` confirms it by steps that find no gradients although a backward has given some, and
    refutes it by steps that all find them.

    ## Known limits
    A hand-written clearing (`p.grad = None` for each parameter) is not reported, since which optimizer it clears
    is seldom certain.

    ## References
    - [torch.optim: taking an optimization step](https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step)
    """

    code = "TL102"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, triggers.STEP, triggers.CLEAR)

    @classmethod
    def is_worth_a_parse(cls, data: bytes) -> bool:
        return prefilter.goes_backward(data)

    def ask(self) -> Iterator[ClearedGradients]:
        """Steps that every path reaches with the fresh gradients just cleared."""
        for trace in self.model.program.traces:
            for optimizer in self.model.ownership.optimizers(trace):
                yield from self._cleared_in(trace, optimizer)

    def _cleared_in(self, trace: program.Trace, optimizer: values.Value) -> Iterator[ClearedGradients]:
        """A state is the backward whose gradients are pending, and what cleared them; or that nobody knows."""
        arrivals: dict[events.Step, set[Pending]] = {}

        def transfer(event: events.Event, states: frozenset[Pending]) -> frozenset[Pending]:
            if isinstance(event, events.Step) and values.resolved(event.optimizer) is optimizer:
                arrivals.setdefault(event, set()).update(states)
                return frozenset({(None, None)})
            if isinstance(event, events.Backward):
                return frozenset({(event, None)}) if self.model.ownership.reaches(event, optimizer) else states
            if (
                isinstance(event, events.Clear)
                and event.explicit
                and self.model.ownership.clears(event.target, optimizer) is values.Answer.YES
            ):
                return frozenset((backward, clear or event if backward else None) for backward, clear in states)
            if isinstance(event, events.GradRead) or self.model.ownership.may_clear(event, optimizer):
                return frozenset({(None, event)})
            return states

        dataflow.Flow(transfer).run(self.model.ownership.touching(trace), frozenset({(None, None)}))
        for step, paths in arrivals.items():
            pending = [(clear, backward) for backward, clear in paths if backward is not None]
            cleared = [(clear, backward) for clear, backward in pending if isinstance(clear, events.Clear)]
            unknown = any(backward is None and clear is not None for backward, clear in paths)
            if unknown or len(cleared) < len(pending):
                continue
            for clear, backward in sorted(cleared, key=lambda pair: (pair[0].order, pair[1].order)):
                if not self._may_be_filled_again(trace, clear, step):
                    yield ClearedGradients(clear, backward, step)

    def _may_be_filled_again(self, trace: program.Trace, clear: events.Clear, step: events.Step) -> bool:
        """Whether an unknown call between the two may go backward, in the order of the file or of a loop."""
        orders = [call.order for call in trace.of(events.Call) if self.model.ownership.may_go_backward(call)]
        if clear.order < step.order:
            return any(clear.order < order < step.order for order in orders)
        return any(order > clear.order or order < step.order for order in orders)

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
        )

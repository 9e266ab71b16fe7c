"""Gradients that are cleared where there are none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule, Safety, edits
from torchlint.model import dataflow, events, program, values


class SecondClearing(NamedTuple):
    """`clear` finds nothing to clear: on every path `earlier` has done it."""

    clear: events.Clear
    earlier: events.Clear
    optimizer: values.Value


class ClearedTwice(Rule):
    """Gradients are cleared again before any backward has made new ones.

    ## What it does
    Finds a `zero_grad` that stands, on every path, behind another one of the same gradients, without a `backward` in
    between.

    ## Why is this bad?
    It costs a pass over all parameters in every iteration, and one of the two stands where somebody thought that
    gradients would be added up.

    ## Example
    ```python
    import torch

    def train(model, loader, criterion):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            optimizer.zero_grad()
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
            optimizer.step()
    ```

    ## Fix safety
    Deleting the second call is safe: it does nothing.
    """

    code = "MINE001"
    category = Category.PERFORMANCE
    triggers = ((b"zero_grad",), (b"backward",))

    def ask(self) -> Iterator[SecondClearing]:
        for trace in self.model.program.traces:
            for optimizer in dict.fromkeys(values.resolved(step.optimizer) for step in trace.of(events.Step)):
                yield from self._second_clearings(trace, optimizer)

    def _second_clearings(self, trace: program.Trace, optimizer: values.Value) -> Iterator[SecondClearing]:
        """A state is the clearing since which nothing has happened to the gradients; None: something may have."""
        arrivals: dict[events.Clear, set[events.Clear | None]] = {}

        def transfer(event: events.Event, states: frozenset[events.Clear | None]) -> frozenset[events.Clear | None]:
            if isinstance(event, events.Clear) and self._clears(event, optimizer):
                arrivals.setdefault(event, set()).update(states)
                return frozenset({event})
            unsure = self.model.ownership.may_give_gradients(event, optimizer) or isinstance(event, events.Step)
            return frozenset({None}) if unsure else states

        dataflow.Flow(transfer).run(trace.items, frozenset({None}))
        for clear, earlier in arrivals.items():
            first = next(iter(earlier))
            if first is not None and earlier == {first} and first is not clear:
                yield SecondClearing(clear, first, optimizer)

    def _clears(self, event: events.Clear, optimizer: values.Value) -> bool:
        """Whether an event is a call that clears the gradients of an optimizer for sure."""
        return event.explicit and self.model.ownership.clears(event.target, optimizer) is values.Answer.YES

    def report_SecondClearing(self, second: SecondClearing) -> None:
        name = second.optimizer.label or "the optimizer"
        self.report(
            second.clear.site,
            f"the gradients of `{name}` are cleared again, and no `backward` has made any in between",
            related=[(second.earlier.site, "they are cleared here")],
            help="delete one of the two",
            fix=self._fix(second.clear),
        )

    def _fix(self, clear: events.Clear) -> edits.Change | None:
        if not self.model.tree.stands_alone(self.model.tree.node(clear.site)):
            return None
        call = self.written(clear.site)
        return edits.Change("delete the call", [edits.Delete(call)], Safety.SAFE) if call is not None else None

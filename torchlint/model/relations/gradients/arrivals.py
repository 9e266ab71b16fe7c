"""The gradients that arrive at steps, clippings and clearings, and their history."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from torchlint.model.dataflow import Flow
from torchlint.model.events import Backward, Clear, Clip, Event, Exit, Fresh, GradRead, MayClear, Step, Unscale
from torchlint.model.ownership import GIVING, Ownership
from torchlint.model.program import Program, Trace
from torchlint.model.relations.answer import Answer as Text
from torchlint.model.relations.answer import lines
from torchlint.model.relations.gradients import unseen
from torchlint.model.relations.gradients.stale import GradientsBetweenSteps, StaleGradients
from torchlint.model.relations.gradients.stale_parts import StalePart, StaleParts
from torchlint.model.utilities import Kind, is_kind
from torchlint.model.values import Answer, Value, resolved
from torchlint.pytorch.naming import UNSCALING
from torchlint.syntax.python_ast import walk

_ASKED = (Step, Clip, Clear)
"""The events at which the arriving gradients matter."""
_FOLLOWED = (*_ASKED, *GIVING, Fresh, Unscale)


_MOST = 40
"""Maximum number of arrivals at one event; with more of them, the answer is unknown."""


class Arrival(NamedTuple):
    """The gradients of one backward pass, as at least one path brings them to an event.

    - `backward` and no `then`: they wait for a step.
    - `backward` and a `Step`: the step used them, and they are still there.
    - `backward` and a `Clear`: they were cleared before any step used them.
    - no `backward`: nothing arrives, and `then` is the step or clearing since which that is so.
    - `is_unknown`: it is unknown what arrives, since `then` may have given, cleared or changed gradients, or (None)
      since there are too many passes to follow.
    """

    backward: Backward | None = None
    then: Event | None = None
    is_unknown: bool = False
    is_unscaled: bool = False
    """Whether a gradient scaler, or a call with such a name, has unscaled them since the pass."""

    @property
    def is_pending(self) -> bool:
        """Whether a pass computed gradients that no step used and nothing cleared."""
        return self.backward is not None and self.then is None

    @property
    def is_thrown_away(self) -> bool:
        """Whether a pass computed gradients that were cleared before any step used them."""
        return self.backward is not None and isinstance(self.then, Clear)

    @property
    def is_nothing(self) -> bool:
        """Whether there are surely no gradients."""
        return not (self.is_pending or self.is_used or self.is_unknown)

    @property
    def is_used(self) -> bool:
        """Whether a step used the gradients, and nothing cleared them since."""
        return self.backward is not None and isinstance(self.then, Step)


_Effect = Callable[[frozenset[Arrival]], frozenset[Arrival]]
Arrivals = Mapping[Event, frozenset[Arrival]]
"""The arrivals at each step, clipping and clearing."""


class Gradients:
    """Follows the gradients of each optimizer from the backward passes to the steps."""

    def __init__(self, program: Program, ownership: Ownership) -> None:
        self.program = program
        self.ownership = ownership
        self._known: dict[tuple[Trace, Value, bool], Arrivals] = {}
        self.between_steps = GradientsBetweenSteps(program, ownership)

    def stale(self) -> Iterator[StaleGradients]:
        """The gradients that two steps use, because no path between the steps clears them."""
        return (item for item in self.between_steps.stale() if not self._may_be_cleared_unseen(item.step))

    def stale_parts(self) -> Iterator[StalePart]:
        """The same for modules and parameters, if something clears others of the same optimizer."""
        parts = StaleParts(self.between_steps).answers()
        return (item for item in parts if not self._may_be_cleared_unseen(item.step))

    def _may_be_cleared_unseen(self, step: Step) -> bool:
        """Whether other code may clear the gradients of a step at any time."""
        return self._may_clear_any or unseen.may_clear(self.program, step, self._handed_clearings)

    @cached_property
    def _handed_clearings(self) -> list[ast.Attribute]:
        return unseen.handed_on(self.program, unseen.CLEARING)

    @cached_property
    def _may_clear_any(self) -> bool:
        return unseen.may_clear_any(self.program, self._handed_clearings)

    @cached_property
    def variables(self) -> set[str]:
        """The names that statements of the file itself assign: any function may use them."""
        assigned = (item for item in self.program.tree.module.body if isinstance(item, ast.Assign))
        targets = (node for item in assigned for target in item.targets for node in walk(target))
        return {node.id for node in targets if isinstance(node, ast.Name)}

    def arrivals(self, trace: Trace, optimizer: Value, *, repeated: bool = False) -> Arrivals:
        """The gradients of an optimizer that reach each step, clipping and clearing of a trace.

        With `repeated` a caller calls the function again, and the gradients left by one call are there in the next.
        """
        key = trace, optimizer, repeated
        if key not in self._known:
            self._known[key] = self._followed(trace, optimizer, repeated)
        return self._known[key]

    def at(self, trace: Trace, step: Step) -> frozenset[Arrival]:
        """The gradients at a step."""
        return self.arrivals(trace, resolved(step.optimizer)).get(step, frozenset())

    def may_use_some(self, trace: Trace, step: Step) -> bool:
        """Whether a step may have gradients: without any, it changes no parameter."""
        there = self.at(trace, step)
        return not there or not all(item.is_nothing for item in there)

    def uses(self, trace: Trace, step: Step, backward: Backward) -> Answer:
        """Whether a step uses the gradients of a backward pass."""
        there = self.at(trace, step)
        if any(item.is_unknown for item in there):
            return Answer.UNKNOWN
        return Answer.YES if backward in self.pending(there) else Answer.NO

    def _followed(self, trace: Trace, optimizer: Value, repeated: bool) -> Arrivals:
        found: dict[Event, frozenset[Arrival]] = defaultdict(frozenset)
        effects: dict[Event, _Effect] = {}  # a flow reaches the same event repeatedly

        def transfer(event: Event, arrivals: frozenset[Arrival]) -> frozenset[Arrival]:
            if isinstance(event, _ASKED):
                found[event] |= arrivals
            if event not in effects:
                effects[event] = self._effect(event, optimizer)
            after = effects[event](arrivals)
            return after if len(after) <= _MOST else frozenset({Arrival(is_unknown=True)})

        flow, items = Flow(transfer), trace.only(*_FOLLOWED)
        ends = flow.run(items, frozenset({Arrival()})) | flow.exits.pop(Exit.RETURN, frozenset())
        if repeated:
            flow.run(items, ends)
        return found

    def _effect(self, event: Event, optimizer: Value) -> _Effect:
        """The effect of an event on the arrivals: a function from those before it to those after it."""
        owned, unknown = self.ownership, frozenset({Arrival(None, event, True)})
        if isinstance(event, Step):
            return _each(_used_by(event)) if resolved(event.optimizer) is optimizer else _same
        if isinstance(event, Backward):
            return _given_by(event) if owned.reaches(event, optimizer) else _same
        if isinstance(event, Clear) and self._surely_clears(event, optimizer):
            return _each(_cleared_by(event))
        if self._may_unscale(event, optimizer):
            return _each(lambda item: item._replace(is_unscaled=item.is_pending))
        if isinstance(event, Fresh):
            none = frozenset({Arrival(None, event)})
            return (lambda arrivals: none) if event.value is optimizer else _same
        if isinstance(event, GradRead) and event.measures:
            return _same
        if isinstance(event, GradRead) or owned.may_clear(event, optimizer):
            return lambda arrivals: unknown
        return (lambda arrivals: arrivals | unknown) if owned.may_give_gradients(event, optimizer) else _same

    def _may_unscale(self, event: Event, optimizer: Value) -> bool:
        if isinstance(event, Unscale):
            return self.ownership.clears(event.optimizer, optimizer) is not Answer.NO
        return isinstance(event, MayClear) and bool(UNSCALING.search(event.name))

    def _surely_clears(self, clear: Clear, optimizer: Value) -> bool:
        """Whether a call clears an optimizer's gradients, or an engine clears them after its step."""
        is_of_engine = clear.target is not None and is_kind(resolved(clear.target), Kind.ENGINE)
        return (clear.explicit or is_of_engine) and self.ownership.clears(clear.target, optimizer) is Answer.YES

    @staticmethod
    def pending(arrivals: Iterable[Arrival]) -> list[Backward]:
        """The backward passes whose gradients wait for a step, in program order."""
        passes = [item.backward for item in arrivals if item.is_pending and item.backward is not None]
        return sorted(passes, key=lambda backward: backward.order)

    # -- in words ---------------------------------------------------------------------------------------

    def answers(self) -> Iterator[Text]:
        """The backward passes whose gradients each step uses."""
        stale = {item.following for item in self.stale()}
        parts = {item.following: item.part.label for item in self.stale_parts()}
        for trace in self.program.traces:
            for step in trace.of(Step):
                if arrivals := self.at(trace, step):
                    text = self._said(arrivals)
                    if step in stale:
                        text += "; nothing clears them"
                    elif step in parts:
                        text += f"; nothing clears those of `{parts[step]}`"
                    elif "; uses old" in text and self._may_be_cleared_unseen(step):
                        text += "; unknown: other code may clear them"
                    yield Text(step.site, text)

    def _said(self, arrivals: frozenset[Arrival]) -> str:
        """The arrivals at a step in words: "uses the gradients of line 8; perhaps there are none"."""
        if unknown := [item.then for item in arrivals if item.is_unknown]:
            is_bound = None in unknown
            return (
                f"unknown: {f'more than {_MOST} passes' if is_bound else self._lines(unknown)} may change the gradients"
            )
        fresh = [item.backward for item in arrivals if item.is_pending]
        used = [item.backward for item in arrivals if item.is_used]
        cleared = [item for item in arrivals if item.is_thrown_away]
        parts = [f"uses the gradients of {self._lines(fresh)}"] if fresh else []
        parts += [f"uses old gradients of {self._lines(used)} again"] if used else []
        if not (fresh or used):
            parts.append("has no gradients")
        elif any(item.backward is None or item.is_thrown_away for item in arrivals):
            parts.append("perhaps there are none")
        if cleared:
            lost = self._lines(item.backward for item in cleared)
            parts.append(f"those of {lost} are cleared on {self._lines(item.then for item in cleared)}")
        return "; ".join(parts)

    def _lines(self, events: Iterable[Event | None]) -> str:
        return lines(self.program.tree, (event.site for event in events if event is not None))


def _same(arrivals: frozenset[Arrival]) -> frozenset[Arrival]:
    return arrivals


def _each(change: Callable[[Arrival], Arrival]) -> _Effect:
    return lambda arrivals: frozenset(map(change, arrivals))


def _given_by(backward: Backward) -> _Effect:
    """A pass adds gradients to the existing ones."""
    given = {Arrival(backward)}
    return lambda arrivals: frozenset(item for item in arrivals if not item.is_nothing) | given


def _used_by(step: Step) -> Callable[[Arrival], Arrival]:
    return lambda item: Arrival(item.backward, step) if item.is_pending or item.is_used else Arrival(None, step)


def _cleared_by(clear: Clear) -> Callable[[Arrival], Arrival]:
    """A pass whose gradients were thrown away is remembered until the next pass, with its first clearing."""

    def cleared(item: Arrival) -> Arrival:
        if item.is_thrown_away:
            return item
        return Arrival(item.backward if item.is_pending else None, clear)

    return cleared

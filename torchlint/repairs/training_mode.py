"""Where to switch a module back to training that an evaluation has left in its mode."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from torchlint.model import Model
from torchlint.model.dataflow import Flow, pruned
from torchlint.model.events import Branch, Call, Compute, Event, Exit, Item, Loop, ModeSwitch, Try, events_in
from torchlint.model.relations.mode import Pass, module_of
from torchlint.model.values import Value
from torchlint.syntax.edits import Change, InsertBefore
from torchlint.syntax.matching import Nodes
from torchlint.syntax.python_ast import Site, dotted, site_of

_ITERATIONS = 2
"""Each iteration begins with the state that the previous one left."""
Modes = frozenset[bool | None]
"""The modes in which the paths to a point may have left a module; None: as it was before the loop, or not known."""
Arrivals = dict[Pass, Modes]
"""The modes in which each pass may run."""


class TrainedInEvaluation(Protocol):
    """The facts that a repair needs about a module trained in evaluation mode; a rule's answer provides them."""

    @property
    def forward(self) -> Pass:
        """The forward pass that is trained."""

    @property
    def loop(self) -> Loop:
        """The loop that repeats the evaluation and the training."""

    @property
    def name(self) -> str:
        """The module's name where its mode is set."""


class Place(NamedTuple):
    """Before a statement of a loop; at the head it holds for all of the iteration."""

    statement: ast.stmt
    is_head: bool = False


def return_to_training(model: Model, nodes: Nodes, trained: Sequence[TrainedInEvaluation]) -> Change | None:
    """`train()` before all that one switch to evaluation leaves in its mode; None where a place for it is missing."""
    places = [place for item in trained if (place := TrainingMode(model, item).place()) is not None]
    statements = {place.statement: nodes.at(site_of(place.statement)) for place in places}
    written = [node for node in statements.values() if node is not None]
    if len(places) < len(trained) or len(written) < len(statements):
        return None
    switch = f"{trained[0].name}.train()"
    where = "at the head of the loop" if all(place.is_head for place in places) else "before it is trained"
    return Change(f"insert `{switch}` {where}", [InsertBefore(node, switch) for node in written])


class TrainingMode:
    """Looks for a place from which on all training of a loop runs in training mode, and no evaluation does."""

    def __init__(self, model: Model, trained: TrainedInEvaluation) -> None:
        self._modes = model.mode
        self._tree = model.tree
        self._forward, self._loop, self._name = trained.forward, trained.loop, trained.name
        self._trace = next(trace for trace in model.program.traces if self._forward in trace.events)
        self._items = pruned(self._loop.body, (ModeSwitch, Compute, Call))

    def place(self) -> Place | None:
        """The head of the loop, or a statement that trains; None where the module has another name there than at the
        switch, or no place is right on every path."""
        loop, module = self._tree.own_node(self._loop.site), module_of(self._forward)
        if not isinstance(loop, (ast.For, ast.While)) or module is None or not self._is_named(self._forward):
            return None
        before = self._arrivals(module, None)
        trained = [item for item in before if self._is_trained(item) and self._is_named(item)]
        places = self._places(loop, module, trained)
        return next((place for place in places if self._is_right(module, before, place)), None)

    def _is_named(self, forward: Pass) -> bool:
        """Whether a pass stands in the function of the loop, and calls the module as the switch does."""
        call = self._tree.own_node(forward.site)
        name = dotted(call.func) if isinstance(call, ast.Call) else ""
        return bool(name) and name == self._name and len(forward.calls) <= self._loop.depth

    def _is_trained(self, forward: Pass) -> bool:
        return self._modes.is_trained(self._trace, forward)

    def _places(self, loop: ast.For | ast.While, module: Value, trained: list[Pass]) -> Iterator[Place]:
        """The head of the loop, and statements around trained passes that switch nothing, the outer ones first."""
        yield Place(loop.body[0], is_head=True)
        for forward in trained:
            around = list(self._tree.ancestors(self._tree.node(forward.site)))
            for statement in reversed(around[: around.index(loop)]):
                is_elif = self._tree.code(statement).startswith("elif")
                if isinstance(statement, ast.stmt) and not is_elif and not self._switches(statement, module):
                    yield Place(statement)

    def _switches(self, statement: ast.stmt, module: Value) -> bool:
        switches = (item for item in events_in(self._items) if isinstance(item, ModeSwitch))
        inside = (item for item in switches if any(self._is_in(site, statement) for site in (*item.calls, item.site)))
        return any(self._modes.covers(item, module) for item in inside)

    def _is_in(self, site: Site, statement: ast.stmt) -> bool:
        node = self._tree.node(site)
        return statement is node or statement in self._tree.ancestors(node)

    def _is_right(self, module: Value, before: Arrivals, place: Place) -> bool:
        """Whether all that is trained then runs in training mode, and no evaluation does that did not before."""
        after = self._arrivals(module, place)
        for event, modes in after.items():
            if self._is_trained(event):
                if False in modes:
                    return False
            elif False in before[event] and True in modes - before[event]:
                return False
        return True

    def _arrivals(self, module: Value, place: Place | None) -> Arrivals:
        """The modes in which each pass of a module may run, with a switch to training at a place."""
        found: Arrivals = defaultdict(frozenset)
        switch = ModeSwitch(self._loop.site, module, training=True)

        def transfer(event: Event, modes: Modes) -> Modes:
            if isinstance(event, ModeSwitch):
                is_ours = event is switch or self._modes.covers(event, module)
                return Modes({event.training}) if is_ours else modes
            if isinstance(event, (Compute, Call)) and module_of(event) is module:
                found[event] |= modes
            return modes

        items, flow, modes = self._with(switch, place, self._items), Flow(transfer), Modes({None})
        for _ in range(_ITERATIONS):
            modes = flow.run(items, modes) | flow.exits.get(Exit.CONTINUE, Modes())
            flow.exits.clear()
        return found

    def _with(self, switch: ModeSwitch, place: Place | None, items: list[Item]) -> list[Item]:
        """The events of an iteration, with a switch before those that a statement leads to."""
        if place is None or place.is_head:
            return items if place is None else [switch, *items]
        made: list[Item] = []
        for item in items:
            site = item.site if not isinstance(item, Exit) else None
            if site is not None and switch not in made and self._is_in(site, place.statement):
                made.append(switch)
            if isinstance(item, Branch):
                item = replace(item, arms=[self._with(switch, place, arm) for arm in item.arms])
            elif isinstance(item, Loop):
                item = replace(item, body=self._with(switch, place, item.body))
            elif isinstance(item, Try):
                handlers = [self._with(switch, place, handler) for handler in item.handlers]
                item = Try(item.site, self._with(switch, place, item.body), handlers)
            made.append(item)
        return made

"""State dictionaries stored by reference across steps, and used after them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from torchlint import Model
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import dataflow, events
from torchlint.model.lineage import ancestry, made_of, with_owners
from torchlint.model.module_values import is_module_like
from torchlint.model.program import Trace
from torchlint.model.utilities import is_utility
from torchlint.model.values import Container, Optimizer, Parameters, Phi, Value, inputs_of, resolved
from torchlint.syntax.python_ast import (
    LOOPS,
    Site,
    arguments,
    called_name,
    dotted,
    names_read,
    site_of,
    walk,
)

from ._state_dict_places import DEEP, StateDictPlaces, Store, Unclear, is_state_dict

_SWAPPING = frozenset("apply_shadow average_parameters copy_to swap swap_parameters store restore".split())
"""Methods that may swap other tensors into a model and back, as weight averages do."""
_ASIDE = LazyPattern(r"optim|sched|scaler|ema|target|teacher|averag|swa|frozen|reference")
"""Names of models that an unknown optimizer may not step."""
_FIRST = (0, 1)


class KeptReference(NamedTuple):
    """`place` stores the `state_dict()` of `model` at `site`; it is `verb` (loaded, ...) at `use`."""

    site: Site
    model: str
    place: str
    use: Site
    verb: str
    others: tuple[Site, ...]
    """Other places that store `state_dict()` under the same name, for instance before the loop."""


class KeptReferences:
    """Answers about state dictionaries stored by reference."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tree = model.tree
        self.definitions = model.definitions
        self.places = StateDictPlaces(model)

    def answers(self) -> Iterator[KeptReference]:
        for trace in self.model.program.traces:
            for call in trace.of(events.Call):
                node = self.tree.own_node(call.site)
                if isinstance(node, ast.Call) and is_state_dict(node) and call.value.parents:
                    kept = self._kept(trace, call, node)
                    if kept is not None:
                        yield kept

    def _kept(self, trace: Trace, call: events.Call, node: ast.Call) -> KeptReference | None:
        owner = resolved(call.value.parents[0])
        loop = self.training_loop(trace, call.loops, owner)
        around = self.tree.own_node(loop.site) if loop is not None else None
        if loop is None or around is None or not isinstance(around, LOOPS) or self._may_be_moved(node, around):
            return None
        if self._is_another_each_time(self.tree.own_node(call.place_in(loop)), around):
            return None
        try:
            store = self.places.store(node, around)
        except Unclear:
            return None
        if store is None or not store.uses or self.is_for_the_end(node, around):
            return None
        use = self._stale_use(trace, loop, store, owner)
        if use is None:
            return None
        assert isinstance(node.func, ast.Attribute)
        model, others = self.tree.code(node.func.value), tuple(sorted(map(site_of, store.others)))
        return KeptReference(site_of(node), model, store.places[0], site_of(use), store.uses[use], others)

    # -- the model, and the loop that trains it -----------------------------------------------------

    def training_loop(self, trace: Trace, loops: tuple[events.Loop, ...], owner: Value) -> events.Loop | None:
        """The innermost loop in which an optimizer steps on a model that is older than its iterations."""
        made_in = {loop for item in inputs_of(with_owners(owner)[-1]) for loop in item.loops}
        for depth in range(len(loops), 0, -1):
            loop = loops[depth - 1]
            if not loop.implicit and loop not in made_in:
                if any(self._steps(step, owner) for step in trace.of(events.Step, loops[:depth])):
                    return loop
        return None

    def _steps(self, step: events.Step, owner: Value) -> bool:
        """Whether a step changes a model; an optimizer from another file counts as the model's."""
        held, complete = self.model.ownership.held_by(resolved(step.optimizer))
        owners = set(inputs_of(owner))
        if any(
            isinstance(item, Optimizer) or is_utility(item) or item in self.model.ownership.stepped for item in owners
        ):
            return False
        if self.model.ownership.overlap(held, owners) or not owners.isdisjoint(ancestry([step.optimizer], _arguments)):
            return True
        is_made_here = complete or held or isinstance(resolved(step.optimizer), Optimizer)
        is_aside = any(_ASIDE.search(item.label.lower()) for item in (owner, with_owners(owner)[-1]))
        return not is_made_here and is_module_like(owner) and not is_aside

    def _is_another_each_time(self, call: ast.AST | None, loop: ast.AST) -> bool:
        """Whether the loop reassigns the owner of the model: one of many clients, or a new model."""
        parts = [call.func, *arguments(call)] if isinstance(call, ast.Call) else []
        return call is None or any(self.binds_anew(part, loop) for part in parts if isinstance(part, ast.Attribute))

    def binds_anew(self, owner: ast.expr, loop: ast.AST) -> bool:
        """Whether a loop assigns another object to the variable that is an expression's value or owner."""
        root = dotted(owner).partition(".")[0]
        names = (item for item in walk(loop) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store))
        return any(name.id == root and not self._passes_on(name) for name in names)

    def _passes_on(self, name: ast.Name) -> bool:
        """`model = train_epoch(model, loader)`."""
        value = self.places.value_for(name)
        return isinstance(value, ast.Call) and name.id in names_read(value) and called_name(value) not in DEEP

    def _may_be_moved(self, node: ast.Call, loop: ast.AST) -> bool:
        """Whether the model gets other tensors in the loop: by a move to the CPU and back, or as an average."""
        assert isinstance(node.func, ast.Attribute)
        if not dotted(node.func.value):
            return True
        if any(isinstance(item, ast.With) and "state_dict" in self._header(item) for item in self.tree.ancestors(node)):
            return True
        calls = [
            item for region in self.places.run_in(loop, node) for item in walk(region) if isinstance(item, ast.Call)
        ]
        names = set(dotted(node.func.value).split(".")) - {"self", "module"}
        moves = [item for item in calls if called_name(item) in ("cpu", "to") and _is_named(item.func, names)]
        places = {ast.dump(place) for move in moves for place in arguments(move)[:1]}
        is_moved = len(places) > 1 or any(called_name(move) == "cpu" or _is_cpu(move) for move in moves)
        return is_moved or any(called_name(item) in _SWAPPING for item in calls)

    def _header(self, block: ast.With) -> str:
        return " ".join(self.tree.code(item.context_expr) for item in block.items)

    def is_for_the_end(self, node: ast.AST, loop: ast.AST) -> bool:
        """Whether a condition on the progress of the loop decides alone, so that no step may follow."""
        targets = set(names_read(loop.target)) if isinstance(loop, (ast.For, ast.AsyncFor)) else set()
        counters = {dotted(item.target) for item in walk(loop) if isinstance(item, ast.AugAssign) and _counts(item)}
        inside = takewhile(lambda item: item is not loop, self.tree.ancestors(node))
        tests = [item.test for item in inside if isinstance(item, (ast.If, ast.IfExp))]
        return any(_asks_for_end(test, targets, counters) for test in tests)

    # -- when it is used ----------------------------------------------------------------------------

    def _stale_use(self, trace: Trace, loop: events.Loop, store: Store, owner: Value) -> ast.AST | None:
        """The first use on a path from the call through a step."""
        arrivals: dict[ast.AST, set[bool | None]] = {}

        def transfer(event: events.Event, states: frozenset[bool | None]) -> frozenset[bool | None]:
            node = self.tree.own_node(event.site)
            if node in store.uses and isinstance(event, (events.Call, events.Returned)):
                arrivals.setdefault(node, set()).update(states)
            elif node is store.node and isinstance(event, events.Call):
                return states | {False} if store.is_one_of_many else frozenset({False})
            elif node in store.others:
                return frozenset({None})
            elif isinstance(event, events.Step) and False in states and self._steps(event, owner):
                return states - {False} | {True}
            return states

        ends = dataflow.Flow(transfer).run([loop], frozenset({None}))
        for use in store.uses:
            if True in arrivals.get(use, ()) or (True in ends and use not in arrivals and self._is_after(use, store)):
                return use
        return None

    def _is_after(self, use: ast.AST, store: Store) -> bool:
        if self.places.is_in_loop(use, store):
            return False
        function, around = (self.definitions.function_around(item) for item in (use, store.loop))
        return function is not around or site_of(use).line > site_of(store.loop).line


def _arguments(value: Value) -> Iterable[Value]:
    """The values behind the parameters of an optimizer."""
    return made_of(value) if isinstance(value, (Optimizer, Parameters, Phi, Container)) else ()


def _is_named(method: ast.expr, names: set[str]) -> bool:
    """Whether a method is called on an object with one of these names: `self.model` of `self.model.cpu`."""
    return isinstance(method, ast.Attribute) and dotted(method.value).rpartition(".")[2] in names


def _is_cpu(move: ast.Call) -> bool:
    """`model.to("cpu")`, `model.to(torch.device("cpu"))`."""
    return any(isinstance(item, ast.Constant) and item.value == "cpu" for item in walk(move))


def _counts(statement: ast.AugAssign) -> bool:
    """`step += 1`."""
    return isinstance(statement.value, ast.Constant) and statement.value.value == 1


def _asks_for_end(test: ast.expr, targets: set[str], counters: set[str]) -> bool:
    """Whether a condition depends only on the iteration number, and may hold in the last one only.

    Examples are `epoch == epochs - 1` and `step >= steps`.
    """
    if isinstance(test, ast.BoolOp):
        return all(_asks_for_end(item, targets, counters) for item in test.values)
    if not isinstance(test, ast.Compare) or any(isinstance(item, ast.Mod) for item in walk(test)):
        return False
    sides = [test.left, *test.comparators]
    if any(isinstance(side, ast.Constant) and side.value in _FIRST for side in sides):
        return False
    asked = targets | counters if isinstance(test.ops[0], (ast.Eq, ast.GtE)) else targets
    return not asked.isdisjoint(names_read(test))

"""References: state dictionaries that places hold without a copy, and their uses after later steps."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from torchlint.lazy_pattern import LazyPattern
from torchlint.model.dataflow import Flow
from torchlint.model.events import Call, Event, Keep, Keeping, Loop, Returned, Saved, Step, apart, events_in
from torchlint.model.heap import AS_MADE, Change, Contents
from torchlint.model.lineage import ancestry, made_of, with_owners
from torchlint.model.module_values import is_module_like
from torchlint.model.ownership import Ownership
from torchlint.model.program import Program, Trace
from torchlint.model.queries.names import bound_value
from torchlint.model.utilities import is_utility
from torchlint.model.values import (
    CallResult,
    Container,
    Element,
    External,
    Iteration,
    Optimizer,
    Parameters,
    Phi,
    Tensor,
    UnknownObject,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import LOOPS, Site, arguments, called_name, dotted, names_bound, names_read, walk
from torchlint.syntax.python_tree import PythonTree

SHALLOW = frozenset({"dict", "OrderedDict", "copy", "items"})
"""Calls that return the same tensors as their input."""
DEEP = frozenset({"deepcopy", "clone", "copy_", "pickle", "dumps"})
_READING = frozenset({"print", "len", "isinstance", "type", "id", "info", "debug", "keys", "get"})
"""Calls that do not change their arguments."""
_SWAPPING = frozenset("apply_shadow average_parameters copy_to swap swap_parameters store restore".split())
"""Methods that may swap other tensors into a model and back, as weight averages do."""
_ASIDE = LazyPattern(r"optim|sched|scaler|ema|target|teacher|averag|swa|frozen|reference")
"""Names of models that an unknown optimizer may not step."""
_FIRST = (0, 1)
_MOST = 40
"""Maximum number of calls of `state_dict` in a trace; with more of them, no answer."""


class Reference(NamedTuple):
    """`place` stores the `state_dict()` of `model` at `site`; it is `verb` (loaded, ...) at `use`, after a step."""

    site: Site
    place: str
    model: str
    use: Site
    verb: str
    others: tuple[Site, ...]
    """Other calls of `state_dict()` with results in the same place."""


class References:
    """Follows the results of `state_dict()` to the events that use them."""

    def __init__(self, program: Program, ownership: Ownership) -> None:
        self._program = program
        self._tree = program.tree
        self._ownership = ownership
        self._known: dict[tuple[Value, Loop], set[Value]] = {}

    def stale(self) -> Iterator[Reference]:
        """The references that are used after a step has changed their weights."""
        for trace in self._program.traces:
            calls = [call for call in trace.of(Call) if self._is_state_dict(call)]
            for call in calls if len(calls) <= _MOST else ():
                owner = resolved(call.value.parents[0])
                loop = self.training_loop(trace, call.loops, owner)
                place = self.place(call)
                if loop is None or self._is_another(call, loop) or self._may_change(trace, call, loop):
                    continue
                kept = self._kept(trace, call, loop)
                place = place or next((keep.name for keep in kept if keep.how is Keeping.APPEND), "")
                if not place:
                    continue
                others = [item for item in calls if self.place(item) == place and self._replaces(item, call)]
                found = self._use(trace, call, loop, others, is_one_of_many=bool(kept))
                if found is not None:
                    yield self._answer(call, place, found, others)

    def _is_state_dict(self, call: Call) -> bool:
        """`model.state_dict()` in the file itself."""
        node = self._tree.node(call.site)
        return (
            isinstance(node, ast.Call)
            and called_name(node) == "state_dict"
            and not node.args
            and bool(call.value.parents)
        )

    def training_loop(self, trace: Trace, loops: tuple[Loop, ...], owner: Value) -> Loop | None:
        """The innermost loop in which an optimizer steps on a model that is older than its iterations."""
        made_in = {loop for item in inputs_of(with_owners(owner)[-1]) for loop in item.loops}
        for depth in range(len(loops), 0, -1):
            loop = loops[depth - 1]
            if not loop.implicit and loop not in made_in:
                if any(self.steps(step, owner) for step in trace.of(Step, loops[:depth])):
                    return loop
        return None

    def steps(self, step: Step, owner: Value) -> bool:
        """Whether a step changes a model; an optimizer from another file counts as the model's."""
        held, complete = self._ownership.held_by(resolved(step.optimizer))
        owners = set(inputs_of(owner))
        if any(isinstance(item, Optimizer) or is_utility(item) or item in self._ownership.stepped for item in owners):
            return False
        if self._ownership.overlap(held, owners) or not owners.isdisjoint(ancestry([step.optimizer], _handed)):
            return True
        is_made_here = complete or held or isinstance(resolved(step.optimizer), Optimizer)
        is_aside = any(_ASIDE.search(item.label.lower()) for item in (owner, with_owners(owner)[-1]))
        return not is_made_here and is_module_like(owner) and not is_aside

    # -- places ------------------------------------------------------------------------------------------

    def place(self, call: Call) -> str:
        """The variable or attribute that the statement of a call assigns."""
        node = self._tree.node(call.site)
        statement = self._tree.statement(node) if node is not None else None
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        target = targets[0] if len(targets) == 1 else None
        around = [node, *self._tree.ancestors(node)] if node is not None else []
        for item in target.elts if isinstance(target, ast.Tuple) else ():
            if bound_value(item, self._tree) in around:
                target = item
        while isinstance(target, ast.Subscript):
            target = target.value
        return dotted(target)

    def _replaces(self, other: Call, call: Call) -> bool:
        """Whether a second call replaces the result of the first one: not if both are entries of one dictionary."""
        nodes = [self._tree.node(item.site) for item in (other, call)]
        is_beside = len({self._tree.statement(node) for node in nodes if node is not None}) < 2
        is_same_again = other is not call and other.site == call.site and other.path != call.path
        return is_same_again or apart(other, call) or not is_beside

    # -- the model ---------------------------------------------------------------------------------------

    def _is_another(self, call: Call, loop: Loop) -> bool:
        """Whether each iteration may have another model: one of many clients, a new model, other tensors in it."""
        around, made = self._tree.node(loop.site), self._tree.node(call.place_in(loop))
        node = self._tree.node(call.site)
        if not isinstance(around, LOOPS) or not isinstance(made, ast.Call) or not isinstance(node, ast.Call):
            return True
        parts = [item for item in (made.func, *arguments(made)) if isinstance(item, ast.Attribute)]
        is_anew = any(self.binds_anew(part, around) for part in parts)
        return is_anew or self._may_be_moved(node, around, loop) or is_for_the_end(node, around, self._tree)

    def binds_anew(self, owner: ast.expr, loop: ast.AST) -> bool:
        """Whether a loop assigns another object to the variable that is an expression's value or owner."""
        root = dotted(owner).partition(".")[0]
        names = (item for item in walk(loop) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store))
        return any(name.id == root and not self._passes_on(name) for name in names)

    def _passes_on(self, name: ast.Name) -> bool:
        """`model = train_epoch(model, loader)`."""
        value = bound_value(name, self._tree)
        return isinstance(value, ast.Call) and name.id in names_read(value) and called_name(value) not in DEEP

    def _may_be_moved(self, node: ast.Call, around: ast.AST, loop: Loop) -> bool:
        """Whether the model gets other tensors in the loop: by a move to the CPU and back, or as an average."""
        assert isinstance(node.func, ast.Attribute)
        blocks = (item for item in self._tree.ancestors(node) if isinstance(item, ast.With))
        if not dotted(node.func.value) or any("state_dict" in ast.unparse(item.items[0]) for item in blocks):
            return True
        nodes = (item for event in events_in(loop.body) if (item := self._tree.node(event.site)))
        inside = set(map(self._tree.function_around, nodes)) - {self._tree.function_around(around)}
        regions = [around, *(item for item in inside if item is not None)]
        calls = [item for region in regions for item in walk(region) if isinstance(item, ast.Call)]
        names = set(dotted(node.func.value).split(".")) - {"self", "module"}
        moves = [item for item in calls if called_name(item) in ("cpu", "to") and _is_named(item.func, names)]
        places = {ast.dump(place) for move in moves for place in arguments(move)[:1]}
        is_moved = len(places) > 1 or any(called_name(move) == "cpu" or _is_cpu(move) for move in moves)
        return is_moved or any(called_name(item) in _SWAPPING for item in calls)

    def holds(self, value: Value, state: Value, loop: Loop) -> bool:
        """Whether a value is a state dictionary, or holds its tensors; a copy after the loop comes too late."""
        return state in self._sources(value, loop)

    def _sources(self, value: Value, loop: Loop) -> set[Value]:
        """The values whose tensors a value may hold."""
        key = value, loop
        if key not in self._known:
            self._known[key] = ancestry([value], lambda item: self._shared(item, loop))
        return self._known[key]

    def _is_carried(self, value: Value, use: Event, call: Call, loop: Loop) -> bool:
        """Whether a value may hold tensors from an earlier iteration of a loop, or is used after the loop."""
        sources = [item for item in self._sources(value, loop) if self.holds(item, call.value, loop)]
        phis = [item for item in sources if isinstance(item, Phi)]
        containers = [item for item in sources if isinstance(item, Container)]
        is_older = any(loop not in item.loops for item in containers)
        is_new = bool(containers) and not is_older and all(self._is_made_before(item, use) for item in containers)
        # without a new container, other iterations have the reference from before
        is_only_one = not phis and not is_new and not set(call.path) <= set(use.path)
        return loop not in use.loops or is_only_one or is_older or any(phi.loop is loop for phi in phis)

    def _is_made_before(self, container: Container, use: Event) -> bool:
        """Whether a container is created in the block of its use, so that each use has a new one."""
        made = self._tree.node(container.site) if container.site is not None else None
        node = self._tree.node(use.site)
        return made is not None and node is not None and self._tree.statement(node) in self._tree.block(made)

    def _shared(self, item: Value, loop: Loop) -> Iterable[Value]:
        """The inputs whose tensors a value shares."""
        if isinstance(item, Container):
            node = self._tree.node(item.site) if item.site is not None else None
            return item.elements() if not isinstance(node, ast.DictComp) or shares_tensors(node) else ()
        if isinstance(item, (Phi, Element, Iteration)):
            return item.parents
        if isinstance(item, (CallResult, UnknownObject)):
            name = _called(item)
            return item.parents if name in SHALLOW or (name in DEEP and loop not in item.loops) else ()
        return item.parents if isinstance(item, Tensor) and item.op in (operators.DETACH, operators.DATA) else ()

    # -- uses --------------------------------------------------------------------------------------------

    def _uses(self, trace: Trace, call: Call, loop: Loop) -> Iterator[tuple[Event, Value, str]]:
        """The events that load, save or return a reference, with the value and a word for it."""
        for event in trace.of_kinds(Call, Saved, Returned):
            value, verb = _used(event)
            if value is not None and self.holds(value, call.value, loop):
                yield event, value, verb

    def _may_change(self, trace: Trace, call: Call, loop: Loop) -> bool:
        """Whether an iteration may copy or replace the tensors: through a call, or entry by entry."""
        if self._changes(trace, call.value) - {Change.UNKNOWN}:
            return True
        for event in trace.of(Call, call.loops[: call.loops.index(loop) + 1]):
            if event is not call and _used(event)[0] is None:
                name = _called(event.value)
                if name not in SHALLOW | _READING and any(
                    self.holds(item, call.value, loop) for item in event.value.parents
                ):
                    return True
        return False

    def _kept(self, trace: Trace, call: Call, loop: Loop) -> list[Keep]:
        """The entries of older containers under which each iteration stores one more reference."""
        found = []
        for keep in trace.of(Keep):
            container = resolved(keep.container)
            is_older = loop in keep.loops and loop not in container.loops
            if is_older and keep.how in (Keeping.SLOT, Keeping.APPEND) and self.holds(keep.value, call.value, loop):
                if keep.how is Keeping.SLOT or not self._changes(trace, container) - {Change.PUT}:
                    found.append(keep)
        return found

    def _changes(self, trace: Trace, container: Value) -> set[Change]:
        """The changes of the contents of a value."""
        changes = ancestry([trace.contents.get(container, AS_MADE)]) - {AS_MADE}
        return {item.change for item in changes if isinstance(item, Contents)}

    def _use(
        self, trace: Trace, call: Call, loop: Loop, others: list[Call], *, is_one_of_many: bool
    ) -> tuple[Event, str] | None:
        """The first use on a path from the call through a step."""
        owner = resolved(call.value.parents[0])
        uses = {event: (value, verb) for event, value, verb in self._uses(trace, call, loop)}
        arrivals: dict[Event, set[bool | None]] = defaultdict(set)

        def transfer(event: Event, states: frozenset[bool | None]) -> frozenset[bool | None]:
            if event in uses:
                arrivals[event] |= states
            if event is call:
                return states | {False} if is_one_of_many else frozenset({False})
            if event in others:
                return frozenset({None})
            if isinstance(event, Step) and False in states and self.steps(event, owner):
                return states - {False} | {True}
            return states

        Flow(transfer).run(loop.body, frozenset({None}))
        within = {event for event, states in arrivals.items() if True in states}
        Flow(transfer).run(trace.only(Call, Saved, Returned, Step), frozenset({None}))
        for event, (value, verb) in uses.items():
            if event in within or (True in arrivals[event] and self._is_carried(value, event, call, loop)):
                return event, verb
        return None

    def _answer(self, call: Call, place: str, found: tuple[Event, str], others: list[Call]) -> Reference:
        node = self._tree.node(call.site)
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        sites = dict.fromkeys(item.site for item in others if item.site != call.site)
        return Reference(call.site, place, self._tree.code(node.func.value), found[0].site, found[1], tuple(sites))


def _handed(value: Value) -> Iterable[Value]:
    """The values behind the parameters of an optimizer."""
    return made_of(value) if isinstance(value, (Optimizer, Parameters, Phi, Container)) else ()


def _called(value: Value) -> str:
    callee = value.callee if isinstance(value, (CallResult, UnknownObject)) else None
    name = callee.name if isinstance(callee, External) else callee.label if callee is not None else ""
    return name.rpartition(".")[2]


def _used(event: Event) -> tuple[Value | None, str]:
    if isinstance(event, Saved):
        return event.value, "saved"
    if isinstance(event, Returned):
        return event.value, "returned"
    if isinstance(event, Call) and _called(event.value) == "load_state_dict" and len(event.value.parents) > 1:
        return event.value.parents[1], "loaded"
    return None, ""


def is_for_the_end(node: ast.AST, loop: ast.AST, tree: PythonTree) -> bool:
    """Whether a condition on the progress of a loop decides alone, so that no step may follow."""
    targets = names_bound(loop.target) if isinstance(loop, (ast.For, ast.AsyncFor)) else set()
    added = [item for item in walk(loop) if isinstance(item, ast.AugAssign)]
    counters = {dotted(item.target) for item in added if isinstance(item.value, ast.Constant) and item.value.value == 1}
    inside = takewhile(lambda item: item is not loop, tree.ancestors(node))
    tests = [item.test for item in inside if isinstance(item, (ast.If, ast.IfExp))]
    return any(_asks_for_end(test, targets, counters) for test in tests)


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


def _is_named(method: ast.expr, names: set[str]) -> bool:
    """Whether a method is called on an object with one of these names: `self.model` of `self.model.cpu`."""
    return isinstance(method, ast.Attribute) and dotted(method.value).rpartition(".")[2] in names


def _is_cpu(move: ast.Call) -> bool:
    """`model.to("cpu")`, `model.to(torch.device("cpu"))`."""
    return any(isinstance(item, ast.Constant) and item.value == "cpu" for item in walk(move))


def shares_tensors(comprehension: ast.DictComp) -> bool:
    """`{k: v for k, v in ...}`, `{k: v.detach() for k, v in ...}`."""
    value: ast.expr = comprehension.value
    while isinstance(value, (ast.Call, ast.Attribute)):
        if isinstance(value, ast.Attribute) and value.attr not in ("detach", "data"):
            return False
        value = value.func if isinstance(value, ast.Call) else value.value
    return isinstance(value, ast.Name) and value.id in names_read(comprehension.generators[0].target)

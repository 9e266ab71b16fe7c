"""Tensors kept across iterations with the graph they hang on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from torchlint import Model
from torchlint.model.events import Backward, Call, Grad, Keep, Loop, MayClear, Returned, Step
from torchlint.model.lineage import graph_inputs
from torchlint.model.program import Trace
from torchlint.model.values import (
    Answer,
    Container,
    Instance,
    Module,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch import naming
from torchlint.pytorch.api import GradMode
from torchlint.pytorch.autograd_table import VIEWS
from torchlint.syntax.python_ast import Site, dotted, site_of

from ._batches import goes_over_objects, is_made_from_data, repeats
from ._cut_lists import CutLists
from ._let_go import LetGo

_SELECTING = VIEWS | frozenset(
    "getitem reshape cat concat concatenate stack hstack vstack index_select "
    "to cuda cpu float double half clone".split()
)
"""Operators that save no values of the tensors that they select from, join, move or copy."""


class KeptGraph(NamedTuple):
    """`keep` puts a tracked tensor where it outlives an iteration of `loop` (None: a call of the function).

    `backward` is the pass through the tensor in the same iteration, which frees what the operators saved unless it
    retains the graph; a `framework` makes one of what the function returns. Without any, every iteration's
    activations stay.
    """

    keep: Keep
    site: Site
    loop: Loop | None
    backward: Backward | None
    framework: bool = False
    is_drawn_from: bool = False
    """Whether a backward pass goes through what the list holds."""

    @property
    def is_used_inside(self) -> bool:
        """Whether the call that keeps the tensor also goes backward through it, or stands in another file."""
        through = self.backward.calls if self.backward is not None else ()
        return self.keep.site.inner is not None or (self.site != self.keep.site and self.site in through)

    @property
    def holds_activations(self) -> bool:
        if self.backward is None:
            return not self.framework
        return self.backward.retain is True


class KeptGraphs:
    """Answers about what loops leave in lists, sums, dictionaries and attributes."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.program = model.program
        self.tracking = model.tracking
        self._users: dict[Value, dict[Value, list[Tensor]]] = {}
        self._cut_lists = CutLists(model.program)
        self._let_go = LetGo(model)

    def answers(self) -> Iterator[KeptGraph]:
        """Every place where a graph is kept and never used again: once, where a sum is an entry of a dictionary."""
        if self.program.is_test or self.program.is_benchmark:
            return
        for trace in self.program.traces:
            told: set[tuple[object, ...]] = set()
            for event in trace.of(Keep):
                place = (*event.site.start, event.site.inner)
                kept = self._kept(trace, event) if event.how != "clear" and place not in told else None
                if kept is not None and not self._is_needed_elsewhere(trace, event):
                    told.add(place)
                    yield kept

    def _is_needed_elsewhere(self, trace: Trace, keep: Keep) -> bool:
        """Whether another call of the same function fills a container of its own, that a backward goes through."""
        others = [other for other in trace.of(Keep) if other.site == keep.site and other.calls != keep.calls]
        holders = {_holder(other) for other in others if keep.calls} - {_holder(keep)}
        passes = (self.tracking.pass_through(event.outputs) for event in trace.of_kinds(Backward, Grad) if holders)
        return any(not holders.isdisjoint(graph) for graph in passes)

    def _kept(self, trace: Trace, keep: Keep) -> KeptGraph | None:
        if keep.mode is not GradMode.ON or self.tracking.tracked(keep.value) is not Answer.YES:
            return None
        if _is_leaf(keep.value):
            return None
        container = _holder(keep)
        if any(isinstance(item, Container) and item.bounded for item in (container, *inputs_of(keep.container))):
            return None
        loops: list[Loop | None] = [*self._outlived(keep, container)]
        if not loops and self._outlives_call(trace, keep, container):
            loops = [None]
        for number, loop in enumerate(loops, 1):
            if not self._made_in(keep.value, loop):
                if _only_hands_on(loop, keep.value):
                    continue
                return None
            if number == len(loops) or self._computes(trace, keep, loop):
                around = [outer for outer in loops[number:] if self._fills(keep, container, outer, trace)]
                found = (self._kept_over(trace, keep, container, each) for each in (loop, *around))
                return next((kept for kept in found if kept is not None), None)
        return None

    def _fills(self, keep: Keep, container: Value, loop: Loop | None, trace: Trace) -> bool:
        """Whether each iteration of a loop adds to a list that it goes backward through, and that nothing empties."""
        return any(self._piles_up(keep, container, loop, backward) for backward in trace.of(Backward))

    def _computes(self, trace: Trace, keep: Keep, loop: Loop | None) -> bool:
        """Whether what is kept is computed in each iteration of a loop, rather than handed on from a dictionary."""
        through = self._backward_through(keep, loop, trace)
        return (
            through is not None
            or loop is None
            or is_made_from_data(keep.value, loop, self.model)
            or _trains(loop, trace)
        )

    def _kept_over(self, trace: Trace, keep: Keep, container: Value, loop: Loop | None) -> KeptGraph | None:
        """What iterations of a loop leave, unless that is let go."""
        if self._let_go.is_let_go(keep, container, loop, trace):
            return None
        backward = self._backward_through(keep, loop, trace)
        if self._used_later(keep, container, backward, loop, trace):
            return None
        if loop is None and self._is_training_step(trace, keep):
            return None if self._let_go.is_emptied(trace, container) else KeptGraph(keep, keep.site, None, None, True)
        if backward is None:
            over_data = loop is not None and (is_made_from_data(keep.value, loop, self.model) or _trains(loop, trace))
            if not over_data or (loop and goes_over_objects(loop) and _lasts_one_step(keep, container, trace)):
                return None
            if not self._stays_unseen(trace, keep, container):
                return None
        elif loop is not None and backward.retain is not True and _sums_up_one_step(keep, loop, trace):
            return None
        is_drawn_from = self._fills(keep, container, loop, trace) and backward is not None
        return KeptGraph(keep, keep.place_in(loop), loop, backward, is_drawn_from=is_drawn_from)

    def _outlived(self, keep: Keep, container: Value) -> list[Loop]:
        """The loops of whose iterations the container sees more than one, the innermost first."""
        made = _begun_in(keep, container)
        depth = len(keep.calls) if keep.local else 0
        around = [loop for loop in reversed(keep.loops) if loop not in made and loop.depth >= depth]
        return [loop for loop in around if not self._is_one_a_phase(keep, loop)]

    def _is_one_a_phase(self, keep: Keep, loop: Loop) -> bool:
        """`means[phase] = ...` in `for phase in ...`: an entry for training and one for validation."""
        node, slot = self.model.tree.own_node(loop.site), self.model.tree.own_node(keep.site)
        if not isinstance(node, ast.For) or not isinstance(slot, ast.Subscript) or keep.how != "slot":
            return False
        name = dotted(node.target)
        return name == dotted(slot.slice) != "" and bool(naming.PHASE.search(name))

    def _outlives_call(self, trace: Trace, keep: Keep, container: Value) -> bool:
        """An attribute of the object of a method that its callers repeat."""
        receiver = trace.receiver
        if receiver is None or trace.called or keep.loops or not isinstance(receiver, (Instance, Module)):
            return False
        if trace.root is None or trace.root.name == "__init__":
            return False
        if keep.how == "add" and not isinstance(container, Container):
            return self._is_carried(trace, keep)
        stored = self.program.observations.stored
        return receiver in container.parents or any(
            owner is receiver and value is container for (owner, _), value in stored.items()
        )

    def _is_carried(self, trace: Trace, keep: Keep) -> bool:
        """Whether a sum in an attribute goes on from the call before, and goes on to the next one with its graph."""
        receiver, root, name = trace.receiver, trace.root, keep.name.rpartition(".")[2]
        if receiver is None or keep.calls or root is None or root.owner is None:
            return False
        if root.owner.assigned.get(name, set()) - {"__init__", root.name}:
            return False  # another method begins it anew, who knows how often
        left = trace.heap.get((receiver, name))
        if left is None or self.tracking.tracked(left) is not Answer.YES or left.has_use("detach_", "backward"):
            return False
        begun = self.program.observations.stored.get((receiver, name))
        is_begun = all(
            item is begun or (isinstance(item, Unknown) and item.origin == "attribute")
            for item in inputs_of(keep.container)
        )
        returned = (self.tracking.graph(event.value) for event in trace.of(Returned))
        return is_begun and not any(left in graph for graph in returned)

    def _is_training_step(self, trace: Trace, keep: Keep) -> bool:
        """Whether Lightning calls a function with each batch, and goes backward through what it returns."""
        if trace.root is None or trace.root.name != "training_step" or not isinstance(trace.receiver, Module):
            return False
        graph = self.tracking.graph(keep.value, carried=False)
        returned = (self.tracking.graph(event.value) for event in trace.of(Returned))
        return any(not graph.isdisjoint(values) for values in returned)

    def _made_in(self, value: Value, loop: Loop | None) -> bool:
        """Whether the tensor is made anew in each iteration."""
        if loop is None:
            return not isinstance(value, Unknown) or value.origin == "call"
        if repeats(loop, value.loops):
            return True
        parts = value.elements() if isinstance(value, Container) else value.parents if isinstance(value, Phi) else ()
        return any(repeats(loop, item.loops) for item in parts)

    def _backward_through(self, keep: Keep, loop: Loop | None, trace: Trace) -> Backward | None:
        """A backward pass in the same iteration that goes through the kept tensor, or shares its graph."""
        graph = self.tracking.graph(keep.value, carried=False)
        for event in trace.of(Backward):
            if loop is None or repeats(loop, event.loops):
                through = self.tracking.pass_through(event.loss, carried=False)
                if keep.value in through or event.loss in graph or self._shares_result(graph & through, loop):
                    return event
        return None

    def _shares_result(self, shared: set[Value], loop: Loop | None) -> bool:
        """Whether two graphs meet in an operator's result of this iteration that surely has one: noise has none."""
        return any(
            (self._is_tracked_result(item) or (isinstance(item, Unknown) and item.origin == "call"))
            and (loop is None or loop in item.loops)
            for item in shared
        )

    def _is_tracked_result(self, value: Value) -> bool:
        return isinstance(value, Tensor) and not value.leaf and self.tracking.tracked(value) is Answer.YES

    def _used_later(
        self, keep: Keep, container: Value, backward: Backward | None, loop: Loop | None, trace: Trace
    ) -> bool:
        """Whether a backward pass goes through what has been kept: after the loop, or where none does in it."""
        for event in trace.of_kinds(Backward, Grad):
            graph = self.tracking.pass_through(event.outputs)
            if container in graph and not self._piles_up(keep, container, loop, event):
                return True
            if keep.how == "add" and self._continues(keep, event.outputs):
                return True
            if _is_made_of_what_was_kept(graph, keep.value, container):
                return True
            if backward is None and (keep.value in graph or not graph.isdisjoint(keep.value.parents)):
                return True
            if loop is not None and not repeats(loop, event.loops) and keep.value in graph:
                return True
        return False

    def _piles_up(self, keep: Keep, container: Value, loop: Loop | None, used: Backward | Grad) -> bool:
        """Whether a list that each iteration goes backward through keeps what it holds: nothing ever empties it."""
        if container not in self.tracking.pass_through(used.outputs):
            return False
        if loop is None or loop not in used.loops or keep.how != "append":
            return False
        is_list = isinstance(container, Container) and container.kind == "list"
        node = self.program.tree.node(keep.site)
        return is_list and not any(
            self._cut_lists.is_cut(name, node) for name in (keep.name, *self._holders(container))
        )

    def _holders(self, container: Value) -> Iterator[str]:
        """The attributes under which objects are kept that hold a container: `rollout` of `self.rollout.log_probs`."""
        for owner in self.model.parts.holders(container):
            yield from self._names_of.get(owner, ())

    @cached_property
    def _names_of(self) -> dict[Value, set[str]]:
        """The attributes that have a value, wherever."""
        found: dict[Value, set[str]] = {}
        for heap in (self.program.observations.stored, *(trace.heap for trace in self.program.traces)):
            for (_, name), value in heap.items():
                for item in inputs_of(value):
                    found.setdefault(item, set()).add(f"self.{name}")
        return found

    def _continues(self, keep: Keep, outputs: Value) -> bool:
        """Whether the sum itself, at any iteration, is in the graph of a pass."""
        if keep.container in self.tracking.pass_through(outputs) and not isinstance(keep.container, Phi):
            return True
        return any(item.site in self._written(keep) for item in self._computed_from(keep.container, outputs))

    def _computed_from(self, value: Value, outputs: Value) -> list[Tensor]:
        """The results of operators on a value in the graph of a pass."""
        users = self._users.get(outputs)
        if users is None:
            users = self._users[outputs] = {}
            for item in self.tracking.pass_through(outputs):
                if isinstance(item, Tensor):
                    for parent in item.parents:
                        users.setdefault(parent, []).append(item)
        return users.get(value, [])

    def _written(self, keep: Keep) -> tuple[Site, ...]:
        """The sites of a statement that adds, and of what it assigns."""
        node = self.program.tree.node(keep.site)
        return (keep.site, site_of(node.value)) if isinstance(node, ast.Assign) else (keep.site,)

    def _stays_unseen(self, trace: Trace, keep: Keep, container: Value) -> bool:
        """Without a backward in sight: grad mode is surely on, and the container goes nowhere else."""
        if trace.root is not None and not self._decides_itself(trace, keep):
            return False
        if isinstance(trace.receiver, Module) or (not isinstance(container, (Container, Phi)) and keep.how != "add"):
            return False
        for event in trace.of_kinds(Returned, MayClear):
            if isinstance(event, Returned) and not self._absent(event.value, keep, container):
                return False
            if isinstance(event, MayClear) and container in event.handed:
                return False
        calls = (call for call in trace.of(Call) if self.model.ownership.may_go_backward(call))
        return all(self._absent(item, keep, container) for call in calls for item in call.value.parents)

    def _decides_itself(self, trace: Trace, keep: Keep) -> bool:
        """Whether the callers leave gradients to the function: it trains, switches to `eval()`, or makes the module."""
        if trace.of(Backward):
            return True
        for value in self.tracking.graph(keep.value):
            module = value.parents[0] if isinstance(value, Tensor) and value.op == "module" else None
            if isinstance(value, Unknown) and value.origin == "call":
                module = value.callee
            if module is not None and any(
                item.has_use("eval") or item.order > trace.start > 0
                for item in inputs_of(module)
                if not isinstance(item, Unknown) or item.origin != "attribute"
            ):
                return True
        return False

    def _absent(self, value: Value, keep: Keep, container: Value) -> bool:
        graph = self.tracking.graph(value)
        return container not in graph and keep.value not in graph


def _holder(keep: Keep) -> Value:
    """What something is kept in: the dictionary, for a list of its own under a key that nobody knows."""
    drawn = keep.container
    if isinstance(drawn, Phi) and isinstance(drawn.source, Container) and drawn.source.kind == "dict":
        return drawn.source
    return resolved(drawn)


def _only_hands_on(loop: Loop | None, value: Value) -> bool:
    """Whether a loop goes over a container, and a value is an element of it, which was made before the loop."""
    return loop is not None and isinstance(value, Phi) and value.source is not None and not value.is_loop


def _is_made_of_what_was_kept(graph: set[Value], value: Value, container: Value) -> bool:
    """Whether a graph is built in a loop over a list of tuples, or of lists, from what such a one holds."""
    if not isinstance(value, Container) or graph.isdisjoint(value.elements()):
        return False
    loops = {loop for item in graph for loop in item.loops if isinstance(loop, Loop) and loop.over is not None}
    return any(container in inputs_of(loop.over) for loop in loops if loop.over is not None)


def _is_leaf(value: Value) -> bool:
    """Whether a value is where graphs end: a leaf, parameters, or a list, dictionary or selection of such."""
    ends: set[Value] = set()
    seen: set[Value] = set()
    stack = [value]
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        if isinstance(item, (Phi, Container)):
            stack.extend(item.elements() if isinstance(item, Container) else item.parents)
        elif isinstance(item, Tensor) and not item.leaf and item.op in _SELECTING:
            stack.extend(graph_inputs(item))
        elif not isinstance(item, Plain):
            ends.add(item)
    return bool(ends) and all(isinstance(item, Parameters) or (isinstance(item, Tensor) and item.leaf) for item in ends)


def _lasts_one_step(keep: Keep, container: Value, trace: Trace) -> bool:
    """Whether a container is made anew for each step of training."""
    made = _begun_in(keep, container)
    return any(event.loops and event.loops[-1] in made for event in trace.of_kinds(Backward, Step))


def _sums_up_one_step(keep: Keep, loop: Loop, trace: Trace) -> bool:
    """Whether a loop goes backward through the parts of one step, and the sum begins anew with the next step."""
    steps = trace.of(Step)
    around = keep.loops[: keep.loops.index(loop)] if loop in keep.loops else ()
    return (
        keep.how == "add"
        and not any(loop in step.loops for step in steps)
        and any(step.order > keep.order and step.loops == around for step in steps)
        and _is_begun_before(keep.container, loop)
    )


def _is_begun_before(total: Value, loop: Loop) -> bool:
    """Whether a sum begins anew right before a loop, rather than once before a loop around it."""
    return isinstance(total, Phi) and total.loop is loop and not isinstance(total.parents[0], Phi)


def _begun_in(keep: Keep, container: Value) -> tuple[Loop, ...]:
    """The loops in each of whose iterations a sum, or what else is kept, begins anew."""
    made = keep.container if keep.how == "add" else container
    return tuple(item for item in made.loops if isinstance(item, Loop))


def _trains(loop: Loop, trace: Trace) -> bool:
    return any(repeats(loop, event.loops) for event in trace.of_kinds(Backward, Step))

"""Uses of stored tensors: the data they come from, and the backward passes through them."""

from __future__ import annotations

import ast

from torchlint import Model
from torchlint.model.events import Backward, Grad, Keep, Keeping, Loop, Returned
from torchlint.model.lineage import ancestry, contents, made_of
from torchlint.model.module_values import given_to, is_forward, is_module_like
from torchlint.model.program import Trace
from torchlint.model.values import (
    Answer,
    CallResult,
    Container,
    Element,
    Generator,
    Instance,
    Iteration,
    List,
    Module,
    ModuleOutput,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    drawn_from,
    resolved,
)
from torchlint.pytorch import operators
from torchlint.pytorch.autograd_table import OPERATORS
from torchlint.syntax.python_ast import Site, dotted, site_of


class KeptGraphUses:
    """Answers about values that loops leave in lists, sums, dictionaries and attributes."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.program = model.program
        self.tracking = model.tracking
        self._users: dict[Value, dict[Value, list[Tensor]]] = {}

    def backward_through(self, keep: Keep, loop: Loop | None, trace: Trace) -> Backward | None:
        """A backward in the same iteration that runs through the stored tensor, or shares its graph."""
        graph = self.tracking.graph(keep.value, carried=False)
        for event in trace.of(Backward):
            if not event.given_inputs and (loop is None or repeats(loop, event.loops)):
                through = self.tracking.pass_through(event.loss, carried=False)
                if keep.value in through or event.loss in graph or self._shares_result(graph & through, loop):
                    return event
        return None

    def is_beside(self, keep: Keep, backward: Backward) -> bool:
        """Whether operators outside a backward's path have saved tensors for the stored value: a metric."""
        graph, through = (self.tracking.graph(item, carried=False) for item in (keep.value, backward.loss))
        if not isinstance(keep.value, Tensor) or backward.loss in graph:
            return False
        return any(isinstance(item, Tensor) and not item.leaf and _saves(item) for item in graph - through)

    def _shares_result(self, shared: set[Value], loop: Loop | None) -> bool:
        """Whether two graphs share an operator's result of this iteration that certainly has one; noise has none."""
        return any(
            (self._is_tracked_result(item) or isinstance(item, CallResult)) and (loop is None or loop in item.loops)
            for item in shared
        )

    def _is_tracked_result(self, value: Value) -> bool:
        return isinstance(value, Tensor) and not value.leaf and self.tracking.tracked(value) is Answer.YES

    def is_training_step(self, trace: Trace, keep: Keep) -> bool:
        """Whether Lightning calls a function with each batch, and goes backward through its result."""
        if trace.root is None or trace.root.name != "training_step" or not isinstance(trace.receiver, Module):
            return False
        graph = self.tracking.graph(keep.value, carried=False)
        returned = (self.tracking.graph(event.value) for event in trace.of(Returned))
        return any(not graph.isdisjoint(values) for values in returned)

    def fills(self, keep: Keep, container: Value, loop: Loop | None, trace: Trace) -> bool:
        """Whether each iteration adds to a list that it goes backward through, and that nothing empties."""
        return any(self._piles_up(keep, container, loop, backward, trace) for backward in trace.of(Backward))

    def is_used_later(
        self, keep: Keep, container: Value, backward: Backward | None, loop: Loop | None, trace: Trace
    ) -> bool:
        """Whether a backward runs through the stored value after the loop, or without one inside the loop."""
        for event in trace.of_kinds(Backward, Grad):
            graph = self.tracking.pass_through(event.outputs)
            if container in graph and not self._piles_up(keep, container, loop, event, trace):
                return True
            if keep.how is Keeping.ADD and self._continues(keep, event.outputs):
                return True
            if _is_made_of_what_was_kept(graph, keep.value, container):
                return True
            parts = keep.value.elements() if isinstance(keep.value, Container) else keep.value.parents
            if backward is None and (keep.value in graph or not graph.isdisjoint(parts)):
                return True
            if loop is not None and not repeats(loop, event.loops) and keep.value in graph:
                return True
        return False

    def _piles_up(self, keep: Keep, container: Value, loop: Loop | None, used: Backward | Grad, trace: Trace) -> bool:
        """Whether a list that each iteration goes backward through keeps its contents: nothing ever empties it."""
        if container not in self.tracking.pass_through(used.outputs):
            return False
        if loop is None or loop not in used.loops or keep.how is not Keeping.APPEND:
            return False
        if not isinstance(container, List) or self.model.held.is_emptied_elsewhere(container):
            return False
        return self.model.held.after(keep, container, loop, trace).answer is Answer.YES

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
        """The sites of a statement that adds a value, and of its target."""
        node = self.program.tree.node(keep.site)
        return (keep.site, site_of(node.value)) if isinstance(node, ast.Assign) else (keep.site,)


def _saves(made: Tensor) -> bool:
    """Whether an operator saves a tensor for its backward; numbers do not count."""
    operator = OPERATORS.get(made.op)
    if operator is None:
        return made.op != operators.GETITEM
    given = dict(zip(operator.parameters, map(resolved, made.parents), strict=False))
    tensors = {name for name, item in given.items() if not isinstance(item, Plain)}
    kept = (name for wants, names in operator.saves.items() if wants in tensors for name in names)
    return any(name in tensors or name.startswith("result") for name in kept)


def _is_made_of_what_was_kept(graph: set[Value], value: Value, container: Value) -> bool:
    """Whether a loop over a list of tuples or lists builds a graph from the stored contents."""
    if not isinstance(value, Container) or graph.isdisjoint(value.elements()):
        return False
    loops = {loop for item in graph for loop in item.loops if isinstance(loop, Loop) and loop.over is not None}
    return any(container in drawn_from(loop.over) for loop in loops if loop.over is not None)


def is_made_from_data(value: Value, loop: Loop, model: Model) -> bool:
    """Whether a module computed the tensor from an item of the loop, or from a batch that it slices.

    The loop iterates over a loader or a list, or slices with `x[i : i + 32]`.
    """
    graph = model.tracking.graph(value)
    inputs = ancestry((item for made in graph if is_forward(made) for item in given_to(made)), _without_makers)
    over = resolved(loop.over) if loop.over is not None else None
    listed = contents([over]) if isinstance(over, Container) else set()
    if _goes_by_batches(model.tree.node(loop.site)):
        listed |= {item for item in inputs if _is_cut_out(item)}
    return not listed.isdisjoint(item for item in inputs if isinstance(item, (Tensor, Unknown))) or any(
        isinstance(item, Iteration) and item.site == loop.site for item in inputs
    )


def goes_over_objects(loop: Loop) -> bool:
    """Whether a loop iterates over the program's modules or objects, possibly together with data."""
    over = resolved(loop.over) if loop.over is not None else None
    return isinstance(over, Container) and any(isinstance(item, (Instance, Module)) for item in contents([over]))


def _without_makers(value: Value) -> list[Value]:
    """The inputs of a value, without the module that computed it."""
    if isinstance(value, ModuleOutput):
        return given_to(value)
    makes = value.callee.parents if isinstance(value, Unknown) and value.callee is not None else ()
    makers = {resolved(item) for item in makes if is_module_like(item)}
    return [item for item in made_of(value) if resolved(item) not in makers]


def _goes_by_batches(node: ast.AST) -> bool:
    """`for i in range(0, len(x), 32):`."""
    over = node.iter if isinstance(node, ast.For) else None
    if isinstance(over, ast.Call) and dotted(over.func) == "enumerate" and over.args:
        over = over.args[0]
    return isinstance(over, ast.Call) and dotted(over.func) == "range" and len(over.args) == 3


def _is_cut_out(value: Value) -> bool:
    """Whether a value is part of another by an index that is not a literal: `x[i : i + 32]`."""
    if isinstance(value, Unknown):
        return isinstance(value, Element) and value.label == "[None]"
    return isinstance(value, Tensor) and value.op == operators.GETITEM


def repeats(loop: Loop, loops: tuple[object, ...]) -> bool:
    """Whether a node in these loops runs in each iteration of a loop, or of the generator that it iterates over."""
    return loop in loops or not loops_of_generator(loop).isdisjoint(loops)


def loops_of_generator(loop: Loop) -> set[object]:
    """The loops of this program's generator that yield the items of a loop."""
    over = resolved(loop.over) if loop.over is not None else None
    if not isinstance(over, Generator):
        return set()
    return {inner for item in over.elements() for inner in item.loops} - set(over.loops)

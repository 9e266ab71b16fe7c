"""Tensors stored across iterations with their graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from torchlint import Model
from torchlint.model.events import Backward, Call, Grad, Keep, Keeping, Loop, MayClear, Returned, Step, apart
from torchlint.model.lineage import contents, graph_inputs
from torchlint.model.module_values import is_forward
from torchlint.model.program import Trace
from torchlint.model.queries import gradient_users
from torchlint.model.values import (
    Answer,
    Attribute,
    CallResult,
    Container,
    Deque,
    Dict,
    List,
    Module,
    ModuleOutput,
    Parameters,
    Phi,
    Plain,
    Tensor,
    Unknown,
    Value,
    inputs_of,
    resolved,
)
from torchlint.pytorch.api import GradMode
from torchlint.pytorch.autograd_table import VIEWS
from torchlint.syntax.python_ast import Site, dotted

from ._kept_graph_lifetimes import Lifetimes, lasts_one_step, sums_up_one_step
from ._kept_graph_uses import KeptGraphUses, goes_over_objects, is_made_from_data, loops_of_generator, repeats

_SELECTING = VIEWS | frozenset(
    "getitem reshape cat concat concatenate stack hstack vstack index_select "
    "to cuda cpu float double half clone".split()
)
"""Operators that select, join, move or copy tensors and save none of their values."""
_MANY_GRAPHS = 100
"""More graphs than this in one `deque` may not fit in memory."""


class KeptGraph(NamedTuple):
    """`keep` stores a tensor with a graph where it outlives an iteration of `loop` (None: a call to the function).

    `backward` is the pass through the tensor in the same iteration. It frees the tensors that operators saved, unless
    it retains the graph. A `framework` makes such a pass through the function's result. Without any pass, every
    iteration's activations stay in memory.
    """

    keep: Keep
    site: Site
    loop: Loop | None
    backward: Backward | None
    framework: bool = False
    is_beside_loss: bool = False
    """Whether a backward runs through only part of the graph: the stored value is a metric of the same output."""
    is_drawn_from: bool = False
    """Whether a backward runs through the contents of the list."""
    is_sure: bool = True
    """False if code that torchlint does not see may still use the stored tensor.

    No backward through it is visible, and it is stored in training, or by an object of another file, which may release
    it.
    """

    @property
    def limit(self) -> int | None:
        """The largest number of graphs in a `deque`, if it drops the others."""
        holder = _holder(self.keep)
        return holder.limit if isinstance(holder, Deque) and holder.bounded else None

    @property
    def is_used_inside(self) -> bool:
        """Whether the call that stores the tensor also goes backward through it, or is in another file."""
        through = self.backward.calls if self.backward is not None else ()
        return self.keep.site.inner is not None or (self.site != self.keep.site and self.site in through)

    @property
    def holds_activations(self) -> bool:
        if self.backward is None:
            return not self.framework
        return self.backward.keeps_graph is True


def _is_long(container: Container) -> bool:
    """Whether a bounded container holds so many graphs that memory may run out first."""
    return isinstance(container, Deque) and (container.limit or 0) > _MANY_GRAPHS


class KeptGraphs:
    """Answers about values that loops leave in lists, sums, dictionaries and attributes."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.program = model.program
        self.tracking = model.tracking
        self._uses = KeptGraphUses(model)
        self._lifetimes = Lifetimes(model)
        self._held = model.held

    def answers(self) -> Iterator[KeptGraph]:
        """Every place that stores a graph without later use; once, where a sum is an entry of a dictionary."""
        if self.program.is_test or self.program.is_benchmark:
            return
        for trace in self.program.traces:
            reported: set[tuple[object, ...]] = set()
            for event in trace.of(Keep):
                place = (*event.site.start, event.site.inner)
                kept = self._kept(trace, event) if event.how is not Keeping.CLEAR and place not in reported else None
                if kept is not None and kept.limit is not None and not kept.holds_activations:
                    continue
                if kept is None or self._is_frozen(event) or self._may_run_without_gradients(kept, trace):
                    continue
                if not self._is_needed_elsewhere(trace, event):
                    reported.add(place)
                    yield kept

    def _is_needed_elsewhere(self, trace: Trace, keep: Keep) -> bool:
        """Whether a backward uses the same kind of container elsewhere.

        Another call to the function fills its own container, or another function uses a list that each call creates.
        """
        is_made_there = isinstance(_holder(keep), Container) and "." not in keep.name
        for around in (self.program.traces if is_made_there else [trace]) if keep.calls else ():
            others = (other for other in around.of(Keep) if other.site == keep.site)
            holders = {_holder(other) for other in others if around is not trace or other.calls != keep.calls}
            holders.discard(_holder(keep))
            passes = (self.tracking.pass_through(event.outputs) for event in around.of_kinds(Backward, Grad) if holders)
            if any(not holders.isdisjoint(graph) for graph in passes):
                return True
        return False

    def _has_graph(self, value: Value) -> bool:
        """Whether a value, or an element of a container of known contents, certainly has more graph than its own leaf.

        For a list, this includes all appended values, which may differ.
        """
        if self.tracking.tracked_in_training(value) is not Answer.YES or _is_leaf(value):
            return False
        if not isinstance(value, Container):
            return True
        return (all if isinstance(value, List) else any)(map(self._has_graph, value.elements()))

    def _kept(self, trace: Trace, keep: Keep) -> KeptGraph | None:
        if keep.mode is GradMode.OFF or not self._has_graph(keep.value):
            return None
        if keep.mode is GradMode.UNKNOWN and not self._goes_backward_beside(trace, keep):
            return None
        container = _holder(keep)
        holders = (container, *inputs_of(keep.container))
        if any(isinstance(item, Container) and item.bounded and not _is_long(item) for item in holders):
            return None
        loops: list[Loop | None] = [*self._lifetimes.outlived(keep, container)]
        if not loops and self._lifetimes.outlives_call(trace, keep, container):
            loops = [None]
        for number, loop in enumerate(loops, 1):
            if loop is not None and (self._goes_over_graphs(loop, keep) or self._goes_over_optimizers(loop, trace)):
                continue
            if not self._made_in(keep.value, loop):
                if _only_hands_on(loop, keep.value):
                    continue
                return None
            if number == len(loops) or self._computes(trace, keep, loop):
                around = [outer for outer in loops[number:] if self._uses.fills(keep, container, outer, trace)]
                found = (self._kept_over(trace, keep, container, each) for each in (loop, *around))
                return next((kept for kept in found if kept is not None), None)
        return None

    def _is_frozen(self, keep: Keep) -> bool:
        """Whether all modules behind a stored value may be frozen, so that it has no graph; a loss has one."""
        if resolved(keep.value) in self._losses:
            return False
        behind = list(self._modules_behind(keep))
        return bool(behind) and all(map(self.model.frozen.may_be, map(resolved, behind)))

    def _may_run_without_gradients(self, kept: KeptGraph, trace: Trace) -> bool:
        """Whether a caller that torchlint could not follow may switch gradients off around the whole function."""
        is_evaluation = kept.backward is None and not kept.framework
        return is_evaluation and gradient_users.has_callers_without_gradients(trace, self.model)

    @cached_property
    def _losses(self) -> set[Value]:
        """The values from which a backward pass starts."""
        return {resolved(backward.loss) for trace in self.program.traces for backward in trace.of(Backward)}

    def _goes_backward_beside(self, trace: Trace, keep: Keep) -> bool:
        """Whether a backward in the same iteration shows that gradients are on, though a variable decides."""
        beside = (item for item in trace.of(Backward) if item.loops == keep.loops and not apart(item, keep))
        passes = [item for item in beside if item.mode is GradMode.UNKNOWN]
        graph = self.tracking.graph(keep.value, carried=False)
        return any(not graph.isdisjoint(self.tracking.pass_through(item.loss, carried=False)) for item in passes)

    def _goes_over_graphs(self, loop: Loop, keep: Keep) -> bool:
        """Whether a loop iterates over the outputs of one step, from which the stored value is computed."""
        over = resolved(loop.over) if loop.over is not None else None
        if loops_of_generator(loop):
            return False
        items = contents([over]) if over is not None else set()
        outputs = items & self.tracking.graph(keep.value, carried=False)
        tensors = (item for item in outputs if not isinstance(item, (Container, Phi)))
        return any(is_forward(item) or self._has_graph(item) for item in tensors)

    def _goes_over_optimizers(self, loop: Loop, trace: Trace) -> bool:
        """Whether each iteration of a loop is a step of another optimizer: `for i in range(agents)` with
        `optimizers[i].step()`."""
        node = self.model.tree.node(loop.site)
        index = dotted(node.target) if isinstance(node, ast.For) else ""
        calls = [self.model.tree.node(step.site) for step in trace.of(Step) if loop in step.loops] if index else []
        steps = [
            call.func.value for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        ]
        return bool(steps) and all(isinstance(item, ast.Subscript) and dotted(item.slice) == index for item in steps)

    def _computes(self, trace: Trace, keep: Keep, loop: Loop | None) -> bool:
        """Whether each iteration computes the stored value, rather than taking it from a dictionary."""
        through = self._uses.backward_through(keep, loop, trace)
        return (
            through is not None
            or loop is None
            or is_made_from_data(keep.value, loop, self.model)
            or _trains(loop, trace)
        )

    def _kept_over(self, trace: Trace, keep: Keep, container: Value, loop: Loop | None) -> KeptGraph | None:
        """The values that iterations of a loop leave, unless the code releases them."""
        if self._held.after(keep, container, loop, trace).answer is not Answer.YES:
            return None
        backward = self._uses.backward_through(keep, loop, trace)
        if self._uses.is_used_later(keep, container, backward, loop, trace):
            return None
        if loop is None and self._uses.is_training_step(trace, keep):
            return None if self._held.is_emptied_elsewhere(container) else KeptGraph(keep, keep.site, None, None, True)
        if backward is None:
            over_data = loop is not None and (is_made_from_data(keep.value, loop, self.model) or _trains(loop, trace))
            if not over_data or (loop and goes_over_objects(loop) and lasts_one_step(keep, container, trace)):
                return None
            if not self._stays_unseen(trace, keep, container):
                return None
        elif loop is not None and backward.keeps_graph is not True:
            if sums_up_one_step(keep, loop, trace) or self._lifetimes.keeps_last_only(keep, container):
                return None
        return KeptGraph(
            keep,
            keep.place_in(loop),
            loop,
            backward,
            is_beside_loss=backward is not None and self._uses.is_beside(keep, backward),
            is_drawn_from=self._uses.fills(keep, container, loop, trace) and backward is not None,
            is_sure=backward is not None
            or (
                not _is_kept_by_object_elsewhere(keep) and (keep.how is Keeping.ADD or self._is_evaluated(trace, keep))
            ),
        )

    def _made_in(self, value: Value, loop: Loop | None) -> bool:
        """Whether each iteration creates the tensor."""
        if loop is None:
            return not isinstance(value, Unknown) or isinstance(value, CallResult)
        if repeats(loop, value.loops):
            return True
        parts = value.elements() if isinstance(value, Container) else value.parents if isinstance(value, Phi) else ()
        return any(repeats(loop, item.loops) for item in parts)

    def _stays_unseen(self, trace: Trace, keep: Keep, container: Value) -> bool:
        """Whether, without a visible backward, grad mode is certainly on and the container goes nowhere else."""
        if trace.root is not None and not self._decides_itself(trace, keep):
            return False
        if isinstance(trace.receiver, Module) or (
            not isinstance(container, (Container, Phi)) and keep.how is not Keeping.ADD
        ):
            return False
        for event in trace.of_kinds(Returned, MayClear):
            if isinstance(event, Returned) and not self._absent(event.value, keep, container):
                return False
            if isinstance(event, MayClear) and container in event.handed:
                return False
        calls = (call for call in trace.of(Call) if self.model.ownership.may_go_backward(call))
        return all(self._absent(item, keep, container) for call in calls for item in call.value.parents)

    def _decides_itself(self, trace: Trace, keep: Keep) -> bool:
        """Whether a function decides about gradients: it trains, switches to `eval()`, or creates the module."""
        return bool(trace.of(Backward)) or any(
            item.has_use("eval") or item.order > trace.start > 0 for item in self._modules_behind(keep)
        )

    def _is_evaluated(self, trace: Trace, keep: Keep) -> bool:
        """Whether the stored value comes from an evaluation: a module is in that mode, or nothing trains there."""
        return not any(trace.of_kinds(Backward, Step)) or any(
            item.has_use("eval") for item in self._modules_behind(keep)
        )

    def _modules_behind(self, keep: Keep) -> Iterator[Value]:
        """The modules that computed the stored value, and their owners, except attributes of unknown objects."""
        for value in self.tracking.graph(keep.value):
            module = value.parents[0] if isinstance(value, ModuleOutput) else None
            if isinstance(value, CallResult):
                module = value.callee
            for item in inputs_of(module) if module is not None else ():
                if not isinstance(item, Attribute):
                    yield item

    def _absent(self, value: Value, keep: Keep, container: Value) -> bool:
        graph = self.tracking.graph(value)
        return container not in graph and keep.value not in graph


def _holder(keep: Keep) -> Value:
    """The container of a value: the dictionary, for a list under an unknown key."""
    drawn = keep.container
    if isinstance(drawn, Phi) and isinstance(drawn.source, Dict):
        return drawn.source
    return resolved(drawn)


def _is_kept_by_object_elsewhere(keep: Keep) -> bool:
    """Whether code of another file stores a value in an attribute, such as a meter for losses."""
    return keep.site.inner is not None and "." in keep.name


def _only_hands_on(loop: Loop | None, value: Value) -> bool:
    """Whether a loop iterates over a container, and a value is an element created before the loop."""
    return loop is not None and isinstance(value, Phi) and value.source is not None and not value.is_loop


def _is_leaf(value: Value) -> bool:
    """Whether a value ends a graph: a leaf, parameters, or a list, dictionary or selection of them."""
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


def _trains(loop: Loop, trace: Trace) -> bool:
    return any(repeats(loop, event.loops) for event in trace.of_kinds(Backward, Step))

"""Lifetimes of stored tensors: the loops, and method calls, that a container or a sum outlives."""

from __future__ import annotations

import ast

from torchlint import Model
from torchlint.model.events import Backward, Keep, Keeping, Loop, Returned, Step
from torchlint.model.lineage import left_by_iterations
from torchlint.model.program import Trace
from torchlint.model.values import (
    Answer,
    Attribute,
    Container,
    Instance,
    Module,
    Phi,
    Value,
    inputs_of,
    is_none,
    resolved,
)
from torchlint.pytorch import api, naming
from torchlint.syntax.python_ast import FUNCTIONS, Site, dotted, is_literal, names_read, site_of, walk


class Lifetimes:
    """Answers about lists, sums, dictionaries and attributes that loops add to."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.program = model.program
        self.tracking = model.tracking

    def outlived(self, keep: Keep, container: Value) -> list[Loop]:
        """The loops of which a container sees more than one iteration, the innermost first."""
        made = self._anew_in(keep, container)
        depth = len(keep.calls) if keep.local else 0
        around = [loop for loop in reversed(keep.loops) if loop not in made and loop.depth >= depth]
        first = self._begun_with_first(keep) or self._loop_of_slots(keep)
        last = next((number for number, loop in enumerate(around, 1) if loop.site == first), None)
        return [
            loop
            for loop in around[:last]
            if not self._is_one_a_phase(keep, loop)
            and not self._is_one_an_object(keep, loop)
            and not self.model.held.overwrites(keep, container, loop)
        ]

    def keeps_last_only(self, keep: Keep, container: Value) -> bool:
        """Whether an inner loop overwrites a stored value, so that one graph stays for each key."""
        return any(self.model.held.overwrites(keep, container, loop) for loop in keep.loops)

    def _anew_in(self, keep: Keep, container: Value) -> tuple[Loop, ...]:
        """The loops whose every iteration restarts a sum or another stored value, not only the first iteration."""
        begun = self._carried_past_none(keep)
        return _begun_in(keep, container) if begun is None else _loops_of(begun)

    def _carried_past_none(self, keep: Keep) -> Phi | None:
        """The sum at the start of an iteration, where `if total is None: total = 0` starts it only once."""
        met = keep.container
        carried = [item for item in met.parents if isinstance(item, Phi) and item.is_loop]
        if not isinstance(met, Phi) or met.is_loop or len(carried) != 1 or len(met.parents) != 2:
            return None
        is_set_to_none = any(map(is_none, left_by_iterations(carried[0])))
        new = next(item for item in met.parents if item is not carried[0])
        asked = (self.program.asked_before(arm) for arm in met.arms.get(new, ()))
        is_asked = any(test is not None and _asks_for_none(test, keep.name) for test in asked)
        return carried[0] if is_asked and not is_set_to_none else None

    def _begun_with_first(self, keep: Keep) -> Site | None:
        """The loop whose first iteration restarts a sum: `total = x if i == 0 else total + x`, or by `if`."""
        tree, node = self.model.tree, self.model.tree.node(keep.site)
        inner = node.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp) else node
        for around in (inner, *tree.ancestors(inner)):
            if isinstance(around, FUNCTIONS):
                break
            if isinstance(around, (ast.If, ast.IfExp)) and _begins_else(around, inner, keep.name):
                index = _first_asked(around.test)
                loop = next((item for item in tree.ancestors(around) if _counts(item, index)), None)
                if loop is not None:
                    return site_of(loop)
            inner = around
        return None

    def _loop_of_slots(self, keep: Keep) -> Site | None:
        """The loop that fills a slot in each iteration, `losses[i] = loss`: an outer loop fills the same slots."""
        tree, index = self.model.tree, self._index_of_slot(keep)
        loops = (item for item in tree.ancestors(tree.node(keep.site)) if index and isinstance(item, ast.For))
        first = index.partition(".")[0]
        loop = next((item for item in loops if first in names_read(item.target)), None)
        return site_of(loop) if loop is not None else None

    def _is_one_a_phase(self, keep: Keep, loop: Loop) -> bool:
        """`means[phase] = ...` in `for phase in ...`: an entry for training and one for validation."""
        node, index = self.model.tree.node(loop.site), self._index_of_slot(keep)
        if not isinstance(node, ast.For) or not index:
            return False
        return dotted(node.target) == index and bool(naming.PHASE.search(index))

    def _is_one_an_object(self, keep: Keep, loop: Loop) -> bool:
        """`losses[worker.name] = ...` in `for worker in workers`.

        There is one entry for each object whose methods the loop calls, or that provides a batch.
        """
        node, first = self.model.tree.node(loop.site), self._index_of_slot(keep).partition(".")[0]
        targets = names_read(node.target) if isinstance(node, ast.For) else set()
        if first not in targets:
            return False
        calls = (item for item in walk(node) if isinstance(item, ast.Call))
        return any(_is_of_object(call, targets) for call in calls)

    def _index_of_slot(self, keep: Keep) -> str:
        """The index of a slot that receives a value, `i` of `losses[i] = loss`; empty if it is not a name."""
        node = self.model.tree.node(keep.site)
        return dotted(node.slice) if isinstance(node, ast.Subscript) and keep.how is Keeping.SLOT else ""

    def outlives_call(self, trace: Trace, keep: Keep, container: Value) -> bool:
        """An attribute of the object of a method that its callers repeat, or of an object that it stores."""
        receiver = trace.receiver
        if receiver is None or trace.called or keep.loops or not isinstance(receiver, (Instance, Module)):
            return False
        if trace.root is None or trace.root.name == "__init__":
            return False
        if keep.how is Keeping.ADD and not isinstance(container, Container):
            return self._is_carried(trace, keep)
        stored = self.program.observations.stored
        owners = {receiver, *(item for (owner, _), item in stored.items() if owner is receiver)}
        return receiver in container.parents or any(
            owner in owners and value is container for (owner, _), value in stored.items()
        )

    def _is_carried(self, trace: Trace, keep: Keep) -> bool:
        """Whether a sum in an attribute continues from the previous call, and into the next one with its graph."""
        receiver, root, name = trace.receiver, trace.root, keep.name.rpartition(".")[2]
        if receiver is None or keep.calls or root is None or root.owner is None:
            return False
        if root.owner.assigned.get(name, set()) - {"__init__", root.name}:
            return False  # another method restarts it, at unknown times
        left = trace.heap.get((receiver, name))
        if left is None or self.tracking.tracked(left) is not Answer.YES or left.has_use("detach_", "backward"):
            return False
        begun = self.program.observations.stored.get((receiver, name))
        is_begun = all(item is begun or isinstance(item, Attribute) for item in inputs_of(keep.container))
        returned = (self.tracking.graph(event.value) for event in trace.of(Returned))
        return is_begun and not any(left in graph for graph in returned)


def lasts_one_step(keep: Keep, container: Value, trace: Trace) -> bool:
    """Whether each training step creates a new container."""
    made = _begun_in(keep, container)
    return any(event.loops and event.loops[-1] in made for event in trace.of_kinds(Backward, Step))


def sums_up_one_step(keep: Keep, loop: Loop, trace: Trace) -> bool:
    """Whether a loop goes backward through the parts of one step, and each step restarts its sum or list."""
    steps = trace.of(Step)
    around = keep.loops[: keep.loops.index(loop)] if loop in keep.loops else ()
    if any(loop in step.loops for step in steps):
        return False
    if not any(step.order > keep.order and step.loops == around for step in steps):
        return False
    if keep.how is Keeping.ADD:
        return _is_begun_before(keep.container, loop)
    return bool(around) and resolved(keep.container).loops == around


def _is_begun_before(total: Value, loop: Loop) -> bool:
    """Whether a sum starts right before a loop, rather than once before an outer loop."""
    return isinstance(total, Phi) and total.loop is loop and not isinstance(total.parents[0], Phi)


def _begun_in(keep: Keep, container: Value) -> tuple[Loop, ...]:
    """The loops whose every iteration restarts a sum, or another stored value."""
    return _loops_of(keep.container if keep.how is Keeping.ADD else container)


def _loops_of(value: Value) -> tuple[Loop, ...]:
    return tuple(item for item in value.loops if isinstance(item, Loop))


def _is_of_object(call: ast.Call, names: set[str]) -> bool:
    """`worker.next_batch()`, `worker.optimizer.step()`, `next(worker)`: no method of a tensor, text or dict."""
    owner, _, method = dotted(call.func).rpartition(".")
    if not owner:
        return method == "next" and any(dotted(item) in names for item in call.args)
    is_data = method in api.TENSOR_METHODS | api.PASSING_METHODS or hasattr(dict, method) or hasattr(str, method)
    return owner.partition(".")[0] in names and not is_data


def _asks_for_none(test: ast.expr, name: str) -> bool:
    """`name is None`."""
    return (
        isinstance(test, ast.Compare)
        and dotted(test.left) == name
        and isinstance(test.ops[0], ast.Is)
        and is_literal(test.comparators[0], None)
    )


def _first_asked(test: ast.expr) -> str:
    """The index that a test compares with the first: `i == 0`, `i > 0`, `i`, and their opposites."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        asked, is_first = test.comparators[0], isinstance(test.ops[0], (ast.Eq, ast.NotEq, ast.Gt))
        return dotted(test.left) if is_first and isinstance(asked, ast.Constant) and asked.value == 0 else ""
    return dotted(test)


def _counts(loop: ast.AST, index: str) -> bool:
    """Whether a loop counts from 0 with an index: over `range(n)` or `range(0, n, 2)`, or by `enumerate`."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return False
    called = dotted(loop.iter.func)
    if called == "enumerate" and isinstance(loop.target, ast.Tuple) and len(loop.iter.args) == 1:
        return dotted(loop.target.elts[0]) == index
    begin = loop.iter.args[0] if len(loop.iter.args) > 1 else None
    is_from_0 = len(loop.iter.args) == 1 or (isinstance(begin, ast.Constant) and begin.value == 0)
    return called == "range" and is_from_0 and dotted(loop.target) == index


def _begins_else(around: ast.If | ast.IfExp, inner: ast.AST, name: str) -> bool:
    """Whether the branch without a node assigns a name a value that does not depend on it."""
    if isinstance(around, ast.IfExp):
        return any(name not in names_read(arm) for arm in (around.body, around.orelse))
    return any(
        isinstance(statement, ast.Assign)
        and any(dotted(target) == name for target in statement.targets)
        and name not in names_read(statement.value)
        for statement in (around.orelse if inner in around.body else around.body)
    )

"""How long kept tensors stay: the loops, and calls of a method, that a container or a sum outlives."""

from __future__ import annotations

import ast

from torchlint import Model
from torchlint.model.events import Backward, Keep, Loop, Returned, Step
from torchlint.model.program import Trace
from torchlint.model.values import Answer, Container, Instance, Module, Phi, Unknown, Value, inputs_of, resolved
from torchlint.pytorch import naming
from torchlint.syntax.python_ast import dotted


class Lifetimes:
    """Answers about lists, sums, dictionaries and attributes that loops add to."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.program = model.program
        self.tracking = model.tracking

    def outlived(self, keep: Keep, container: Value) -> list[Loop]:
        """The loops of whose iterations the container sees more than one, the innermost first."""
        made = _begun_in(keep, container)
        depth = len(keep.calls) if keep.local else 0
        around = [loop for loop in reversed(keep.loops) if loop not in made and loop.depth >= depth]
        return [loop for loop in around if not self._is_one_a_phase(keep, loop)]

    def _is_one_a_phase(self, keep: Keep, loop: Loop) -> bool:
        """`means[phase] = ...` in `for phase in ...`: an entry for training and one for validation."""
        node, slot = self.model.tree.node(loop.site), self.model.tree.node(keep.site)
        if not isinstance(node, ast.For) or not isinstance(slot, ast.Subscript) or keep.how != "slot":
            return False
        name = dotted(node.target)
        return name == dotted(slot.slice) != "" and bool(naming.PHASE.search(name))

    def outlives_call(self, trace: Trace, keep: Keep, container: Value) -> bool:
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


def lasts_one_step(keep: Keep, container: Value, trace: Trace) -> bool:
    """Whether a container is made anew for each step of training."""
    made = _begun_in(keep, container)
    return any(event.loops and event.loops[-1] in made for event in trace.of_kinds(Backward, Step))


def sums_up_one_step(keep: Keep, loop: Loop, trace: Trace) -> bool:
    """Whether a loop goes backward through the parts of one step, and a sum or list begins anew with the next step."""
    steps = trace.of(Step)
    around = keep.loops[: keep.loops.index(loop)] if loop in keep.loops else ()
    if any(loop in step.loops for step in steps):
        return False
    if not any(step.order > keep.order and step.loops == around for step in steps):
        return False
    if keep.how == "add":
        return _is_begun_before(keep.container, loop)
    return bool(around) and resolved(keep.container).loops == around


def _is_begun_before(total: Value, loop: Loop) -> bool:
    """Whether a sum begins anew right before a loop, rather than once before a loop around it."""
    return isinstance(total, Phi) and total.loop is loop and not isinstance(total.parents[0], Phi)


def _begun_in(keep: Keep, container: Value) -> tuple[Loop, ...]:
    """The loops in each of whose iterations a sum, or what else is kept, begins anew."""
    made = keep.container if keep.how == "add" else container
    return tuple(item for item in made.loops if isinstance(item, Loop))

"""Where to clear the gradients that nobody clears."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.edits import Append, Change, InsertAfter, InsertBefore
from torchlint.model.assignments import names_read
from torchlint.model.events import Clear, Loop, Step
from torchlint.model.program import Program
from torchlint.model.protocol import Protocol, StaleGradients
from torchlint.model.tracking import modules_of
from torchlint.model.values import Answer, resolved
from torchlint.syntax import walk


class Clearings:
    """Answers about the clearings that are missing."""

    def __init__(self, program: Program, protocol: Protocol) -> None:
        self.program = program
        self.protocol = protocol
        self.tree = program.tree

    def name(self, step: Step) -> str:
        """What the program calls the optimizer of a step: `opts["main"]`, where it is an element of something."""
        return self.tree.code(step.expression) if isinstance(step.expression, cst.Subscript) else step.name

    def statement(self, stale: StaleGradients) -> str | None:
        """What clears the gradients: as the function does it already, or the optimizer's own method; None where it
        is not known to have one."""
        step = stale.step
        if (used := self._used_already(stale)) is not None:
            return self.tree.code(used.node)
        if step.manual or step.expression is None or not self.protocol.can_clear(step):
            return None
        return f"{self.tree.code(step.expression)}.zero_grad()"

    def change(self, stale: StaleGradients) -> Change | None:
        """The clearing that is missing between two steps; None where its place or its words cannot be told."""
        step = stale.step
        if step.manual:
            return self._after_update(step)
        if (uncalled := self._uncalled(step)) is not None:
            return Change(f"call `{self.tree.code(uncalled)}`", [Append(uncalled, "()")])
        statement = self.statement(stale)
        if statement is None:
            return None
        if (forward := self._forward(stale)) is not None:
            return Change(f"insert `{statement}` before the forward pass", [InsertBefore(forward, statement)])
        if step.node in stale.backward.calls or not self._is_statement(step.node):
            return None
        return Change(f"insert `{statement}` after the step", [InsertAfter(step.node, statement)])

    def _used_already(self, stale: StaleGradients) -> Clear | None:
        """A clearing by a call in the function of the step, in a loop around this one or in none, that clears the
        same gradients and can be repeated in this one."""
        function = self._function(stale.step.node)
        for event in self.protocol.clearings_of(resolved(stale.step.optimizer)):
            around = stale.backward.loops[: len(event.loops)]
            if event.explicit and event.loops == around and self._function(event.node) is function:
                if self._is_for(event, stale) and self._can_be_repeated(event.node, stale.loop):
                    return event
        return None

    def _is_for(self, clear: Clear, stale: StaleGradients) -> bool:
        """Whether a clearing is one of the gradients of the step: known to be, or of the only module that the loss
        goes through."""
        if self.protocol.clears(clear.target, resolved(stale.step.optimizer)) is Answer.YES:
            return True
        modules = set(modules_of(self.protocol.tracking.graph(stale.backward.loss)))
        return clear.target is not None and modules == {resolved(clear.target)}

    def _can_be_repeated(self, call: cst.CSTNode, loop: Loop | None) -> bool:
        """Whether a call is a statement of one line, and its names mean the same in a loop."""
        changed = self.program.definitions.assigned_names(loop.node) if loop is not None else set()
        return (
            self.tree.stands_alone(call) and changed.isdisjoint(names_read(call)) and "\n" not in self.tree.code(call)
        )

    def _uncalled(self, step: Step) -> cst.Attribute | None:
        """`optimizer.zero_grad` without brackets, in the function of the step."""
        name = self.tree.code(step.expression) if step.expression is not None else None
        for statement in self.tree.of_type(cst.Expr):
            found = statement.value
            if (
                isinstance(found, cst.Attribute)
                and found.attr.value == "zero_grad"
                and self.tree.code(found.value) == name
                and self._function(found) is self._function(step.node)
            ):
                return found
        return None

    def _forward(self, stale: StaleGradients) -> cst.CSTNode | None:
        """With what the forward pass of the loss begins, in the block of `backward`.

        The step that follows must be in that block too, or call the function that has it as its closure; the one
        before must not come between, and what clears must be known there by the names that the step uses.
        """
        block = self.tree.block(stale.backward.node)
        names = _names_of(stale.step.expression)
        if not names or not isinstance(block, (cst.IndentedBlock, cst.Module)):
            return None
        statements: list[cst.CSTNode] = list(block.body)
        last = statements.index(self.tree.statement(stale.backward.node))
        if self.tree.block(stale.following.node) is block:
            until = statements.index(self.tree.statement(stale.following.node))
        elif self._is_closure_of(block, stale.following.node):
            until = last
        else:
            return None
        first = next((index for index, item in enumerate(statements[:last]) if item in self._makers(stale)), last)
        if until < last or not names.isdisjoint(self.program.definitions.names_assigned(statements[first:until])):
            return None
        if self.tree.statement(stale.step.node) in statements[first:last]:
            return None
        return statements[first]

    def _makers(self, stale: StaleGradients) -> set[cst.CSTNode]:
        """The statements that make the graph of the loss, and those that hold them."""
        graph = self.protocol.tracking.graph(stale.backward.loss, carried=False)
        made = [value.node for value in graph if value.node is not None]
        return {item for node in made for item in self.tree.ancestors(node)}

    def _is_closure_of(self, block: cst.CSTNode, step: cst.CSTNode) -> bool:
        """Whether a block is the body of a function that the step is handed, defined beside it."""
        function = self.tree.parent(block)
        if not isinstance(function, cst.FunctionDef) or not isinstance(step, cst.Call):
            return False
        handed = any(isinstance(item.value, cst.Name) and item.value.value == function.name.value for item in step.args)
        return handed and self._function(function) is self._function(step)

    def _function(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return next((item for item in self.tree.ancestors(node) if isinstance(item, cst.FunctionDef)), None)

    def _is_statement(self, step: cst.CSTNode) -> bool:
        """Whether the step always happens when its statement does: `step()`, or `loss = step(closure)`."""
        parent = self.tree.parent(step)
        return isinstance(parent, cst.Expr) or (isinstance(parent, cst.Assign) and parent.value is step)

    def _after_update(self, step: Step) -> Change | None:
        """`w.grad = None` after each update of the block, unless something below still reads the gradient."""
        block = self.tree.block(step.node)
        if not isinstance(block, (cst.IndentedBlock, cst.Module)):
            return None
        updates = {item.node: item.name for item in self._updates() if self.tree.block(item.node) is block}
        if any(self._reads_below(node, name, block) for node, name in updates.items()):
            return None
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(updates.values()))
        inserts = [InsertAfter(node, f"{name}.grad = None") for node, name in updates.items()]
        return Change(f"clear the gradient of {names} after the update", inserts)

    def _updates(self) -> Iterator[Step]:
        for trace in self.program.traces:
            yield from (event for event in trace.events if isinstance(event, Step) and event.manual)

    def _reads_below(self, update: cst.CSTNode, name: str, block: cst.IndentedBlock | cst.Module) -> bool:
        statements: list[cst.CSTNode] = list(block.body)
        below = statements[statements.index(self.tree.statement(update)) + 1 :]
        return any(f"{name}.grad" in self.tree.code(statement) for statement in below)


def _names_of(expression: cst.BaseExpression | None) -> set[str]:
    """The names that an optimizer is found by: `self` of `self.optimizer`, both of `optimizers[i]`; none where a
    call gives it."""
    inside = list(walk(expression)) if expression is not None else []
    if any(isinstance(item, cst.Call) for item in inside):
        return set()
    return {item.value for item in inside if isinstance(item, cst.Name)}

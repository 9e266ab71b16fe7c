"""Where to clear the gradients that nobody clears."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.edits import Append, Change, InsertAfter, InsertBefore
from torchlint.matching import Nodes
from torchlint.model import Model
from torchlint.model.events import Step
from torchlint.model.protocol import StaleGradients
from torchlint.syntax import walk


class MissingClear:
    """Looks for the place of a clearing that is missing."""

    def __init__(self, model: Model, nodes: Nodes) -> None:
        self.program = model.program
        self.protocol = model.protocol
        self.nodes = nodes
        self.tree = nodes.tree

    def change(self, stale: StaleGradients) -> Change | None:
        """The clearing that is missing between two steps; None where its place cannot be told."""
        step = stale.step
        if step.manual:
            return self._after_update(step)
        written, expression = self.nodes.at(step.site), self.nodes.at(step.expression)
        if written is None or expression is None or not self.protocol.can_clear(step):
            return None
        name = self.tree.code(expression)
        if (uncalled := self._uncalled(name, written)) is not None:
            return Change(f"call `{name}.zero_grad`", [Append(uncalled, "()")])
        statement = f"{name}.zero_grad()"
        if (forward := self._forward(stale, expression)) is not None:
            return Change(f"insert `{statement}` before the forward pass", [InsertBefore(forward, statement)])
        if step.site in stale.backward.calls or not self._is_statement(written):
            return None
        return Change(f"insert `{statement}` after the step", [InsertAfter(written, statement)])

    def _uncalled(self, name: str, step: cst.CSTNode) -> cst.Attribute | None:
        """`optimizer.zero_grad` without brackets, in the function of the step."""
        for statement in self.tree.of_type(cst.Expr):
            found = statement.value
            if (
                isinstance(found, cst.Attribute)
                and found.attr.value == "zero_grad"
                and self.tree.code(found.value) == name
                and self._function(found) is self._function(step)
            ):
                return found
        return None

    def _forward(self, stale: StaleGradients, optimizer: cst.BaseExpression) -> cst.CSTNode | None:
        """With what the forward pass of the loss begins, in the block of `backward`.

        The step must be in that block too, or call the function that has it as its closure, and the optimizer
        must be known there by the name that the step uses.
        """
        backward, step = self.nodes.at(stale.backward.site), self.nodes.at(stale.step.site)
        block = self.tree.block(backward) if backward is not None else None
        root = _root_name(optimizer)
        if root is None or step is None or backward is None or not isinstance(block, (cst.IndentedBlock, cst.Module)):
            return None
        statements: list[cst.CSTNode] = list(block.body)
        last = statements.index(self.tree.statement(backward))
        if self.tree.block(step) is block:
            until = statements.index(self.tree.statement(step))
        elif self._is_closure_of(block, step):
            until = last
        else:
            return None
        makers = self._makers(stale)
        first = next((index for index, item in enumerate(statements[:last]) if item in makers), last)
        if until < last or any(root in _names_bound(item) for item in statements[first:until]):
            return None
        return statements[first]

    def _makers(self, stale: StaleGradients) -> set[cst.CSTNode]:
        """The statements that make the graph of the loss, and those that hold them."""
        graph = self.protocol.tracking.graph(stale.backward.loss, carried=False)
        made = [self.nodes.at(value.site) for value in graph]
        return {item for node in made if node is not None for item in self.tree.ancestors(node)}

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
        written = self.nodes.at(step.site)
        block = self.tree.block(written) if written is not None else None
        if not isinstance(block, (cst.IndentedBlock, cst.Module)):
            return None
        placed = ((self.nodes.at(item.site), item.name) for item in self._updates())
        updates = {node: name for node, name in placed if node is not None and self.tree.block(node) is block}
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


def _names_bound(statement: cst.CSTNode) -> set[str]:
    """The names that a statement, or anything inside of it, binds."""
    targets = (item for item in walk(statement) if isinstance(item, _BINDING))
    return {
        name.value
        for target in targets
        for name in walk(target.name if isinstance(target, cst.AsName) else target.target)
        if isinstance(name, cst.Name)
    }


_BINDING = (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr, cst.AsName)


def _root_name(expression: cst.BaseExpression) -> str | None:
    """`self` of `self.optimizer`; None of anything but names and attributes."""
    while isinstance(expression, cst.Attribute):
        expression = expression.value
    return expression.value if isinstance(expression, cst.Name) else None

"""Where to clear the gradients that nobody clears."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Protocol

import libcst as cst

from torchlint.model import Model
from torchlint.model.events import Backward, Step
from torchlint.syntax.edits import Change, InsertAfter, InsertBefore
from torchlint.syntax.matching import Nodes
from torchlint.syntax.python_ast import FUNCTIONS, arguments, site_of, walk


class UnclearedStep(Protocol):
    """What a repair has to know of gradients that are not cleared: the answer of a rule has it."""

    @property
    def backward(self) -> Backward:
        """The pass that adds to gradients which a step has used."""

    @property
    def step(self) -> Step:
        """That step."""

    @property
    def following(self) -> Step:
        """The step that takes them again."""


class MissingClear:
    """Looks for the place of a clearing that is missing."""

    def __init__(self, model: Model, nodes: Nodes, statement: str | None) -> None:
        """`statement` clears, if one is known."""
        self.statement = statement
        self.program = model.program
        self.tracking = model.tracking
        self.python = nodes.python
        self.nodes = nodes
        self.tree = nodes.tree

    def change(self, stale: UnclearedStep) -> Change | None:
        """The clearing that is missing between two steps; None where its place or its words cannot be told."""
        step = stale.step
        if step.manual:
            return self._after_update(step)
        statement = self.statement
        if statement is None:
            return None
        if (forward := self._forward(stale)) is not None:
            return Change(f"insert `{statement}` before the forward pass", [InsertBefore(forward, statement)])
        written = self.nodes.at(step.site)
        if written is None or step.site in stale.backward.calls or not self._is_statement(written):
            return None
        return Change(f"insert `{statement}` after the step", [InsertAfter(written, statement)])

    def _forward(self, stale: UnclearedStep) -> cst.CSTNode | None:
        """With what the forward pass of the loss begins, in the block of `backward`.

        The step that follows must be in that block too, or call the function that has it as its closure; the one
        before must not come between, and what clears must be known there by the names that the step uses.
        """
        backward, following = self.python.node(stale.backward.site), self.python.node(stale.following.site)
        block = self.python.block(backward)
        last = block.index(self.python.statement(backward))
        until = self._place_of_step(block, following, last)
        makers = self._makers(stale)
        first = next((index for index, item in enumerate(block[:last]) if item in makers), last)
        if until < last or not self._is_known_before(block[first:until], stale.step):
            return None
        if self.python.statement(self.python.node(stale.step.site)) in block[first:last]:
            return None
        forward: cst.CSTNode | None = self.nodes.at(site_of(block[first]))
        return forward

    def _place_of_step(self, block: list[ast.AST], step: ast.AST, last: int) -> int:
        """Where in a block a step is made, `last` where it is handed the function with that block; else nowhere: -1."""
        statement = self.python.statement(step)
        if statement in block:
            return block.index(statement)
        return last if self._is_closure_of(block, step) else -1

    def _makers(self, stale: UnclearedStep) -> set[ast.AST]:
        """The statements that make the graph of the loss, and those that hold them."""
        graph = self.tracking.graph(stale.backward.loss, carried=False)
        made = [self.python.node(value.site) for value in graph if value.site is not None]
        return {item for node in made for item in self.python.ancestors(node)}

    def _is_known_before(self, statements: list[ast.AST], step: Step) -> bool:
        """Whether the names that the optimizer of a step is found by mean the same before some statements."""
        names = self._names_of(step)
        return bool(names) and names.isdisjoint(self.program.definitions.names_assigned(statements))

    def _names_of(self, step: Step) -> set[str]:
        """The names that an optimizer is found by: `self` of `self.optimizer`, both of `optimizers[i]`; none where a
        call gives it."""
        inside = list(walk(self.python.node(step.expression))) if step.expression is not None else []
        if any(isinstance(item, ast.Call) for item in inside):
            return set()
        return {item.id for item in inside if isinstance(item, ast.Name)}

    def _is_closure_of(self, block: list[ast.AST], step: ast.AST) -> bool:
        """Whether a block is the body of a function that the step is handed, defined beside it."""
        function = self.python.parent(block[0])
        if not isinstance(function, FUNCTIONS) or not isinstance(step, ast.Call):
            return False
        handed = any(isinstance(item, ast.Name) and item.id == function.name for item in arguments(step))
        return handed and self.python.function_around(function) is self.python.function_around(step)

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

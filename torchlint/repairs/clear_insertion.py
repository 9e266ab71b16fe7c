"""The place to clear gradients that are never cleared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from torchlint.model import Model
from torchlint.model.events import Backward, Event, GradRead, Item, Step, events_in
from torchlint.model.program import Trace
from torchlint.model.relations.gradients.stale import StaleGradients
from torchlint.model.values import Answer, Value, resolved
from torchlint.repairs.skipped_steps import Reason, SkippedSteps
from torchlint.repairs.tried_clearing import TriedClearing
from torchlint.syntax.edits import Change, InsertAfter, InsertBefore
from torchlint.syntax.matching import Nodes
from torchlint.syntax.python_ast import FUNCTIONS, arguments, children, dotted, site_of, walk


class MissingClear:
    """Looks for the place of a clearing that is missing: none that would leave, or lose, gradients on some path."""

    def __init__(self, model: Model, nodes: Nodes, statement: str | None, target: Value | None) -> None:
        """`statement` clears the gradients of `target`, if one is known; None: of the optimizer of the step."""
        self.statement = statement
        self.target = target
        self.model = model
        self.program = model.program
        self.ownership = model.ownership
        self.tracking = model.tracking
        self.python = nodes.python
        self.nodes = nodes
        self.tree = nodes.tree

    def change(self, stale: StaleGradients) -> Change | None:
        """The clearing that is missing between two steps; None if its place or its text is unknown."""
        reasons, statement = self._reasons(stale), self.statement
        if self._is_in_lambda(stale.backward):
            return None
        if stale.step.manual:
            return self._after_update(stale.step) if reasons <= _ADDING else None
        if statement is None:
            return None
        if reasons <= _REFUSING and (forward := self._forward(stale)) is not None:
            return Change(f"insert `{statement}` before the forward pass", [InsertBefore(forward, statement)])
        written = self.nodes.at(stale.step.site)
        if written is None or stale.step.site in stale.backward.calls or not self._is_statement(written):
            return None
        if not reasons <= _ADDING or not self._is_right(stale, stale.step):
            return None
        return Change(f"insert `{statement}` after the step", [InsertAfter(written, statement)])

    def _is_in_lambda(self, backward: Backward) -> bool:
        """Whether a step calls an expression that goes backward, perhaps many times: no statement fits in between."""
        node = self.model.tree.own_node(backward.site)
        return node is not None and any(isinstance(item, ast.Lambda) for item in self.model.tree.ancestors(node))

    # -- what a clearing would do -----------------------------------------------------------------------

    def _reasons(self, stale: StaleGradients) -> set[Reason]:
        """Why an iteration that goes backward may not step; empty where all of them step."""
        steps, is_by_hand = (stale.step, stale.following), stale.step.manual
        skipped = SkippedSteps(self.model, stale.backward, stale.loop)
        if is_by_hand and not skipped.conditions(steps):
            return set()
        if not is_by_hand and not self._tried(stale).outcome(resolved(stale.step.optimizer), None).skips:
            return set()
        return skipped.reasons(steps)

    def _is_right(self, stale: StaleGradients, place: Backward | Step) -> bool:
        """Whether a clearing leaves nothing that the step has used, and takes nothing that is still to be used: neither
        of its optimizer nor of another one."""
        optimizer, tried = resolved(stale.step.optimizer), self._tried(stale)
        own = tried.outcome(optimizer, place)
        if own.takes_used or own.takes_foreign or own.loses_fresh or own.is_read:
            return False
        if own.steps_on_none and place is stale.backward:
            return False
        outcomes = (tried.outcome(item, place) for item in self._also_cleared(stale))
        return not any(outcome.loses_fresh or outcome.loses_old for outcome in outcomes)

    def _also_cleared(self, stale: StaleGradients) -> list[Value]:
        """The other optimizers whose gradients may go with these."""
        optimizer = resolved(stale.step.optimizer)
        cleared = self.target if self.target is not None else optimizer
        others = (item for item in self.ownership.optimizers(self._trace(stale)) if item is not optimizer)
        return [item for item in others if self.ownership.clears(cleared, item) is not Answer.NO]

    def _tried(self, stale: StaleGradients) -> TriedClearing:
        return TriedClearing(self.ownership, self._items(stale), stale.loop, stale.step)

    def _items(self, stale: StaleGradients) -> list[Item]:
        """Changes of gradients in an iteration."""
        return self.ownership.touching(stale.loop or self._trace(stale))

    def _trace(self, stale: StaleGradients) -> Trace:
        return next(trace for trace in self.program.traces if stale.backward in trace.events)

    # -- before the forward pass ------------------------------------------------------------------------

    def _forward(self, stale: StaleGradients) -> cst.CSTNode | None:
        """With what the forward pass of the loss begins, in the block of `backward`, if that is a place to clear at.

        What clears must be known there by the names that the step uses.
        """
        block, first, last = self._from_forward_to_backward(stale)
        if not self._is_closure_of(block, self.python.node(stale.following.site)):
            if not self._is_right(stale, stale.backward) or self._uses_gradients(block[first:last], stale):
                return None
        if not self._is_known_at(block[first], stale):
            return None
        forward: cst.CSTNode | None = self.nodes.at(site_of(block[first]))
        return forward

    def _from_forward_to_backward(self, stale: StaleGradients) -> tuple[list[ast.AST], int, int]:
        """A block of statements, and the numbers of those in it that begin the forward pass and go backward.

        The block of `backward`, or the one around a `with` that holds nothing of the forward pass.
        """
        makers, node = self._makers(stale), self.python.node(stale.backward.site)
        while True:
            statement, block = self.python.statement(node), self.python.block(node)
            last = block.index(statement)
            first = next((index for index, item in enumerate(block[:last]) if item in makers), last)
            around = self.python.parent(statement)
            if first < last or not isinstance(around, (ast.With, ast.AsyncWith)):
                return block, first, last
            node = around

    def _makers(self, stale: StaleGradients) -> set[ast.AST]:
        """The statements that make the graph of the loss, and those that hold them."""
        graph = self.tracking.graph(stale.backward.loss, carried=False)
        made = [self.python.node(value.site) for value in graph if value.site is not None]
        return {item for node in made for item in self.python.ancestors(node)}

    def _uses_gradients(self, statements: list[ast.AST], stale: StaleGradients) -> bool:
        """Whether statements of the iteration give, take or read gradients that a clearing before them would take."""
        inside = {node for statement in statements for node in walk(statement)}
        optimizers = [resolved(stale.step.optimizer), *self._also_cleared(stale)]
        using = (event for event in events_in(self._items(stale)) if self._uses(event, optimizers))
        return any(self.python.node(site) in inside for event in using for site in (*event.calls, event.site))

    def _uses(self, event: Event, optimizers: list[Value]) -> bool:
        if isinstance(event, Backward):
            return any(self.ownership.reaches(event, item) for item in optimizers)
        return isinstance(event, GradRead) or (isinstance(event, Step) and resolved(event.optimizer) in optimizers)

    def _is_known_at(self, first: ast.AST, stale: StaleGradients) -> bool:
        """Whether the names that the optimizer of a step is found by mean the same at a statement before it."""
        names, step = self._names_of(stale.step), self.python.node(stale.following.site)
        function = self.python.function_around(first)
        is_near = function is self.python.function_around(step)
        if not names or not (is_near or self._is_closure_of(self.python.block(first), step)):
            return False
        begin, until = _line(first), max(_line(step), stale.backward.site.written.line)
        between = [node for node in _statements_in(function or self.python.module) if begin <= node.lineno <= until]
        inner = {item for node in between for item in children(node)}
        between = [node for node in between if node not in inner]
        return names.isdisjoint(self.program.definitions.names_assigned(between))

    def _names_of(self, step: Step) -> set[str]:
        """The names that an optimizer is found by: `self` of `self.optimizer`, both of `optimizers[i]`; none where a
        call gives it."""
        inside = list(walk(self.python.node(step.expression))) if step.expression is not None else []
        if any(isinstance(item, ast.Call) for item in inside):
            return set()
        return {item.id for item in inside if isinstance(item, ast.Name)}

    def _is_closure_of(self, block: list[ast.AST], step: ast.AST) -> bool:
        """Whether a block is the body of a function beside the step that the step receives."""
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
        placed = [(self.nodes.at(item.site), item) for item in self._updates()]
        updates = {node: item for node, item in placed if node is not None and self.tree.block(node) is block}
        if any(map(self._is_read_below, updates.values())):
            return None
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(item.name for item in updates.values()))
        inserts = [InsertAfter(node, f"{item.name}.grad = None") for node, item in updates.items()]
        return Change(f"clear the gradient of {names} after the update", inserts)

    def _updates(self) -> Iterator[Step]:
        for trace in self.program.traces:
            yield from (event for event in trace.events if isinstance(event, Step) and event.manual)

    def _is_read_below(self, update: Step) -> bool:
        """Whether the function reads, below an update by hand, the gradient that was used."""
        function = self.python.function_around(self.python.node(update.site))
        last = _last_reads_in(function or self.python.module).get(f"{update.name}.grad", 0)
        return last > update.site.written.end_line


_ADDING = {Reason.ACCUMULATION, Reason.CONSTANT}
"""Reasons to leave a step out that let gradients stay until there is one."""
_REFUSING = {Reason.REFUSAL, Reason.CONSTANT}
"""Reasons to leave a step out after which the gradients are of no use."""


@lru_cache(maxsize=4)
def _last_reads_in(scope: ast.AST) -> dict[str, int]:
    """The last line in which a function, or the module, names each gradient."""
    grads = (item for item in walk(scope) if isinstance(item, ast.Attribute) and item.attr == "grad")
    return dict(sorted(((dotted(item), _line(item)) for item in grads), key=_by_line))


@lru_cache(maxsize=4)
def _statements_in(scope: ast.AST) -> list[ast.stmt]:
    """The statements in a function, or in the module."""
    return [node for node in walk(scope) if isinstance(node, ast.stmt)]


def _by_line(named: tuple[str, int]) -> int:
    return named[1]


def _line(node: ast.AST) -> int:
    return site_of(node).written.line

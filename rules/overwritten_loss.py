"""Losses that another value replaces before anything uses them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import callees, loss_calls, variables
from torchlint.pytorch import triggers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.syntax.python_ast import Site

_BACKWARD = "backward"
_STEPS = frozenset({"training_step", "compute_loss"})
"""Methods whose result a framework sends backward."""


class Overwritten(NamedTuple):
    """The loss of `name`, computed at `site`, is replaced at `store`, and nothing reads it in between."""

    site: Site
    store: Site
    name: str


class OnlyLast(NamedTuple):
    """A loop replaces the loss of `name` at `site` in each iteration, and only the last one goes `backward`."""

    site: Site
    backward: Site
    name: str


class OverwrittenLoss(Rule):
    """A loss is overwritten by another one before anything uses it.

    ## What it does
    Finds a variable that gets a loss, and then another value before anything reads the loss. The code then calls
    `backward` on the variable. Also finds a loop that overwrites the variable in each iteration, so that `backward`
    after the loop uses only the last loss.

    ## Why is this bad?
    Nothing learns from the first loss: the program trains as if the line were not there. Usually a sum was meant:
    `loss = loss + ...` or `loss += ...`.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y, soft in loader:
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss = F.kl_div(out.log_softmax(1), soft, reduction="batchmean")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y, soft in loader:
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss = loss + F.kl_div(out.log_softmax(1), soft, reduction="batchmean")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```
    """

    code = "TL161"
    category = Category.CORRECTNESS
    triggers = ((*triggers.BACKWARD, b"training_step", b"compute_loss"), (b"loss", b"Loss", b"cross_entropy"))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward or index.has_word(tuple(item.encode() for item in _STEPS))

    def ask(self) -> Iterator[Overwritten | OnlyLast]:
        for store in self.model.tree.of_type(ast.Assign) if not self.model.is_test else ():
            target = store.targets[0]
            if not isinstance(target, ast.Name) or len(store.targets) > 1:
                continue
            if loss_calls.is_loss(store.value, self.model) and self._is_private(target):
                yield from self._overwritten(store, target)
                yield from self._only_last(store, target)

    @cached_property
    def _private(self) -> dict[tuple[ast.AST, str], bool]:
        """For each variable of a scope, whether only the statements of one function read and set it; cached."""
        return {}

    def _is_private(self, name: ast.Name) -> bool:
        """Whether only the statements of one function, or of a module, read and set a variable."""
        definitions = self.model.definitions
        scope = self.model.tree.scope_around(name)
        if (scope, name.id) not in self._private:
            same = [item for item in python_ast.walk(scope) if isinstance(item, ast.Name) and item.id == name.id]
            around = definitions.function_around(name)
            is_local = all(definitions.function_around(item) is around for item in same)
            is_known = not variables.is_shared(name.id, definitions) and not callees.reads_by_text(scope, definitions)
            self._private[scope, name.id] = is_local and is_known
        return self._private[scope, name.id]

    def _overwritten(self, store: ast.Assign, target: ast.Name) -> Iterator[Overwritten]:
        """The assignment that surely follows and replaces an unread loss."""
        for statement in self._following(store):
            if _reads(statement, target.id):
                return
            if _sets(statement, target.id):
                is_plain = isinstance(statement, (ast.Assign, ast.AnnAssign))
                if is_plain and self._is_used(target.id, statement) and not self._is_alike(store, statement):
                    yield Overwritten(python_ast.site_of(store), python_ast.site_of(statement), target.id)
                return

    def _following(self, node: ast.AST) -> Iterator[ast.stmt]:
        """The statements that surely run after a node, in its block and after the `with` blocks around it."""
        statement = node
        while True:
            yield from _flat(self.model.tree.after(statement))
            around = self.model.tree.parent(self.model.tree.statement(statement))
            if not isinstance(around, (ast.With, ast.AsyncWith)):
                return
            statement = around

    def _is_alike(self, store: ast.Assign, other: ast.stmt) -> bool:
        """Whether both assignments compute the same: then the first is only a needless copy."""
        value = getattr(other, "value", None)
        return value is not None and python_ast.written_alike(store.value, value)

    def _is_used(self, name: str, after: ast.stmt) -> bool:
        """Whether the value of a variable later goes backward, or a training step returns it."""
        return next(self._uses(name, after), None) is not None

    def _uses(self, name: str, after: ast.stmt) -> Iterator[ast.AST]:
        scope = self.model.tree.scope_around(after)
        is_step = getattr(scope, "name", "") in _STEPS
        for node in python_ast.walk(scope):
            if getattr(node, "lineno", 0) < after.lineno:
                continue
            is_pass = isinstance(node, ast.Call) and python_ast.called_name(node) == _BACKWARD
            if (is_pass or (is_step and isinstance(node, ast.Return))) and name in _names(node):
                yield node

    # -- loops ---------------------------------------------------------------------------------------------

    def _only_last(self, store: ast.Assign, target: ast.Name) -> Iterator[OnlyLast]:
        """A loop that computes a loss for each element in turn, before the last one goes backward."""
        loop = self.model.tree.loop_around(store)
        if not isinstance(loop, ast.For) or store not in list(_flat(loop.body)) or loop.orelse:
            return
        over = python_ast.names_bound(loop.target)
        nodes = [node for item in loop.body for node in python_ast.walk(item)]
        if over.isdisjoint(self._inputs(store, loop)) or self._is_carried(loop) or any(map(_may_leave, nodes)):
            return
        if any(_reads(item, target.id) for item in loop.body) or sum(_sets(item, target.id) for item in loop.body) > 1:
            return
        for statement in self._following(loop):
            inside = set(python_ast.walk(statement))
            used = next((node for node in self._uses(target.id, statement) if node in inside), None)
            if used is not None:
                yield OnlyLast(python_ast.site_of(store), python_ast.site_of(used), target.id)
            if used is not None or _sets(statement, target.id):
                return

    def _inputs(self, store: ast.Assign, loop: ast.For) -> set[str]:
        """The variables from which an iteration computes its loss."""
        found = _names(store.value)
        for statement in reversed(list(_flat(loop.body))):
            if isinstance(statement, ast.Assign) and any(_sets(statement, name) for name in found):
                found |= _names(statement.value)
        return found

    def _is_carried(self, loop: ast.For) -> bool:
        """Whether an iteration may change what a later one computes: by a variable, an element or an attribute."""
        inside = [node for item in loop.body for node in python_ast.walk(item)]
        stores = [node for node in inside if isinstance(getattr(node, "ctx", None), ast.Store)]
        if any(isinstance(node, (ast.Attribute, ast.Subscript)) for node in stores):
            return True
        bound = {node.id for node in stores if isinstance(node, ast.Name)}
        fresh: set[str] = set()
        for statement in _flat(loop.body):
            if not bound.isdisjoint(_loads(statement) - fresh):
                return True
            fresh |= {name for name in bound if _sets(statement, name)}
        return False

    def report_Overwritten(self, found: Overwritten) -> None:
        self.report(
            found.site,
            f"`{found.name}` is overwritten before anything uses it: no parameter learns from this loss",
            related=[(found.store, "the next loss replaces it here")],
            help=f"add both losses: `{found.name} = {found.name} + ...`",
        )

    def report_OnlyLast(self, found: OnlyLast) -> None:
        self.report(
            found.site,
            f"each iteration overwrites `{found.name}`: only the loss of the last one goes backward",
            related=[(found.backward, "the last loss goes backward here")],
            help=f"sum the losses in the loop: `{found.name} = {found.name} + ...`",
        )


def _flat(statements: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """The statements that surely run one after the other, also those in `with` blocks."""
    for item in statements:
        if isinstance(item, (ast.With, ast.AsyncWith)):
            yield from _flat(item.body)
        elif isinstance(item, ast.stmt):
            yield item


def _names(node: ast.AST) -> set[str]:
    return {item.id for item in python_ast.walk(node) if isinstance(item, ast.Name)}


def _loads(node: ast.AST) -> set[str]:
    return {item.id for item in python_ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load)}


def _reads(statement: ast.AST, name: str) -> bool:
    """Whether a statement reads or deletes a variable; `loss += 1` reads it."""
    for node in python_ast.walk(statement):
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Store):
            return True
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return True
    return False


def _sets(statement: ast.AST, name: str) -> bool:
    nodes = python_ast.walk(statement)
    return any(isinstance(item, ast.Name) and item.id == name and isinstance(item.ctx, ast.Store) for item in nodes)


def _may_leave(node: ast.AST) -> bool:
    """Whether a statement may end an iteration early, or something else trains in it."""
    is_pass = isinstance(node, ast.Call) and python_ast.called_name(node) in (_BACKWARD, "step", "append")
    return is_pass or isinstance(node, (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.Await))

"""Scores of an evaluation that contain only the last batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

from . import _after_loop as after_loop
from . import _written_sums as written_sums

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_OFF = frozenset({"no_grad", "inference_mode", "eval"})


class LastScore(NamedTuple):
    """Each batch sets `name` at `site`, and `use` takes it as the score of all batches."""

    site: Site
    use: Site
    name: str
    is_reset: bool
    """Whether each batch sets a sum back to 0. Otherwise each batch overwrites the score."""


class LastBatchScore(Rule):
    """The score of an evaluation covers only its last batch.

    ## What it does
    Finds loops over a loader after which the code uses a number of the last batch:

    - a loss or accuracy that each batch of an evaluation overwrites, and that the code returns or compares with a best
      score after the loop;
    - a sum that each batch sets to 0 and that is divided after the loop.

    ## Why is this bad?
    The last batch is small and random. It decides which weights are the best and when training stops, and the reported
    score is the score of a few samples.

    ## Example
    ```python
    import torch

    @torch.no_grad()
    def evaluate(model, loader, criterion):
        for x, y in loader:
            loss = criterion(model(x), y)
        return loss.item()
    ```

    Use instead:
    ```python
    import torch

    @torch.no_grad()
    def evaluate(model, loader, criterion):
        total, count = 0.0, 0
        for x, y in loader:
            total += criterion(model(x), y).item() * len(x)
            count += len(x)
        return total / count
    ```
    """

    code = "TL634"
    category = Category.SUSPICIOUS
    triggers = ((b"for ",), (b"torch",), (b"no_grad", b"inference_mode", b"eval", b"+="))

    def ask(self) -> Iterator[LastScore]:
        for loop in [] if self.model.is_test else self.model.tree.of_type(ast.For):
            loader = written_sums.iterated(loop.iter)
            if naming.LOADER.search(loader) and not any(isinstance(item, ast.Break) for item in ast.walk(loop)):
                yield from self._in_loop(loop)

    def _in_loop(self, loop: ast.For) -> Iterator[LastScore]:
        behind = after_loop.statements(loop, self.model.tree)
        for statement in after_loop.each_iteration(loop.body) if behind else ():
            for name, value in after_loop.bound(statement):
                is_reset = after_loop.is_zero(value)
                use = next(_uses(behind, name, is_reset), None)
                if use is not None and (
                    after_loop.adds_to(name, loop) if is_reset else self._is_last(name, value, loop)
                ):
                    yield LastScore(python_ast.site_of(statement), python_ast.site_of(use), name, is_reset)

    def _is_last(self, name: str, value: ast.expr, loop: ast.For) -> bool:
        """Whether a value is the score of a batch of an evaluation, and the loop itself does not use its variable."""
        statement = self.model.tree.statement(value)
        return _is_score(value) and self._evaluates(loop) and not after_loop.is_used(name, statement, loop)

    def _evaluates(self, loop: ast.For) -> bool:
        """Whether a loop runs without gradients, or after a call of `eval`."""
        function = self.model.tree.function_around(loop)
        around = [item for item in self.model.tree.ancestors(loop) if isinstance(item, ast.With)]
        places = [item.context_expr for node in around for item in node.items]
        places += function.decorator_list if function is not None else []
        inside = list(ast.walk(loop))
        if any(isinstance(node, ast.Call) and python_ast.called_name(node) == "backward" for node in inside):
            return False
        calls = [node for place in [*places, *self.model.tree.before(loop), loop] for node in ast.walk(place)]
        return any(isinstance(node, (ast.Name, ast.Attribute)) and _last(node) in _OFF for node in calls)

    def report_LastScore(self, found: LastScore) -> None:
        how = "each batch sets it to 0" if found.is_reset else "each batch overwrites it"
        self.report(
            found.use,
            f"`{found.name}` covers only the last batch, because {how}",
            related=[(found.site, "here")],
            help="set it to 0 before the loop"
            if found.is_reset
            else "sum it over the batches, and divide by their number",
        )


def _is_score(value: ast.expr) -> bool:
    """Whether an expression is the loss or the accuracy of a batch."""
    if written_sums.matches(value) is not None:
        return True
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        return written_sums.matches(value.left) is True and written_sums.is_batch_size(value.right)
    made = written_sums.tensor_of(value)
    return (
        isinstance(made, ast.Call)
        and len(made.args) == 2
        and naming.LOSS.search(python_ast.called_name(made)) is not None
    )


def _uses(behind: list[ast.AST], name: str, is_reset: bool) -> Iterator[ast.AST]:
    """The places that use a variable as the score of all batches, before another statement binds it."""
    for statement in behind:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
                return
            if is_reset:
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and written_sums.dividend(node) == name:
                    yield node
            elif isinstance(node, ast.Return) and node.value is not None:
                parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                if any(written_sums.name_of(written_sums.tensor_of(item)) == name for item in parts):
                    yield node
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.Gt, ast.LtE, ast.GtE)):
                if written_sums.name_of(written_sums.tensor_of(node.left)) == name:
                    yield node


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr

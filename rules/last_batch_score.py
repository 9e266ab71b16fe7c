"""Scores of an evaluation that contain only the last batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model.queries import batch_sums, loop_results, written
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_OFF = frozenset({"no_grad", "inference_mode", "eval"})


class Origin(Enum):
    """The origin of a number of the last batch: a sum that each batch sets to 0, or a score that it overwrites.

    The code may also sum the score of each batch and use the score instead of the sum, or compute it after the loop.
    """

    RESET = "each batch sets it to 0"
    EVALUATION = "each batch of the evaluation overwrites it"
    TRAINING = "each batch of the training overwrites it"
    SUMMED = "the sum of all batches is in another variable"
    LOOP = "it counts the predictions of the last iteration"


_ADVICE = {
    Origin.RESET: "set it to 0 before the loop",
    Origin.SUMMED: "use the sum, divided by the number of batches",
    Origin.LOOP: "count the right predictions of each batch inside the loop",
}


class LastScore(NamedTuple):
    """Each batch sets `name` at `site`, and `use` takes it as the score of all batches."""

    site: Site
    use: Site
    name: str
    origin: Origin


class LastBatchScore(Rule):
    """The score of an evaluation covers only its last batch.

    ## What it does
    Finds loops over a loader after which the code uses a value from the last batch:

    - a loss or accuracy that each batch of an evaluation overwrites, and that the code returns or compares with a best
      score after the loop;
    - a sum that each batch sets to 0 and that is divided after the loop;
    - a loss or accuracy that the evaluation adds to a sum, where the code uses the term instead of the sum;
    - right predictions that the code counts after the loop, and divides by a size that is not that of the batch;
    - reported only with `--preview`: a training loss that each batch overwrites, and that the code returns or compares
      after the loop.

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
    triggers = (
        (b"oader", b"ataset", b"data_iter", b"dataiter"),
        (b"for ",),
        (b"torch", b"backward"),
        (b"no_grad", b"inference_mode", b"eval", b"+=", b"backward"),
    )

    def ask(self) -> Iterator[LastScore]:
        for loop in [] if self.model.is_test else self.model.tree.of_type(ast.For):
            loader = batch_sums.loader_of(loop, self.model.definitions)
            if naming.LOADER.search(loader) and not any(isinstance(item, ast.Break) for item in python_ast.walk(loop)):
                if not self._has_whole_data(loop):
                    yield from self._in_loop(loop)

    def _has_whole_data(self, loop: ast.For) -> bool:
        """Whether the code creates a loader with a single batch: `batch_size=len(data)`."""
        made = written.value_of(batch_sums.unwrapped(loop.iter), self.model.definitions)
        calls = python_ast.walk(made) if isinstance(made, ast.Call) else ()
        return any(isinstance(item, ast.Call) and python_ast.dotted(item.func) == "len" for item in calls)

    def _in_loop(self, loop: ast.For) -> Iterator[LastScore]:
        behind = loop_results.statements(loop, self.model.tree)
        for statement in loop_results.each_iteration(loop.body) if behind else ():
            for name, value in loop_results.bound(statement):
                is_reset = loop_results.is_zero(value)
                use = next(loop_results.uses(behind, name, is_reset), None)
                origin = self._origin(name, value, loop) if use is not None else None
                if use is not None and origin is not None:
                    yield LastScore(python_ast.site_of(statement), python_ast.site_of(use), name, origin)

        yield from self._summed(loop, behind) if behind and self._evaluates(loop) else ()
        yield from self._counted(loop, behind)

    def _summed(self, loop: ast.For, behind: list[ast.AST]) -> Iterator[LastScore]:
        """The terms of a sum over the batches that the code uses after the loop, like the sum."""
        for statement in loop_results.each_iteration(loop.body):
            if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
                continue
            term = batch_sums.tensor_of(statement.value)
            if not isinstance(term, ast.Name) or not naming.LOSS.search(term.id):
                continue
            bound = [item for item in python_ast.walk(loop) if batch_sums.bound_by(item) == term.id]
            total = batch_sums.name_of(statement.target)
            use = next(loop_results.shown(behind, term.id, total), None)
            if bound and use is not None and total != term.id:
                yield LastScore(python_ast.site_of(bound[0]), python_ast.site_of(use), term.id, Origin.SUMMED)

    def _counted(self, loop: ast.For, behind: list[ast.AST]) -> Iterator[LastScore]:
        """The shares of right predictions after a loop that count only the loop's last batch."""
        drawn = {item for item in python_ast.names_bound(loop.target) if "." not in item}
        own = {batch_sums.bound_by(item) for item in python_ast.walk(loop)} | drawn
        counts: dict[str, ast.expr] = {}
        for statement in behind:
            for node in python_ast.walk(statement):
                if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
                    continue
                left = batch_sums.tensor_of(node.left)
                count = counts.get(left.id, left) if isinstance(left, ast.Name) else left
                compared = _compared(count) if batch_sums.matches(count) is True else set()
                whole = python_ast.names_read(node.right)
                if compared & drawn and not whole & own and self._is_whole(node.right):
                    name = self.model.tree.code(node)
                    yield LastScore(python_ast.site_of(count), python_ast.site_of(node), name, Origin.LOOP)
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                counts[statement.targets[0].id] = statement.value
                drawn.discard(statement.targets[0].id)

    def _is_whole(self, divisor: ast.expr) -> bool:
        """Whether a divisor is the size of a dataset: `len(loader.dataset)`, `x.shape[0]`, `x.size(0)`."""
        return batch_sums.is_batch_size(divisor) and not isinstance(divisor, (ast.Name, ast.Attribute))

    def _origin(self, name: str, value: ast.expr, loop: ast.For) -> Origin | None:
        """The origin of the value of a variable after a loop, if that is of its last batch only."""
        if loop_results.is_zero(value):
            return Origin.RESET if loop_results.adds_to(name, loop) else None
        if (
            not _is_score(value)
            or name in python_ast.names_read(value)
            or loop_results.is_used(name, self.model.tree.statement(value), loop)
        ):
            return None
        return Origin.EVALUATION if self._evaluates(loop) else Origin.TRAINING if _trains(loop) else None

    def _evaluates(self, loop: ast.For) -> bool:
        """Whether a loop runs without gradients, or after a call to `eval`."""
        function = self.model.tree.function_around(loop)
        around = [item for item in self.model.tree.ancestors(loop) if isinstance(item, ast.With)]
        places = [item.context_expr for node in around for item in node.items]
        places += function.decorator_list if function is not None else []
        if _trains(loop):
            return False
        calls = [node for place in [*places, *self.model.tree.before(loop), loop] for node in python_ast.walk(place)]
        return any(isinstance(node, (ast.Name, ast.Attribute)) and _last(node) in _OFF for node in calls)

    def report_LastScore(self, found: LastScore) -> None:
        self.report(
            found.use,
            f"`{found.name}` covers only the last batch, because {found.origin.value}",
            related=[(found.site, "here")],
            help=_ADVICE.get(found.origin, "sum it over the batches, and divide by their number"),
            confidence=Confidence.LOW if found.origin is Origin.TRAINING else Confidence.MEDIUM,
        )


def _compared(count: ast.expr) -> set[str]:
    """The variables that a count of right predictions compares."""
    found: list[ast.expr] = []
    for node in python_ast.walk(count):
        if isinstance(node, ast.Compare):
            found += [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "eq":
            found += [node.func.value, *node.args]
    return {item.id for item in map(batch_sums.tensor_of, found) if isinstance(item, ast.Name)}


def _trains(loop: ast.For) -> bool:
    calls = (node for node in python_ast.walk(loop) if isinstance(node, ast.Call))
    return any(python_ast.called_name(call) == "backward" for call in calls)


def _is_score(value: ast.expr) -> bool:
    """Whether an expression is the loss or the accuracy of a batch."""
    if batch_sums.matches(value) is not None:
        return True
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        return batch_sums.matches(value.left) is True and batch_sums.is_batch_size(value.right)
    made = batch_sums.tensor_of(value)
    return (
        isinstance(made, ast.Call)
        and len(made.args) == 2
        and naming.LOSS.search(python_ast.called_name(made)) is not None
    )


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr

"""Losses that are divided by the batch size twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import arithmetic, batch_sums, losses, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_LOSS = LazyPattern(r"(?i)loss|nll|err")


class Averaged(NamedTuple):
    """The quotient at `site` divides by the batch size what `first` has divided by it."""

    site: Site
    first: Site
    is_mean: bool


class AveragedTwice(Rule):
    """A loss is divided by the batch size twice.

    ## What it does
    Finds `criterion(output, y) / x.size(0)` where the criterion returns the mean over the batch, and `(loss / n).sum()
    / n`. Also finds `losses.mean() / len(losses)`. Not reported inside a loop over samples or steps, where the mean may
    be over one sample.

    ## Why is this bad?
    The loss and its gradients are too small by a factor of the batch size. With SGD, the model learns that much slower.
    In a sum of losses, a term that is divided twice has hardly any weight.

    ## Example
    ```python
    import torch.nn.functional as F

    def train(model, loader, optimizer):
        for x, y in loader:
            loss = F.cross_entropy(model(x), y) / x.size(0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def train(model, loader, optimizer):
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    ```

    ## References
    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html)
    """

    code = "TL541"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"torch",), (b"/",), (b"size(0)", b"shape[0]", b"batch_size", b"len(", b"numel"))

    def ask(self) -> Iterator[Averaged]:
        for node in [] if self.model.is_test else self.model.tree.of_type(ast.BinOp, ast.AugAssign):
            if not isinstance(node.op, ast.Div):
                continue
            if isinstance(node, ast.BinOp) and (mean := self._own_mean(node)) is not None:
                yield Averaged(python_ast.site_of(node), python_ast.site_of(mean), is_mean=True)
                continue
            total, count = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            size = written.value_of(count, self.model.definitions)
            if not self._is_batch_size(size) or not self._is_of_batch(node):
                continue
            value = written.value_of(total, self.model.definitions)
            inner = arithmetic.reduced(value, "sum", self.model.definitions)
            first = written.value_of(inner, self.model.definitions) if inner is not None else None
            if isinstance(first, ast.BinOp) and isinstance(first.op, ast.Div):
                if python_ast.written_alike(written.value_of(first.right, self.model.definitions), size):
                    yield Averaged(python_ast.site_of(node), python_ast.site_of(first), is_mean=False)
            elif isinstance(value, ast.Call) and self._is_mean_loss(value):
                yield Averaged(python_ast.site_of(node), python_ast.site_of(value), is_mean=True)

    def _own_mean(self, node: ast.BinOp) -> ast.expr | None:
        """The mean in `losses.mean() / len(losses)`, which divides it by the number of its own elements."""
        mean = batch_sums.tensor_of(node.left)
        tensor = arithmetic.reduced(mean, "mean", self.model.definitions)
        name = python_ast.dotted(batch_sums.tensor_of(tensor)) if tensor is not None else ""
        return mean if _LOSS.search(name) and name == _counted(node.right) else None

    def _is_batch_size(self, size: ast.expr) -> bool:
        """Whether an expression is the size of dimension 0 of a variable: `x.size(0)`, `x.shape[0]`."""
        is_length = isinstance(size, ast.Call) and python_ast.called_name(size) == "len"
        if not isinstance(size, (ast.Call, ast.Subscript)) or is_length or not batch_sums.is_batch_size(size):
            return False
        return all(item.id != "self" for item in python_ast.walk(size) if isinstance(item, ast.Name))

    def _is_of_batch(self, node: ast.AST) -> bool:
        """Whether the innermost loop, if there is one, iterates over a loader."""
        loop = self.model.tree.loop_around(node)
        return loop is None or (isinstance(loop, ast.For) and "load" in self.model.tree.code(loop.iter).lower())

    def _is_mean_loss(self, call: ast.Call) -> bool:
        """Whether a call surely computes the mean loss of a whole batch."""
        made = self.model.results.get(python_ast.site_of(call), [])
        is_part = any(isinstance(item, ast.Subscript) for given in call.args for item in python_ast.walk(given))
        return bool(made) and not is_part and all(losses.is_mean(value, self.model.tree) for value in made)

    def report_Averaged(self, found: Averaged) -> None:
        message = (
            "the loss is already a mean over the batch" if found.is_mean else "each value is already divided by it"
        )
        self.report(
            found.site,
            f"this divides by the batch size twice: {message}",
            related=[(found.first, "the first division is here")],
            help="remove one of the two divisions",
        )


def _counted(count: ast.expr) -> str:
    """The tensor whose elements an expression counts: `x` of `len(x)`, `x.size(0)`, `x.shape[0]` and `x.numel()`."""
    if isinstance(count, ast.Call) and count.args and python_ast.called_name(count) == "len":
        return python_ast.dotted(count.args[0])
    if isinstance(count, ast.Call) and isinstance(count.func, ast.Attribute):
        is_count = count.func.attr == "numel" or batch_sums.is_batch_size(count)
        return python_ast.dotted(count.func.value) if is_count else ""
    if batch_sums.is_batch_size(count) and isinstance(count, ast.Subscript):
        return python_ast.dotted(count.value).rpartition(".")[0]
    return ""

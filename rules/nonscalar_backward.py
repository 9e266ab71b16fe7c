"""Backward passes from a loss with one value per sample."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule, edits
from torchlint.index import FileIndex
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, lineage, module_values, utilities, values
from torchlint.model.queries import losses as stated_losses
from torchlint.pytorch import losses, operators, triggers
from torchlint.syntax.python_ast import Site, arguments, site_of

_ELEMENTWISE = frozenset("add sub mul div neg pow scale exp log sqrt abs clamp to float double half cuda cpu".split())
_LOADER = LazyPattern(r"loader|(^|_)dl$|iterator$", re.IGNORECASE)
_ONE_OF_MANY = frozenset("getitem unsqueeze narrow select index_select squeeze unbind".split())


class UnreducedLoss(NamedTuple):
    """`backward` starts from an unreduced result of the criterion at `criterion`."""

    backward: events.Backward
    criterion: Site


class NonscalarBackward(Rule):
    """`backward` on a loss computed with `reduction="none"` raises.

    ## What it does
    Finds `backward()` without an argument on a loss that was computed with `reduction="none"`. The code may change the
    loss by elementwise arithmetic, but does not reduce it. Reported only if the loss certainly has several elements,
    because it comes from batches of a loader, or from tensors with more than one row.

    ## Why is this bad?
    `reduction="none"` returns one loss per sample. `backward` needs a single number, and raises "grad can be
    implicitly created only for scalar outputs".

    ## Example
    ```python
    import torch.nn.functional as F

    def train(model, train_loader, optimizer):
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y, reduction="none")
            loss.backward()
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def train(model, train_loader, optimizer):
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y, reduction="none")
            loss.mean().backward()
            optimizer.step()
    ```

    ## Fix safety
    The fix adds `.mean()`. It is unsafe: the author may need a sum, or weights for the samples.

    ## What verify shows
    `torchlint verify` confirms the finding if PyTorch raises the error. It refutes the finding if backward passes from
    the line work without an error.

    ## References
    - [torch.Tensor.backward](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html)
    """

    code = "TL105"
    category = Category.CORRECTNESS
    triggers = (triggers.BACKWARD, (b"reduction",))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return index.goes_backward

    def ask(self) -> Iterator[UnreducedLoss]:
        if self.model.is_test or self._has_batches_of_one():
            return
        for trace in self.model.program.traces:
            for backward in trace.of(events.Backward):
                criterion = self._unreduced(backward.loss) if self._is_bare(backward) else None
                if criterion is not None:
                    yield UnreducedLoss(backward, criterion)

    def _has_batches_of_one(self) -> bool:
        """Whether a loader of this file, or an option, may produce samples one by one."""
        named = [node for node in self.model.tree.of_type(ast.keyword) if self._may_be_size(node)]
        assigned = [
            node
            for node in self.model.tree.of_type(ast.Assign)
            if "batch" in self.model.tree.code(site_of(node.targets[0])).lower()
        ]
        made = FileIndex.of(self.model.tree).calls_named("DataLoader")
        if any(len(call.args) == 1 and not call.keywords for call in made):
            return True
        return any(_is(node.value, 1) for node in (*named, *assigned))

    def _may_be_size(self, node: ast.keyword) -> bool:
        """Whether an argument is the batch size, or the default of an option with that name."""
        option = self.model.tree.parent(node)
        if node.arg != "default" or not isinstance(option, ast.Call):
            return node.arg == "batch_size"
        return not option.args or any("batch" in self._code(item).lower() for item in option.args)

    def _code(self, node: ast.AST) -> str:
        return self.model.tree.code(site_of(node))

    def _is_bare(self, backward: events.Backward) -> bool:
        """Whether a backward has no argument except the loss, and the code does not expect its error."""
        tree = self.model.tree
        node = tree.node(backward.site)
        if not isinstance(node, ast.Call) or backward.given_gradient is not False:
            return False
        return len(node.args) <= (backward.framework is not None) and not tree.expects_error(node)

    def _unreduced(self, loss: values.Value) -> Site | None:
        """The criterion that computed a loss which still has one value for each sample of a batch."""
        stack, seen = [values.resolved(loss)], set[values.Value]()
        while stack:
            value = stack.pop()
            if value in seen or not isinstance(value, values.Tensor):
                continue
            seen.add(value)
            if self._keeps_samples(value):
                return value.site if self._is_of_batch(value) else None
            if value.op in _ELEMENTWISE and not self._is_python_sum(value):
                stack.extend(map(values.resolved, value.parents))
        return None

    def _is_python_sum(self, value: values.Tensor) -> bool:
        """`sum(loss)`, which adds along the first dimension."""
        node = self.model.tree.node(value.site)
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sum"

    def _keeps_samples(self, value: values.Tensor) -> bool:
        """Whether a value comes from a loss with no reduction."""
        if value.op in losses.OPERATORS:
            return self._says_none(value.site)
        module = values.resolved(value.parents[0]) if isinstance(value, values.ModuleOutput) else None
        if not isinstance(module, values.Module) or module.info is not None or not module_values.is_as_made(module):
            return False
        return module.name.endswith("Loss") and self._says_none(module.site)

    def _says_none(self, site: Site | None) -> bool:
        node = self.model.tree.node(site)
        return isinstance(node, ast.Call) and stated_losses.stated_reduction(node) == "none"

    def _is_of_batch(self, value: values.Value) -> bool:
        """Whether a value is computed from all samples of a batch with several samples."""
        made_of = lineage.ancestry([value])
        here = (item for item in made_of if isinstance(item, values.Tensor) or item.loops == value.loops)
        if any(map(self._may_be_one, here)):
            return False
        return any(map(self._has_rows, made_of))

    def _may_be_one(self, value: values.Value) -> bool:
        """Whether a value may be one of many samples, or shows that there is only one."""
        node = self.model.tree.node(value.site)
        if isinstance(node, ast.Subscript) and not _is_part(value):
            return not self._keeps_rows(node.slice)
        if not isinstance(value, values.Tensor):
            return False
        dimension = node.args[-1] if isinstance(node, ast.Call) and node.args else None
        if value.op in (operators.SQUEEZE, operators.UNSQUEEZE) and dimension is not None:
            return not any(_is(dimension, other) for other in (1, 2)) and not isinstance(dimension, ast.UnaryOp)
        return value.op in _ONE_OF_MANY

    def _keeps_rows(self, index: ast.expr) -> bool:
        """Whether an index is a range of rows, or a mask."""
        first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
        if isinstance(first, ast.Slice):
            return not self._is_single_row(first)
        is_key = isinstance(first, ast.Constant) and isinstance(first.value, str)
        return is_key or "mask" in self._code(first).lower()

    def _is_single_row(self, rows: ast.Slice) -> bool:
        """Whether a range is of one row: `[i : i + 1]`, `[:1]`, `[-1:]`."""
        first = self._code(rows.lower) if rows.lower is not None else "0"
        end = self._code(rows.upper) if rows.upper is not None else ""
        return (first, end) in (("0", "1"), ("-1", "")) or end.replace(" ", "") == f"{first.replace(' ', '')}+1"

    def _has_rows(self, value: values.Value) -> bool:
        """Whether a value comes from a loader, or is a new tensor with more than one row."""
        if isinstance(value, values.Iteration) and value.parents:
            source = values.resolved(value.parents[0])
            labels = [item.label for item in (source, *map(values.resolved, source.parents))]
            return utilities.is_kind(source, utilities.Kind.LOADER) or any(map(_LOADER.search, labels))
        node = self.model.tree.node(value.site) if isinstance(value, values.Tensor) and value.site is not None else None
        rows = node.args[0] if isinstance(node, ast.Call) and len(node.args) > 1 else None
        return isinstance(rows, ast.Constant) and isinstance(rows.value, int) and rows.value > 1

    def report_UnreducedLoss(self, loss: UnreducedLoss) -> None:
        self.report(
            loss.backward.site,
            "the loss has one value per sample, but `backward` needs a scalar: this call raises",
            related=[(loss.criterion, '`reduction="none"` here')],
            help="reduce it first with `.mean()` or `.sum()`",
            fix=self._fix(loss.backward),
        )

    def _fix(self, backward: events.Backward) -> edits.Change | None:
        node = self.model.tree.node(backward.site)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        loss = node.func.value if backward.framework is None else arguments(node)[0]
        written = self.written(site_of(loss))
        return edits.Change("take the mean", [edits.Append(written, ".mean()")]) if written is not None else None


def _is_part(value: values.Value) -> bool:
    """Whether a value is a part of a loop's item: `batch[0]`, the inputs."""
    whole = value.parents[0] if isinstance(value, values.Unknown) and value.parents else None
    return isinstance(whole, values.Iteration)


def _is(node: ast.AST, constant: object) -> bool:
    """Whether a node is a literal constant."""
    return isinstance(node, ast.Constant) and node.value == constant and type(node.value) is type(constant)

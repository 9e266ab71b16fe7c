"""Metrics and meters that accumulate from epoch to epoch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import batch_sums, names, torch_classes, uses, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_PACKAGES = ("torchmetrics.", "torcheval.metrics.")
_RECORDS = ("MinMetric", "MaxMetric")
"""Metrics that keep the best value of all epochs."""
_TIME = LazyPattern(r"(?i)time|speed|data_|duration")
"""Names of meters of durations, for which the mean over all epochs is useful."""
_HOOKS = frozenset(f"{prefix}{stage}_epoch_end" for prefix in ("on_", "") for stage in ("train", "validation")) | {
    "training_epoch_end"
}


class NeverReset(NamedTuple):
    """The metric `name`, made at `made`, is read at `site` in each epoch and never reset."""

    site: Site
    made: Site
    name: str


class MetricNeverReset(Rule):
    """A metric is read in each epoch but never reset.

    ## What it does
    Finds metrics and meters that accumulate over all epochs:

    - torchmetrics metrics that a loop or a Lightning hook reads with `compute()` in each epoch, and that nothing
      resets. Lightning resets a metric only if the program logs the metric itself, not the result of `compute()`.
    - Meters of the program, such as `AverageMeter`, that the code creates before a loop over epochs. It reads their
      `avg` at the end of each epoch.
    - Metric classes of the program: a loop over epochs calls `update` and `compute`, but nothing calls `reset`.

    ## Why is this bad?
    A metric accumulates all updates until `reset()`. From the second epoch on, its value covers all epochs, including
    predictions of old weights. It lags behind the model, and the wrong epoch looks like the best one.

    ## Example
    ```python
    import torchmetrics

    def fit(epochs, loader, step):
        accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10)
        for epoch in range(epochs):
            for x, y in loader:
                accuracy.update(step(x), y)
            print(epoch, accuracy.compute())
    ```

    Use instead:
    ```python
    import torchmetrics

    def fit(epochs, loader, step):
        accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10)
        for epoch in range(epochs):
            for x, y in loader:
                accuracy.update(step(x), y)
            print(epoch, accuracy.compute())
            accuracy.reset()
    ```

    ## References
    - [TorchMetrics in PyTorch Lightning](https://lightning.ai/docs/torchmetrics/stable/pages/lightning.html)
    """

    code = "TL631"
    category = Category.CORRECTNESS
    triggers = ((b"torchmetrics", b"torcheval", b"eter(", b"def reset"), (b"compute", b".avg"), (b"torch",))

    def ask(self) -> Iterator[NeverReset]:
        if self.model.is_test or b"reset_all" in self.model.tree.source.code:
            return
        for read in self.model.tree.of_type(ast.Attribute):
            name = python_ast.dotted(read.value)
            if name and read.attr == "avg" and "." not in name:
                yield from self._of_meter(read, name)
            if read.attr != "compute" or not name:
                continue
            loop = self._epochs(read, name)
            if loop is not None and "." not in name:
                yield from self._of_loop(read, name, loop)
            elif name.startswith("self.") and name.count(".") == 1:
                yield from self._of_hook(read, name)
                yield from self._of_object(read, name)

    def _epochs(self, read: ast.Attribute, name: str) -> ast.For | None:
        """The loop around a value that contains a loop in which the metric is updated."""
        loops = (item for item in self.model.tree.around(read) if isinstance(item, ast.For))
        loop = next((item for item in loops if batch_sums.counts(item.iter)), None)
        inner = (node for node in python_ast.walk(loop) if isinstance(node, ast.For)) if loop is not None else ()
        return loop if any(not batch_sums.counts(node.iter) and _is_updated(name, node) for node in inner) else None

    def _of_loop(self, read: ast.Attribute, name: str, loop: ast.For) -> Iterator[NeverReset]:
        """A metric that is created once before a loop over epochs."""
        scope = self.model.tree.scope_around(read)
        stores = _stores(scope, name)
        made = written.assigned(stores[0], self.model.definitions) if len(stores) == 1 else None
        is_before = made is not None and made.lineno < loop.lineno
        if (
            made is not None
            and is_before
            and self._is_metric(made)
            and not _is_handled(name, scope)
            and self.model.tree.loop_around(read) is loop
        ):
            yield NeverReset(python_ast.site_of(read), python_ast.site_of(made), name)

    def _of_meter(self, read: ast.Attribute, name: str) -> Iterator[NeverReset]:
        """A meter of the program that is created once before a loop over epochs, and whose mean each epoch reports."""
        loop = self.model.tree.loop_around(read)
        if (
            not isinstance(loop, ast.For)
            or not batch_sums.counts(loop.iter)
            or "epoch" not in ast.unparse(loop.target).lower()
        ):
            return
        batches = [item for item in loop.body if isinstance(item, ast.For) and _is_updated(name, item)]
        scope = self.model.tree.scope_around(read)
        stores = _stores(scope, name)
        made = written.assigned(stores[0], self.model.definitions) if len(stores) == 1 else None
        if not batches or made is None or made.lineno >= loop.lineno or read.lineno < batches[0].lineno:
            return
        if self._is_meter(made) and not _TIME.search(name) and not _is_handled(name, scope):
            yield NeverReset(python_ast.site_of(read), python_ast.site_of(made), name)

    def _is_meter(self, made: ast.expr) -> bool:
        """Whether an expression creates a meter of the program: `update` adds to a sum and to a count."""
        info = self.model.definitions.class_named(python_ast.dotted(made.func)) if isinstance(made, ast.Call) else None
        update = info.method("update") if info is not None else None
        if update is None:
            return False
        added = [
            python_ast.dotted(item.target)
            for item in python_ast.walk(update.node)
            if isinstance(item, ast.AugAssign) and isinstance(item.op, ast.Add)
        ]
        return any("sum" in item for item in added) and any(item.endswith(("count", ".n", "cnt")) for item in added)

    def _of_hook(self, read: ast.Attribute, name: str) -> Iterator[NeverReset]:
        """A metric of a Lightning module that a hook reads at the end of each epoch."""
        around = self.model.definitions.method_around(read)
        if around is None or around.owner is None or around.name not in _HOOKS:
            return
        stores = list(written.stores_of(name.removeprefix("self."), around.owner))
        made = written.assigned(stores[0], self.model.definitions) if len(stores) == 1 else None
        if made is not None and self._is_metric(made) and torch_classes.is_lightning(around.owner):
            if not _is_handled(name, around.owner.node) and not _is_updated(name, around.node):
                yield NeverReset(python_ast.site_of(read), python_ast.site_of(made), name)

    def _of_object(self, read: ast.Attribute, name: str) -> Iterator[NeverReset]:
        """A metric of the program, in an attribute, that a loop over epochs reads."""
        loop = next((item for item in self.model.tree.around(read) if isinstance(item, ast.For)), None)
        around = self.model.definitions.method_around(read)
        if loop is None or around is None or around.owner is None or "epoch" not in ast.unparse(loop.target).lower():
            return
        stores = list(written.stores_of(name.removeprefix("self."), around.owner))
        made = written.assigned(stores[0], self.model.definitions) if len(stores) == 1 else None
        places = uses.of_place(stores[0], self.model) if made is not None and self._accumulates(made) else None
        first = self.model.definitions.method_around(stores[0]) if stores else None
        if made is not None and places is not None and first is not None and first.name == "__init__":
            if not _is_handled(name, around.owner.node) and _is_updated(name, around.owner.node):
                yield NeverReset(python_ast.site_of(read), python_ast.site_of(made), name)

    def _accumulates(self, made: ast.expr) -> bool:
        """Whether an expression creates a metric of the program that only `reset` sets back."""
        info = self.model.definitions.class_named(python_ast.dotted(made.func)) if isinstance(made, ast.Call) else None
        methods = [info.method(name) for name in ("update", "compute", "reset")] if info is not None else []
        if not methods or methods[0] is None or methods[1] is None or methods[2] is None:
            return False
        adds, computes = (list(python_ast.walk(part.node)) for part in methods[:2] if part is not None)
        added = {
            item.target.attr for item in adds
            if isinstance(item, ast.AugAssign) and isinstance(item.target, ast.Attribute)
        }  # fmt: skip
        set_again = (item for item in computes if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store))
        is_reset = any(isinstance(item, ast.Call) and "reset" in python_ast.called_name(item) for item in computes)
        return bool(added) and not is_reset and not any(item.attr in added for item in set_again)

    def _is_metric(self, made: ast.expr) -> bool:
        """Whether an expression creates a metric."""
        made = python_ast.without_calls(made, ("to",))
        qualified = names.imported(made.func, self.model.definitions) if isinstance(made, ast.Call) else ""
        return qualified.startswith(_PACKAGES) and not qualified.endswith(_RECORDS)

    def report_NeverReset(self, found: NeverReset) -> None:
        self.report(
            found.site,
            f"nothing resets `{found.name}`: from the second epoch on, this value covers all epochs",
            related=[(found.made, "it is created only once, here")],
            help=f"call `{found.name}.reset()` in each epoch, or create it there",
        )


def _stores(scope: ast.AST, name: str) -> list[ast.Name]:
    """The assignments to a variable."""
    nodes = (node for node in python_ast.walk(scope) if isinstance(node, ast.Name) and node.id == name)
    return [node for node in nodes if not isinstance(node.ctx, ast.Load)]


def _is_updated(name: str, code: ast.AST) -> bool:
    """Whether a loop, or a hook, updates a metric: `metric.update(...)`, `metric(...)`."""
    calls = [node for node in python_ast.walk(code) if isinstance(node, ast.Call)]
    return any(python_ast.dotted(call.func) in (name, f"{name}.update") for call in calls)


def _is_handled(name: str, scope: ast.AST) -> bool:
    """Whether code may reset a metric, by its method, in a call that gets the metric itself, or in a loop over some."""
    for node in python_ast.walk(scope):
        if isinstance(node, ast.For) and name in map(python_ast.dotted, getattr(node.iter, "elts", ())):
            return True
        if isinstance(node, ast.Attribute) and node.attr.startswith("reset") and python_ast.dotted(node.value) == name:
            return True
        if isinstance(node, ast.Call) and any(python_ast.dotted(item) == name for item in python_ast.arguments(node)):
            return True
    return False

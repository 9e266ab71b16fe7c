"""Root mean squared errors that are computed as a mean of roots."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import arithmetic, losses, names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_RMSE = LazyPattern(r"(?i)rmse|root_?mean|rms_?err")
_SQUARED = LazyPattern(r"(?i)(mse|l2|squared?_?err|loss)")
_STEPS = 4


class OfElements(NamedTuple):
    """The mean at `mean` is over the roots of squared errors, taken at `root`."""

    mean: Site
    root: Site
    is_named: bool


class OfBatches(NamedTuple):
    """The code at `mean` averages the roots that `addition` collects for each batch."""

    mean: Site
    addition: Site
    collected: str


class MeanOfRoots(Rule):
    """A root mean squared error takes its root before the mean.

    ## What it does
    Finds `torch.sqrt((x - y) ** 2).mean()`: the root of a square is the absolute value, so this is the mean absolute
    error. With `--preview`, also finds root mean squared errors of batches whose average is reported.

    ## Why is this bad?
    The number is too small, and it is not comparable with root mean squared errors that others report. The mean of
    roots is smaller than the root of the mean, by an amount that depends on the batch size. As a loss, the root also
    has a NaN gradient where the error is 0.

    ## Example
    ```python
    import torch

    def rmse(prediction, target):
        return torch.sqrt((prediction - target) ** 2).mean()
    ```

    Use instead:
    ```python
    import torch

    def rmse(prediction, target):
        return torch.sqrt(((prediction - target) ** 2).mean())
    ```

    ## References
    - [torch.nn.MSELoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.MSELoss.html)
    """

    code = "TL558"
    category = Category.CORRECTNESS
    preview = True
    triggers = ((b"sqrt", b"0.5"), (b"torch",), (b"mean", b"/", b"average"))

    def ask(self) -> Iterator[OfElements | OfBatches]:
        for call in () if self.model.is_test else self.model.tree.of_type(ast.Call):
            if python_ast.called_name(call) in ("mean", "average"):
                yield from self._of_elements(call)
                yield from self._of_list(call)
        for division in () if self.model.is_test else self.model.tree.of_type(ast.BinOp, ast.AugAssign):
            if isinstance(division.op, ast.Div):
                yield from self._of_total(division)

    # -- elements ------------------------------------------------------------------------------------------

    def _of_elements(self, mean: ast.Call) -> Iterator[OfElements]:
        """A mean over the roots of squared differences."""
        inner = arithmetic.reduced(mean, "mean", self.model.definitions)
        root = self._value(inner) if inner is not None else None
        operand = self._operand(root) if root is not None else None
        if root is None or operand is None or not self._is_squared_difference(self._value(operand)):
            return
        yield OfElements(python_ast.site_of(mean), python_ast.site_of(root), self._is_named(mean))

    def _is_squared_difference(self, node: ast.expr) -> bool:
        base, exponent = arithmetic.power(node, self.model.definitions)
        if exponent == 2:
            difference = self._value(base)
            return isinstance(difference, ast.BinOp) and isinstance(difference.op, ast.Sub)
        is_loss = isinstance(node, ast.Call) and python_ast.called_name(node) == "mse_loss"
        return is_loss and isinstance(node, ast.Call) and losses.stated_reduction(node) == "none"

    def _is_named(self, node: ast.expr) -> bool:
        """Whether the statement or the function around a mean is named after the root mean squared error."""
        function = self.model.definitions.function_around(node)
        statement = self.model.tree.code(self.model.tree.statement(node))
        return bool(_RMSE.search(statement) or (function is not None and _RMSE.search(function.name)))

    # -- batches -------------------------------------------------------------------------------------------

    def _of_list(self, mean: ast.Call) -> Iterator[OfBatches]:
        """`np.mean(roots)` where a loop over a loader appends a root for each batch."""
        is_function = isinstance(mean.func, ast.Attribute) and python_ast.dotted(mean.func.value) in ("np", "numpy")
        name = python_ast.dotted(mean.args[0]) if is_function and mean.args else ""
        yield from self._collected(name, mean) if name else ()

    def _of_total(self, division: ast.BinOp | ast.AugAssign) -> Iterator[OfBatches]:
        """`total / len(loader)` where a loop adds a root for each batch, and `sum(roots) / len(roots)`."""
        total = division.left if isinstance(division, ast.BinOp) else division.target
        is_sum = isinstance(total, ast.Call) and python_ast.dotted(total.func) == "sum" and len(total.args) == 1
        name = python_ast.dotted(total.args[0] if is_sum and isinstance(total, ast.Call) else total)
        yield from self._collected(name, division) if name else ()

    def _collected(self, name: str, mean: ast.expr | ast.AugAssign) -> Iterator[OfBatches]:
        scope = self.model.tree.scope_around(mean)
        for node in names.own_nodes(scope):
            added = _added(node, name)
            loop = self.model.tree.loop_around(node) if added is not None else None
            if added is None or not isinstance(loop, ast.For) or loop.lineno <= mean.lineno <= (loop.end_lineno or 0):
                continue
            is_batches = "load" in self.model.tree.code(loop.iter).lower()
            if is_batches and self._is_root(added) and _RMSE.search(name + self.model.tree.code(added)):
                yield OfBatches(python_ast.site_of(mean), python_ast.site_of(node), name)

    def _is_root(self, node: ast.expr) -> bool:
        """Whether a number is the root of a mean, computed here or by a function of the file."""
        node = self._value(node)
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            if node.func.attr not in ("item", "detach", "cpu", "numpy"):
                break
            node = self._value(node.func.value)
        if isinstance(node, ast.Call) and python_ast.dotted(node.func) == "float" and len(node.args) == 1:
            node = self._value(node.args[0])
        own = names.function(node.func, self.model.definitions) if isinstance(node, ast.Call) else None
        value = names.returned_value(own) if own is not None else node
        operand = self._operand(self._value(value)) if value is not None else None
        if operand is None:
            return False
        operand = python_ast.without_calls(operand, {"item", "detach", "cpu"})
        mean = self._value(operand)
        is_mean = isinstance(mean, ast.Call) and python_ast.called_name(mean) == "mean"
        return is_mean or any(_SQUARED.search(self.model.tree.code(item)) for item in (operand, mean))

    # -- expressions ---------------------------------------------------------------------------------------

    def _operand(self, node: ast.expr) -> ast.expr | None:
        """The operand of a root: `x` of `torch.sqrt(x)`, `x.sqrt()`, `x ** 0.5` and `math.sqrt(x)`."""
        if isinstance(node, ast.Call) and python_ast.called_name(node) == "sqrt":
            if python_ast.dotted(node.func) in ("math.sqrt", "np.sqrt", "numpy.sqrt", "sqrt"):
                return node.args[0] if len(node.args) == 1 else None
            return arithmetic.operand(node, self.model.definitions)[0]
        base, exponent = arithmetic.power(node, self.model.definitions)
        return base if exponent == 0.5 else None

    def _value(self, node: ast.expr) -> ast.expr:
        for _ in range(_STEPS):
            value = written.value_of(node, self.model.definitions) if isinstance(node, ast.Name) else node
            if value is node:
                break
            node = value
        return node

    def report_OfElements(self, found: OfElements) -> None:
        self.report(
            found.mean,
            "the root of a squared error is the absolute error: this is a mean absolute error",
            related=[(found.root, "the root is taken here")],
            help="take the mean first, then its root",
            confidence=Confidence.HIGH if found.is_named else Confidence.LOW,
        )

    def report_OfBatches(self, found: OfBatches) -> None:
        self.report(
            found.mean,
            f"`{found.collected}` holds one root per batch: their average is smaller than the root over all samples",
            related=[(found.addition, "the roots are collected here")],
            help="average the squared errors of all samples, and take the root at the end",
            confidence=Confidence.LOW,
        )


def _added(node: ast.AST, name: str) -> ast.expr | None:
    """The value that a statement adds to a list or a total: `roots.append(x)`, `total += x`."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and python_ast.dotted(node.target) == name:
        return node.value
    is_append = isinstance(node, ast.Call) and python_ast.dotted(node.func) == f"{name}.append" and len(node.args) == 1
    return node.args[0] if is_append and isinstance(node, ast.Call) else None

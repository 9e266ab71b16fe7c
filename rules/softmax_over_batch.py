"""Softmaxes and predictions along the dimension of the batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import events, values
from torchlint.model.queries import attention, batch_sums, choices, losses, names, numbers, written
from torchlint.pytorch import operators
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site
    from torchlint.syntax.python_tree import PythonTree

_LOADER = LazyPattern(r"(?i)loader|(?:^|_)dl$")
_LOG = "log_softmax"
_STEPS = 6
_BATCH = LazyPattern(r"(?i)^(bs|bsz|batch|batch_?size|n_?batch)$")
"""Names of the size of a batch."""
_LEAST = 3
_SUMS = frozenset({operators.SUM, operators.MATMUL, operators.BMM, "einsum", "logsumexp"})
_REDUCING = frozenset({operators.SUM, "logsumexp"})
_FUNCTIONS = frozenset({"torch", "F", "nn"})


class OverAll(NamedTuple):
    """The `argmax` at `site` picks one element of a whole tensor, but `use` expects one for each row."""

    site: Site
    use: Site


class OverBatch(NamedTuple):
    """The call at `site` compares the samples of a batch instead of their classes; `use` expects classes."""

    site: Site
    use: Site
    picks: str


class OverNamed(NamedTuple):
    """The softmax at `site` is along `dimension`, to which the view at `view` gives the size `size` of the batch."""

    site: Site
    view: Site
    dimension: int
    other_way: int
    """The same dimension, counted from the other end."""
    size: str


class SoftmaxOverBatch(Rule):
    """A softmax or a prediction compares the samples of a batch, not the classes.

    ## What it does
    Finds, for batches of a loader:

    - a `softmax` or `log_softmax` along dimension 0 whose result is the input of `nll_loss`;
    - a `softmax` or `log_softmax` along dimension 0 from whose rows `gather` takes the class of a label;
    - an `argmax` or `max` of the model's output along dimension 0 that is compared with the labels.

    Also finds a softmax along the dimension to which `view` gives the size of the batch, by its name:
    `x.view(steps, batch_size, classes)`, then `softmax(dim=1)`. If the result is summed over the batch, it may be an
    average on purpose, and is not reported.

    Also finds an `argmax` over all elements that is compared with one index for each row:
    `scores.argmax() == torch.arange(len(scores))`.

    ## Why is this bad?
    Dimension 0 is the batch dimension. The scores of one sample do not sum to one, and its loss depends on the other
    samples. A prediction along dimension 0 is the number of a sample, so the accuracy is random.

    ## Example
    ```python
    import torch

    def accuracy(model, loader):
        correct = 0
        for x, y in loader:
            output = model(x)
            correct += (output.argmax(dim=0) == y).sum().item()
        return correct
    ```

    Use instead:
    ```python
    import torch

    def accuracy(model, loader):
        correct = 0
        for x, y in loader:
            output = model(x)
            correct += (output.argmax(dim=1) == y).sum().item()
        return correct
    ```

    ## Known limits
    torchlint does not see a softmax layer inside `nn.Sequential`.

    ## References
    - [torch.nn.NLLLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html)
    """

    code = "TL720"
    category = Category.CORRECTNESS
    triggers = (
        (b"torch",),
        (b"argmax", b"max", b"oftmax"),
        (b"==", b"eq", b"nll_loss", b"NLLLoss", b"gather", b"view", b"reshape"),
    )
    calls = frozenset({"nll_loss", "NLLLoss", "gather", "softmax", "log_softmax", "Softmax", "LogSoftmax"})

    def ask(self) -> Iterator[OverBatch | OverAll | OverNamed]:
        if not self.model.is_test:
            yield from self._losses()
            yield from self._named()
            yield from self._of_rows()
            for loop in self.model.tree.of_type(ast.For):
                if _LOADER.search(batch_sums.loader_of(loop, self.model.definitions)):
                    yield from self._predictions(loop)

    def _losses(self) -> Iterator[OverBatch]:
        """The losses whose input is a softmax along dimension 0, in a loop over a loader."""
        seen = set[python_ast.Site]()
        for trace in self.model.program.traces:
            for event in trace.of(events.Compute):
                value = event.value
                if value.op == operators.GATHER and self._takes_classes(value):
                    made = self._softmax(value.parents[0])
                elif losses.loss_function(value) == "nll_loss" and self._is_in_loop(event):
                    made = self._softmax(losses.operands(value)[0])
                else:
                    continue
                if made is not None and made.site is not None and made.site not in seen:
                    seen.add(made.site)
                    yield OverBatch(made.site, event.site, "")

    def _softmax(self, value: values.Value) -> values.Tensor | None:
        """The softmax along dimension 0 whose result is a value, perhaps returned by a module."""
        for _ in range(_STEPS):
            value = values.resolved(value)
            if isinstance(value, values.ModuleOutput) and value.body is not None:
                value = value.body
            elif isinstance(value, values.Tensor) and value.op == operators.LOG and value.parents:
                value = value.parents[0]
            else:
                break
        if not isinstance(value, values.Tensor):
            return None
        is_layer = attention.is_layer(value, "LogSoftmax") or attention.is_layer(value)
        is_softmax = is_layer or value.op in (_LOG, operators.SOFTMAX)
        return value if is_softmax and attention.dimension(value, self.model.program) == 0 else None

    def _named(self) -> Iterator[OverNamed]:
        """The softmaxes along a dimension to which a view gives a size that is named like the batch."""
        found, totals = dict[values.Tensor, OverNamed](), list[values.Tensor]()
        for value, _ in self.model.computed:
            is_layer = attention.is_layer(value, "LogSoftmax") or attention.is_layer(value)
            if value.op in _SUMS:
                totals.append(value)
            elif value.site is not None and (is_layer or value.op in (_LOG, operators.SOFTMAX)):
                named = self._along_named(value, values.resolved(value.parents[-1 if is_layer else 0]))
                if named is not None:
                    found[value] = named
        summed = {behind for total in totals if found for behind in self._summed(total, found)}
        yield from {item.site: item for value, item in found.items() if value not in summed}.values()

    def _along_named(self, softmax: values.Tensor, view: values.Value) -> OverNamed | None:
        sizes = attention.sizes(view, self.model.program) if isinstance(view, values.Tensor) else []
        dimension = attention.dimension(softmax, self.model.program)
        if dimension is None or len(sizes) < _LEAST or not -len(sizes) <= dimension < len(sizes):
            return None
        named = [python_ast.dotted(item).rpartition(".")[2] for item in sizes]
        last = numbers.literal(sizes[-1])
        is_one = len([name for name in named if _BATCH.search(name)]) == 1 and last != 1
        if not is_one or not _BATCH.search(named[dimension]) or view.site is None or softmax.site is None:
            return None
        other_way = dimension - len(sizes) if dimension >= 0 else dimension + len(sizes)
        return OverNamed(softmax.site, view.site, dimension, other_way, named[dimension])

    def _summed(self, total: values.Tensor, found: dict[values.Tensor, OverNamed]) -> set[values.Tensor]:
        """The softmaxes that a sum adds up along their dimension, after a few operators."""
        behind, new = set[values.Value](), [values.resolved(item) for item in total.parents]
        for _ in range(_STEPS):
            behind.update(new)
            new = [values.resolved(up) for item in new if isinstance(item, values.Tensor) for up in item.parents]
        along = numbers.dimension(total, self.model.program) if total.op in _REDUCING else None
        return {
            value for value, item in found.items()
            if value in behind and (along is None or along in (item.dimension, item.other_way))
        }  # fmt: skip

    def _takes_classes(self, gathered: values.Tensor) -> bool:
        """Whether `x.gather(1, y.unsqueeze(1))` takes one value of each row."""
        return attention.dimension(gathered, self.model.program) == 1 and any(
            isinstance(item, values.Tensor) and item.op == operators.UNSQUEEZE
            for item in map(values.resolved, gathered.parents[1:])
        )

    def _is_in_loop(self, event: events.Compute) -> bool:
        loops = (self.model.tree.node(loop.site) for loop in event.loops)
        return any(
            isinstance(item, ast.For) and _LOADER.search(batch_sums.loader_of(item, self.model.definitions))
            for item in loops
        )

    def _of_rows(self) -> Iterator[OverAll]:
        """The comparisons of the row numbers of a tensor with its largest element."""
        for node in self.model.tree.of_type(ast.Compare):
            if len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
                for side, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
                    scores = self._picked_of_all(side)
                    rows = written.value_of(other, self.model.definitions)
                    is_counted = bool(scores) and python_ast.dotted(_counted(rows)) == scores
                    if is_counted and self._is_matrix(scores, node):
                        yield OverAll(python_ast.site_of(side), python_ast.site_of(node))

    def _is_matrix(self, name: str, near: ast.AST) -> bool:
        """Whether a function transposes a tensor, or takes its cross-entropy: then it has rows."""
        function = self.model.tree.scope_around(near)
        for call in (item for item in names.own_nodes(function) if isinstance(item, ast.Call)):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            called = python_ast.called_name(call)
            if called == "t" and owner is not None and python_ast.dotted(owner) == name:
                return True
            if called == "cross_entropy" and call.args and python_ast.dotted(call.args[0]) == name:
                return True
        return False

    def _picked_of_all(self, node: ast.expr) -> str:
        """The name of the tensor of whose elements `x.argmax()` or `torch.argmax(x.t())` picks one."""
        node = choices.kept(written.value_of(node, self.model.definitions))
        if not isinstance(node, ast.Call) or node.keywords or python_ast.called_name(node) != "argmax":
            return ""
        name, of, _ = choices.choice(node, self.model.definitions)
        is_method = isinstance(node.func, ast.Attribute) and of is node.func.value
        if of is None or not name or len(node.args) != (0 if is_method else 1):
            return ""
        if isinstance(of, ast.Call) and python_ast.called_name(of) == "t" and isinstance(of.func, ast.Attribute):
            of = of.func.value
        return python_ast.dotted(of)

    def _predictions(self, loop: ast.For) -> Iterator[OverBatch]:
        """The predictions along dimension 0 that a loop compares with the labels of its batch."""
        outputs = _outputs(loop)
        for call in (item for item in python_ast.walk(loop) if outputs and isinstance(item, ast.Call)):
            name, of, dimension = choices.choice(call, self.model.definitions)
            base = batch_sums.tensor_of(choices.kept(of)) if of is not None else None
            if dimension == 0 and isinstance(base, ast.Name) and base.id in outputs:
                compared = _comparison(call, loop, self.model.tree)
                if compared is not None:
                    yield OverBatch(python_ast.site_of(call), python_ast.site_of(compared), name)

    def report_OverAll(self, found: OverAll) -> None:
        self.report(
            found.site,
            "`argmax` without a dimension picks one element of the whole tensor, not one in each row",
            related=[(found.use, "this compares it with the label of each row")],
            help="use `dim=1`",
        )

    def report_OverNamed(self, found: OverNamed) -> None:
        self.report(
            found.site,
            f"the softmax is along dimension {found.dimension}, which is the batch: its size is `{found.size}`",
            related=[(found.view, "the dimensions are named here")],
            help="use the dimension of the classes, such as `dim=-1`",
        )

    def report_OverBatch(self, found: OverBatch) -> None:
        if found.picks:
            message = f"`{found.picks}` along dimension 0 picks a sample of the batch, not a class"
        else:
            message = "the softmax is along dimension 0, which is the batch dimension"
        self.report(found.site, message, related=[(found.use, "this expects classes")], help="use `dim=1`")


def _counted(node: ast.expr) -> ast.expr | None:
    """The tensor whose rows `torch.arange(len(x))` counts."""
    if not isinstance(node, ast.Call) or python_ast.called_name(node) != "arange" or len(node.args) != 1:
        return None
    length = node.args[0]
    if isinstance(length, ast.Call) and python_ast.called_name(length) == "len" and len(length.args) == 1:
        return length.args[0]
    if isinstance(length, ast.Subscript) and isinstance(length.value, ast.Attribute) and length.value.attr == "shape":
        return length.value.value if isinstance(length.slice, ast.Constant) and length.slice.value == 0 else None
    if isinstance(length, ast.Call) and isinstance(length.func, ast.Attribute) and length.func.attr == "size":
        is_first = len(length.args) == 1 and isinstance(length.args[0], ast.Constant) and length.args[0].value == 0
        return length.func.value if is_first else None
    return None


def _batch(loop: ast.For) -> set[str]:
    """The variables of a batch, also those of `x, y = batch` in the loop."""
    found = python_ast.names_in(loop.target)
    for node in python_ast.walk(loop):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in found:
            if isinstance(node.targets[0], (ast.Tuple, ast.List)):
                found |= python_ast.names_in(node.targets[0])
    return found


def _outputs(loop: ast.For) -> set[str]:
    """The variables that only get the result of a call for a whole batch: `output = model(x)`."""
    batch, found, others = _batch(loop), set[str](), set[str]()
    for node in (item for item in python_ast.walk(loop) if isinstance(item, ast.Assign)):
        targets = {name for target in node.targets for name in python_ast.names_in(target)}
        if targets & batch and any(isinstance(item, ast.Subscript) for item in python_ast.walk(node.value)):
            return set()
        first = python_ast.dotted(node.value.func).partition(".")[0] if isinstance(node.value, ast.Call) else ""
        given = node.value.args if isinstance(node.value, ast.Call) else []
        is_output = first not in _FUNCTIONS | batch and any(
            isinstance(item, ast.Name) and item.id in batch for item in given
        )
        (found if is_output and isinstance(node.targets[0], ast.Name) else others).update(targets)
    return found - others


def _comparison(prediction: ast.Call, loop: ast.For, tree: PythonTree) -> ast.Compare | None:
    """The _comparison of a prediction, or of the variable that gets it, with a variable of the batch."""
    batch, statement = _batch(loop), tree.parent(prediction)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    made = {name for target in targets for name in python_ast.names_in(target)} - {"_"}
    for node in python_ast.walk(loop):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            sides = (node.left, node.comparators[0])
            for side, other in (sides, sides[::-1]):
                if (
                    (made & python_ast.names_in(side) or prediction in python_ast.walk(side))
                    and batch & python_ast.names_in(other)
                    and not made & python_ast.names_in(other)
                ):
                    return node
    return None

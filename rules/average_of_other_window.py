"""Running losses that are divided by the wrong number of batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import batch_sums, loop_results, names, written
from torchlint.model.relations import gradients
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.syntax.python_ast import Site


class EachBatch(NamedTuple):
    """`total` starts over in each iteration, at `site`, but is divided at `division` by `window`, an interval."""

    site: Site
    division: Site
    total: str
    window: str


class FromOne(NamedTuple):
    """`total` is divided at `site` by `counter`, which starts at 1, at `start`, and grows with each addition."""

    site: Site
    start: Site
    total: str
    counter: str


class OtherWindow(NamedTuple):
    """`total` contains the losses of `window` batches and is divided by `divisor` at `site`."""

    site: Site
    condition: Site
    total: str
    window: int
    divisor: int


class OverEpochs(NamedTuple):
    """`total` contains the losses of one epoch, and is divided at `site` by `number`, the number of epochs."""

    site: Site
    epochs: Site
    total: str
    number: str


class AverageOfOtherWindow(Rule):
    """A running loss is divided by the wrong number of batches.

    ## What it does
    Finds losses that a training loop sums, divides by a literal number and resets to 0 every `N` iterations, where the
    literal is not `N`. Also finds losses that the code divides by `N` every `N` iterations, but resets to 0 in each
    iteration. Also finds losses that the code sums over the batches of one epoch and divides by the number of
    epochs, and sums that are divided by a count that starts at 1.

    ## Why is this bad?
    The printed loss is wrong by a constant factor. The error usually appears when someone changes the interval but not
    the divisor. The number is not comparable with the validation loss.

    ## Example
    ```python
    def train(model, loader, criterion, optimizer):
        running = 0.0
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item()
            if i % 100 == 99:
                print(running / 2000)
                running = 0.0
    ```

    Use instead:
    ```python
    def train(model, loader, criterion, optimizer):
        running = 0.0
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item()
            if i % 100 == 99:
                print(running / 100)
                running = 0.0
    ```

    ## References
    - [Training a classifier](https://docs.pytorch.org/tutorials/beginner/blitz/cifar10_tutorial.html)
    """

    code = "TL636"
    category = Category.SUSPICIOUS
    triggers = (
        (b"backward", b"no_grad", b"inference_mode", b"eval"),
        (b"%", b"range(", b"= 1"),
        (b"+=",),
        (b"/",),
        (b"torch", b"backward"),
    )

    def ask(self) -> Iterator[OtherWindow | OverEpochs | FromOne | EachBatch]:
        tree = self.model.tree
        if not self.model.is_test:
            yield from _counts_from_one(self.model)
        keywords = (item.arg for item in tree.of_type(ast.keyword))
        if self.model.is_test or any(name in ("reduction", "size_average") for name in keywords):
            return
        for loop in tree.of_type(ast.For):
            yield from self._over_epochs(loop)
            yield from self._each_batch(loop)
        for branch in tree.of_type(ast.If):
            loop, window = tree.parent(branch), _window(branch.test)
            if window is None or not isinstance(loop, ast.For):
                continue
            resets = {
                name for item in branch.body for name, value in loop_results.bound(item) if loop_results.is_zero(value)
            }
            for division in (item for statement in branch.body for item in python_ast.walk(statement)):
                if not isinstance(division, ast.BinOp) or not isinstance(division.op, ast.Div):
                    continue
                total, divisor = batch_sums.name_of(batch_sums.tensor_of(division.left)), division.right
                if total not in resets or not isinstance(divisor, ast.Constant) or type(divisor.value) is not int:
                    continue
                is_scaled = isinstance(tree.parent(division), ast.BinOp)
                is_other = divisor.value not in (window, 1) and not _is_averaged(total, window, branch)
                if is_other and not is_scaled and _sums_losses(total, loop):
                    sites = python_ast.site_of(tree.statement(division)), python_ast.site_of(branch.test)
                    yield OtherWindow(*sites, total, window, divisor.value)

    def _over_epochs(self, epochs: ast.For) -> Iterator[OverEpochs]:
        """The divisions by the number of epochs of what one epoch sums over its batches."""
        count = _number_of(epochs.iter)
        resets = set[str]()
        for index, statement in enumerate(epochs.body if count else ()):
            resets |= {name for name, value in loop_results.bound(statement) if loop_results.is_zero(value)}
            is_batches = isinstance(statement, ast.For) and naming.LOADER.search(batch_sums.iterated(statement.iter))
            if not isinstance(statement, ast.For) or not is_batches:
                continue
            rest = (item for later in epochs.body[index + 1 :] for item in python_ast.walk(later))
            for division in (item for item in rest if isinstance(item, (ast.BinOp, ast.AugAssign))):
                divisor = division.right if isinstance(division, ast.BinOp) else division.value
                total = batch_sums.dividend(division) if isinstance(division.op, ast.Div) else ""
                if total in resets and python_ast.dotted(divisor) == count and _sums_losses(total, statement):
                    yield OverEpochs(python_ast.site_of(division), python_ast.site_of(epochs), total, count)

    def _each_batch(self, loop: ast.For) -> Iterator[EachBatch]:
        """The sums of one batch only, because each iteration resets them, that are divided by an interval."""
        statements = list(loop_results.each_iteration(loop.body))
        resets = {
            name: item for item in statements for name, value in loop_results.bound(item) if loop_results.is_zero(value)
        }
        for branch in (item for item in statements if resets and isinstance(item, ast.If)):
            rest = gradients.windows.remainder(branch.test) or _end_of_window(branch.test)
            if rest is None or (not python_ast.dotted(rest.right) and _window(branch.test) in (None, 1)):
                continue
            for division in (item for statement in branch.body for item in python_ast.walk(statement)):
                if not isinstance(division, ast.BinOp) or not isinstance(division.op, ast.Div):
                    continue
                total = batch_sums.name_of(batch_sums.tensor_of(division.left))
                is_same = ast.dump(division.right) == ast.dump(rest.right)
                if is_same and total in resets and _sums_losses(total, loop):
                    sites = python_ast.site_of(resets[total]), python_ast.site_of(division)
                    yield EachBatch(*sites, total, self.model.tree.code(rest.right))

    def report_EachBatch(self, found: EachBatch) -> None:
        self.report(
            found.site,
            f"`{found.total}` starts over after each batch, but is divided by `{found.window}`, as if it had so many",
            related=[(found.division, "it is divided here")],
            help="reset it where it is divided, below the condition",
        )

    def report_OverEpochs(self, found: OverEpochs) -> None:
        self.report(
            found.site,
            f"`{found.total}` has the losses of one epoch, but is divided by the number of epochs, `{found.number}`",
            related=[(found.epochs, "the epochs are here")],
            help="divide by the number of batches",
        )

    def report_FromOne(self, found: FromOne) -> None:
        self.report(
            found.site,
            f"`{found.counter}` starts at 1 and grows with each addition to `{found.total}`: the average is too small",
            related=[(found.start, "it starts here")],
            help="start the count at 0",
        )

    def report_OtherWindow(self, found: OtherWindow) -> None:
        self.report(
            found.site,
            f"`{found.total}` contains the losses of {found.window} batches, but is divided by {found.divisor}",
            related=[(found.condition, "the interval is here")],
            help=f"divide by {found.window}",
        )


def _number_of(iterable: ast.expr) -> str:
    """The name of the number of iterations: `n` of `range(n)`, `range(1, n + 1)` or `tqdm(range(n))`."""
    iterable = batch_sums.unwrapped(iterable)
    if not isinstance(iterable, ast.Call) or python_ast.called_name(iterable) not in ("range", "trange"):
        return ""
    last = iterable.args[min(len(iterable.args), 2) - 1] if iterable.args else iterable
    return python_ast.dotted(last.left if isinstance(last, ast.BinOp) and isinstance(last.op, ast.Add) else last)


def _window(test: ast.expr) -> int | None:
    """The interval of a condition: 100 for `i % 100 == 99`, `(i + 1) % 100 == 0` and `not i % 100`."""
    is_compared = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)
    rest = test.left if isinstance(test, ast.Compare) and is_compared else test
    rest = rest.operand if isinstance(rest, ast.UnaryOp) and isinstance(rest.op, ast.Not) else rest
    if rest is test or not isinstance(rest, ast.BinOp) or not isinstance(rest.op, ast.Mod):
        return None
    return rest.right.value if isinstance(rest.right, ast.Constant) and type(rest.right.value) is int else None


def _end_of_window(test: ast.expr) -> ast.BinOp | None:
    """`i % k` of `i % k == k - 1`, or of `i % 100 == 99`."""
    left = test.left if isinstance(test, ast.Compare) and gradients.windows.window_end(test) is not None else None
    return left if isinstance(left, ast.BinOp) else None


def _is_averaged(total: str, window: int, branch: ast.If) -> bool:
    """Whether code also divides a total by its window, so that the other division is for another unit."""
    divisions = (
        item for item in python_ast.walk(branch) if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Div)
    )
    own = (item for item in divisions if batch_sums.name_of(batch_sums.tensor_of(item.left)) == total)
    return any(isinstance(item.right, ast.Constant) and item.right.value == window for item in own)


def _sums_losses(total: str, loop: ast.For) -> bool:
    """Whether a loop adds to a total, once in each iteration, the loss that calls `backward`."""
    inside = list(python_ast.walk(loop))
    added = [item for item in inside if isinstance(item, ast.AugAssign) and batch_sums.name_of(item.target) == total]
    if len(added) != 1 or added[0] not in list(loop_results.each_iteration(loop.body)):
        return False
    loss = batch_sums.name_of(batch_sums.tensor_of(added[0].value))
    calls = (item for item in inside if isinstance(item, ast.Call) and python_ast.called_name(item) == "backward")
    is_new = loss and not any(
        isinstance(item, ast.AugAssign) and batch_sums.name_of(item.target) == loss for item in inside
    )
    return bool(is_new) and any(python_ast.dotted(call.func) == f"{loss}.backward" for call in calls)


def _counts_from_one(model: Model) -> Iterator[FromOne]:
    """The divisions of a sum by a count that starts at 1, though the sum starts at 0."""
    for loop in model.tree.of_type(ast.For):
        added = [
            item
            for item in loop_results.each_iteration(loop.body)
            if isinstance(item, ast.AugAssign) and isinstance(item.op, ast.Add) and isinstance(item.target, ast.Name)
        ]
        if len(added) > 1:
            yield from _of_loop(loop, {python_ast.dotted(item.target): item for item in added}, model)


def _of_loop(loop: ast.For, added: dict[str, ast.AugAssign], model: Model) -> Iterator[FromOne]:
    scope = model.tree.scope_around(loop)
    nodes = list(names.own_nodes(scope))
    for division in nodes:
        if not isinstance(division, (ast.BinOp, ast.AugAssign)) or not isinstance(division.op, ast.Div):
            continue
        divisor = division.right if isinstance(division, ast.BinOp) else division.value
        total, count = batch_sums.dividend(division), python_ast.dotted(divisor)
        if division.lineno <= (loop.end_lineno or 0) or total == count or not {total, count} <= added.keys():
            continue
        first, last = sorted((added[total], added[count]), key=lambda item: item.lineno)
        between = (item for item in nodes if isinstance(item, (ast.Continue, ast.Break)))
        if any(first.lineno < item.lineno < last.lineno for item in between):
            continue
        starts = [_start(name, added[name], loop, division, model) for name in (total, count)]
        if starts[1] is not None and _is_number(starts[1], 1) and starts[0] is not None:
            if _is_zero(starts[0]) and _counts(added[count].value):
                yield FromOne(python_ast.site_of(division), python_ast.site_of(starts[1]), total, count)


def _start(
    name: str, addition: ast.AugAssign, loop: ast.For, division: ast.expr | ast.stmt, model: Model
) -> ast.expr | None:
    """The only value of a variable before a loop, set in the loop's block, if only the addition changes it there."""
    before, scope = list(model.tree.before(loop)), model.tree.scope_around(loop)
    end = division.lineno
    found: list[ast.expr | None] = []
    for node in python_ast.walk(scope):
        if not isinstance(node, ast.Name) or node.id != name or isinstance(node.ctx, ast.Load):
            continue
        statement = model.tree.statement(node)
        if statement is addition or node.lineno >= end:
            continue
        if statement not in before:
            return None
        found.append(written.assigned(node, model.definitions))
    return found[0] if len(found) == 1 else None


def _counts(added: ast.expr) -> bool:
    """Whether an addition counts a batch or its samples."""
    return _is_number(added, 1) or batch_sums.is_batch_size(added)


def _is_number(node: ast.expr, number: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == number


def _is_zero(node: ast.expr) -> bool:
    """Whether an expression is 0: `0.0`, `torch.tensor(0.0).to(device)`, `torch.zeros(1)`."""
    node = python_ast.without_calls(node, ("to", "cuda"))
    if isinstance(node, ast.Call):
        name = python_ast.called_name(node)
        return name == "zeros" or (name == "tensor" and len(node.args) == 1 and _is_number(node.args[0], 0))
    return _is_number(node, 0)

"""Averages of an epoch that contain only the last batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Confidence, Rule
from torchlint.model.queries import batch_sums, lengths, loop_results, names
from torchlint.pytorch import naming
from torchlint.syntax import python_ast
from torchlint.syntax.python_ast import Site

_READING = frozenset("item detach cpu float double mean sum numpy clone tolist".split())
_KEEPING = frozenset({"append"})
_CONVERTING = frozenset({"float", "int"})


class LastBatch(NamedTuple):
    """The value at `use` should cover an epoch, but `assignment` replaces it in each batch of `loop`."""

    use: Site
    assignment: Site
    loop: Site
    name: str
    is_average: bool
    """Whether it is divided by the number of batches or samples. Otherwise it is stored as the loss of the epoch."""
    is_single: bool = False
    """Whether it is the only value of a list whose mean the code takes."""


class LastBatchAverage(Rule):
    """The average of an epoch contains only the loss of its last batch.

    ## What it does
    Finds a loss (or a count of correct predictions) that `=` overwrites in each batch. After the loop, the code divides
    it by the number of batches or samples: `len(loader)`, or a counter of the loop. Also finds a mean over a list that
    gets its only value after the loop. Reported only with `--preview`: code that appends the loss of the last batch in
    each epoch.

    ## Why is this bad?
    The number is not an average. It is the value of one batch, divided by the number of all batches or samples. It
    looks like a very low loss and changes with the size of the dataset. It misleads early stopping and model selection.

    ## Example
    ```python
    def train(model, loader, criterion, optimizer):
        for epoch in range(10):
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                total = loss.item()
            print(epoch, total / len(loader))
    ```

    Use instead:
    ```python
    def train(model, loader, criterion, optimizer):
        for epoch in range(10):
            total = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
            print(epoch, total / len(loader))
    ```

    ## References
    - [Training with PyTorch](https://docs.pytorch.org/tutorials/beginner/introyt/trainingyt.html)
    """

    code = "TL612"
    category = Category.SUSPICIOUS
    triggers = ((b"len", b"append", b"+="), (b"for",), (b"backward", b"no_grad", b"eval"))

    def ask(self) -> Iterator[LastBatch]:
        for loop in [] if self.model.is_test else self.model.tree.of_type(ast.For):
            loader = batch_sums.loader_of(loop, self.model.definitions)
            if loader:
                yield from self._in_loop(loop, loader)

    def _in_loop(self, loop: ast.For, loader: str) -> Iterator[LastBatch]:
        """The values that each batch overwrites and that the code after the loop uses for the epoch."""
        inside = list(names.own_nodes(loop))
        assigned = [item for item in inside if isinstance(item, ast.Assign) and len(item.targets) == 1]
        behind = [
            item for statement in loop_results.statements(loop, self.model.tree) for item in python_ast.walk(statement)
        ]
        if not assigned or not behind:
            return
        if (single := self._single(loop, inside, behind)) is not None:
            yield single
            return
        for node, target in ((item, part) for item in assigned for part in _parts(item.targets[0])):
            name = self._place(target)
            is_part = target is not node.targets[0]
            is_of_batch = (
                _is_part_of_batch(node, name, inside) if is_part else self._is_of_batch(node.value, name, inside)
            )
            if name and is_of_batch and not self._is_summed(name, loop):
                use = self._division(behind, name, loader, loop)
                if use is not None:
                    sites = [python_ast.site_of(item) for item in (use, node, loop)]
                    yield LastBatch(sites[0], sites[1], sites[2], name, is_average=True)
                    return
        yield from self._kept(loop, inside, assigned)

    def _kept(self, loop: ast.For, inside: list[ast.AST], assigned: list[ast.Assign]) -> Iterator[LastBatch]:
        """A loss that is appended after the loop, once for each epoch."""
        if not isinstance(self.model.tree.parent(loop), python_ast.LOOPS):
            return
        for statement in loop_results.statements(loop, self.model.tree):
            call = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(call, ast.Call) and python_ast.called_name(call) in _KEEPING and len(call.args) == 1:
                name = self._place(_base(call.args[0]))
                made = next((item for item in assigned if self._place(item.targets[0]) == name), None)
                if made is not None and isinstance(made.value, ast.Call) and _goes_backward(name, inside):
                    if not self._is_summed(name, loop):
                        sites = [python_ast.site_of(item) for item in (call, made, loop)]
                        yield LastBatch(sites[0], sites[1], sites[2], name, is_average=False)
                        return

    def _single(self, loop: ast.For, inside: list[ast.AST], behind: list[ast.AST]) -> LastBatch | None:
        """A list that is averaged although it contains one value, because the `append` is after the loop."""
        scope = self.model.tree.scope_around(loop)
        for call in (item for item in behind if isinstance(item, ast.Call) and _appends(item)):
            assert isinstance(call.func, ast.Attribute)
            name, value = self._place(call.func.value), self._place(_base(call.args[0]))
            made = next(
                (item for item in inside if isinstance(item, ast.Assign) and self._place(item.targets[0]) == value),
                None,
            )
            uses = [item for item in python_ast.walk(scope) if name and self._place(item) == name]
            starts = [item for item in uses if _is_empty_list(self.model.tree.parent(item))]
            means = [item for item in behind if isinstance(item, ast.Call) and _is_mean_of(item, uses)]
            rest = [item for item in uses if item is not call.func.value and item not in starts]
            if made is None or not means or len(starts) != 1 or len(rest) != len(means):
                continue
            around = {self.model.tree.loop_around(item) for item in (starts[0], loop, call)}
            if len(around) == 1:
                sites = [python_ast.site_of(item) for item in (call, made, loop)]
                return LastBatch(sites[0], sites[1], sites[2], value, is_average=True, is_single=True)
        return None

    def _place(self, target: ast.AST) -> str:
        """A variable, attribute or slot as the code spells it: `total`, `self.total`, `history["loss"]`."""
        if isinstance(target, (ast.Name, ast.Attribute)):
            return python_ast.dotted(target)
        return ast.unparse(target) if isinstance(target, ast.Subscript) else ""

    def _is_of_batch(self, value: ast.expr, name: str, inside: list[ast.AST]) -> bool:
        """Whether a value belongs to one batch: a loss that calls `backward` in the loop, or a count of matches."""
        factors = (
            [value.left, value.right] if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult) else [value]
        )
        rest = [item for item in factors if not batch_sums.is_batch_size(item)]
        base = _base(rest[0]) if len(rest) == 1 else None
        if base is None or base is value:
            return isinstance(value, ast.Call) and (_goes_backward(name, inside) or _is_loss(value))
        if isinstance(base, ast.Compare) or batch_sums.matches(value) is not None:
            return True
        loss = self._place(base)
        made = [item.value for item in inside if isinstance(item, ast.Assign) and self._place(item.targets[0]) == loss]
        sums = any(isinstance(item, ast.AugAssign) and self._place(item.target) == loss for item in inside)
        is_call = bool(made) and all(isinstance(item, ast.Call) for item in made)
        if _goes_backward(loss, inside):
            is_new = bool(made) and loss not in map(self._place, python_ast.walk(made[0]))
            return bool(loss) and loss != name and is_new and not sums
        is_loss = all(
            isinstance(item, ast.Call)
            and (_is_loss(item) or self.model.definitions.named(item.func).startswith("torch.nn.functional."))
            for item in made
        )
        return bool(loss) and loss != name and is_call and is_loss and not sums

    def _is_summed(self, name: str, loop: ast.For) -> bool:
        """Whether the function adds to a place, or binds it to an expression of itself."""
        function = self.model.tree.scope_around(loop)
        for node in python_ast.walk(function):
            if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)):
                if self._place(node.target) == name and self._place(_base(node.value)) != name:
                    return True
            if isinstance(node, ast.Assign) and any(self._place(item) == name for item in node.targets):
                if any(self._place(item) == name for item in python_ast.walk(node.value)):
                    return not _divides(node.value)
        return False

    def _division(self, behind: list[ast.AST], name: str, loader: str, loop: ast.For) -> ast.AST | None:
        """The place where a value is divided by the number of batches or samples of the loader."""
        for node in behind:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                dividend, divisor = node.left, node.right
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
                dividend, divisor = node.target, node.value
            else:
                continue
            if self._place(_base(_without_percent(dividend))) != name:
                continue
            if lengths.own_count(divisor, loop, self.model.definitions) is not None:
                return node
            if isinstance(divisor, ast.Name):
                divisor = names.only_value(divisor, self.model.definitions) or divisor
            counted = batch_sums.counted(divisor)
            if counted is not None and counted[0] == loader:
                return node
        return None

    # -- report ---------------------------------------------------------------------------------------

    def report_LastBatch(self, last: LastBatch) -> None:
        if last.is_single:
            message = "this runs once, after the loop over batches: the mean covers only the value of the last batch"
        elif last.is_average:
            message = (
                f"`{last.name}` is the value of the last batch divided by the number of all batches or samples: "
                "it is not an average"
            )
        else:
            message = f"`{last.name}` is the loss of the last batch, but is stored as the loss of the epoch"
        self.report(
            last.use,
            message,
            related=[(last.assignment, "each batch overwrites it here"), (last.loop, "the loop over batches is here")],
            help="sum it in the loop with `total += loss.item()`, starting from 0 in each epoch",
            confidence=Confidence.MEDIUM if last.is_average else Confidence.LOW,
        )


def _base(value: ast.expr) -> ast.expr:
    """The expression that a number comes from: `loss` of `loss.detach().item()` and `float(loss)`."""
    while isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute) and value.func.attr in _READING:
            value = value.func.value
        elif isinstance(value.func, ast.Name) and value.func.id in _CONVERTING and len(value.args) == 1:
            value = value.args[0]
        else:
            break
    return value


def _parts(target: ast.expr) -> list[ast.expr]:
    """The targets of an assignment: itself, or the variables of a tuple."""
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _is_part_of_batch(node: ast.Assign, name: str, inside: list[ast.AST]) -> bool:
    """Whether one of several results of a call is a loss of the batch: it goes backward, or a total adds it."""
    if not isinstance(node.value, ast.Call) or any(
        python_ast.dotted(item) == name for item in python_ast.walk(node.value)
    ):
        return False
    added = (item.value for item in inside if isinstance(item, ast.AugAssign) and isinstance(item.op, ast.Add))
    return _goes_backward(name, inside) or any(python_ast.dotted(_base(value)) == name for value in added)


def _without_percent(dividend: ast.expr) -> ast.expr:
    """The factor of `100 * correct` that is no literal number."""
    if not isinstance(dividend, ast.BinOp) or not isinstance(dividend.op, ast.Mult):
        return dividend
    factors = [side for side in (dividend.left, dividend.right) if not isinstance(side, ast.Constant)]
    return factors[0] if len(factors) == 1 else dividend


def _goes_backward(name: str, inside: list[ast.AST]) -> bool:
    """Whether a loop calls `backward` on a name or on its scaled form."""
    calls = (node for node in inside if isinstance(node, ast.Call) and python_ast.called_name(node) == "backward")
    return any(python_ast.dotted(item) == name for call in calls for item in python_ast.walk(call))


def _divides(value: ast.expr) -> bool:
    """Whether an expression is a quotient, also as a number: `(loss / n).cpu().numpy()`."""
    while isinstance(value, (ast.Call, ast.Attribute)):
        inner = _base(value)
        inner = inner.value if inner is value and isinstance(inner, ast.Attribute) and inner.attr == "data" else inner
        if inner is value:
            return False
        value = inner
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div)


def _is_loss(call: ast.Call) -> bool:
    """Whether a call computes the loss of one batch: `criterion(model(x), y)`."""
    return len(call.args) == 2 and bool(naming.LOSS.search(python_ast.called_name(call)))


def _appends(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "append" and len(call.args) == 1


def _is_empty_list(statement: ast.AST | None) -> bool:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    return isinstance(statement.value, ast.List) and not statement.value.elts


def _is_mean_of(call: ast.Call, uses: list[ast.AST]) -> bool:
    return python_ast.called_name(call) in ("mean", "fmean") and len(call.args) == 1 and call.args[0] in uses

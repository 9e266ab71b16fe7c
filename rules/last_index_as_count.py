"""Averages that divide by the last index of a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import batch_sums, names, numbers, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class LastIndex(NamedTuple):
    """The divisor at `division`, and later at `others`, is the last index of the loop at `loop`."""

    division: Site
    loop: Site
    name: str
    others: tuple[Site, ...]


class OneMore(NamedTuple):
    """The divisor `code` at `division` is one more than the number of batches in the sum of the loop at `loop`."""

    division: Site
    loop: Site
    code: str


class LastIndexAsCount(Rule):
    """A sum over batches is divided by the last index, which is one too small.

    ## What it does
    Finds sums over the batches of a loop that are divided after it by the index of `enumerate`, which counts from 0, or
    by a variable to which each iteration assigns this index. Also finds sums that are divided by `len(loader) + 1`,
    although only the loop adds to them.

    ## Why is this bad?
    The last index is the number of batches minus one. Each average is too large, most of all with few batches. A loader
    with one batch raises `ZeroDivisionError`.

    ## Example
    ```python
    import torch

    @torch.no_grad()
    def validate(loader, criterion):
        total = 0.0
        for i, batch in enumerate(loader):
            total += criterion(batch).item()
        return total / i
    ```

    Use instead:
    ```python
    import torch

    @torch.no_grad()
    def validate(loader, criterion):
        total = 0.0
        for i, batch in enumerate(loader):
            total += criterion(batch).item()
        return total / (i + 1)
    ```
    """

    code = "TL632"
    category = Category.CORRECTNESS
    triggers = ((b"+=",), (b"/",), (b"enumerate", b"len"), (b"torch",))

    def ask(self) -> Iterator[LastIndex | OneMore]:
        indices: dict[Site, list[ast.Name]] = {}
        for division in [] if self.model.is_test else self.model.tree.of_type(ast.BinOp, ast.AugAssign):
            divisor = division.right if isinstance(division, ast.BinOp) else division.value
            if isinstance(division.op, ast.Div) and isinstance(divisor, ast.BinOp):
                yield from self._one_more(division, divisor)
            if not isinstance(division.op, ast.Div) or not isinstance(divisor, ast.Name):
                continue
            loop = self._loop(divisor)
            if loop is not None and self._is_added(batch_sums.dividend(division), loop):
                indices.setdefault(python_ast.site_of(loop), []).append(divisor)
        for loop_site, divisors in indices.items():
            first, *others = (python_ast.site_of(self._division(item)) for item in divisors)
            yield LastIndex(first, loop_site, divisors[0].id, tuple(others))

    def _division(self, divisor: ast.Name) -> ast.AST:
        division = self.model.tree.parent(divisor)
        assert division is not None
        return division

    def _one_more(self, division: ast.BinOp | ast.AugAssign, divisor: ast.BinOp) -> Iterator[OneMore]:
        """A division by `len(loader) + 1` of a total to which only a loop over the loader adds."""
        counted = batch_sums.counted(divisor.left)
        is_more = isinstance(divisor.op, ast.Add) and numbers.literal(divisor.right) == 1
        if not is_more or counted is None or counted[1]:
            return
        total, scope = batch_sums.dividend(division), self.model.tree.scope_around(division)
        nodes = [node for node in names.own_nodes(scope) if isinstance(node, (ast.For, ast.AugAssign, ast.Assign))]
        added = [node for node in nodes if isinstance(node, ast.AugAssign) and batch_sums.name_of(node.target) == total]
        starts = [
            node.value for node in nodes
            if isinstance(node, ast.Assign) and any(batch_sums.name_of(item) == total for item in node.targets)
        ]  # fmt: skip
        is_sum = bool(starts) and all(isinstance(item, ast.Constant) and item.value == 0 for item in starts)
        for loop in nodes if is_sum and len([item for item in added if item is not division]) == 1 else ():
            is_before = isinstance(loop, ast.For) and (loop.end_lineno or loop.lineno) < division.lineno
            if isinstance(loop, ast.For) and is_before and self._is_added(total, loop):
                if batch_sums.loader_of(loop, self.model.definitions) == counted[0]:
                    sites = python_ast.site_of(division), python_ast.site_of(loop)
                    yield OneMore(*sites, self.model.tree.code(divisor))

    def _loop(self, divisor: ast.Name) -> ast.For | None:
        """The loop before a division whose index starts at 0 and stays unchanged until the division."""
        scope = self.model.tree.scope_around(divisor)
        stores = [
            node for node in names.own_nodes(scope)
            if isinstance(node, ast.Name) and node.id == divisor.id and not written.is_load(node)
            and node.lineno <= divisor.lineno
        ]  # fmt: skip
        last = max(stores, key=lambda node: node.lineno, default=None)
        last = self._index(last) if last is not None else None
        around = self.model.tree.parent(last) if last is not None else None
        loop = self.model.tree.parent(around) if isinstance(around, ast.Tuple) and around.elts[0] is last else None
        if not isinstance(loop, ast.For) or loop.target is not around or not _counts_from_zero(loop.iter):
            return None
        leaves = any(isinstance(node, (ast.Break, ast.Continue)) for node in python_ast.walk(loop))
        is_inside = any(item is loop for item in self.model.tree.ancestors(divisor))
        return loop if not leaves and not is_inside else None

    def _index(self, target: ast.Name) -> ast.Name:
        """The index that each iteration of a loop assigns to a variable, or the variable itself: `count = i`."""
        statement = self.model.tree.parent(target)
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Name):
            return target
        around = self.model.tree.parent(statement)
        while isinstance(around, ast.With):
            around = self.model.tree.parent(around)
        if not isinstance(around, ast.For) or not isinstance(around.target, ast.Tuple) or statement in around.orelse:
            return target
        first, copied = around.target.elts[0], statement.value.id
        nodes = [item for item in python_ast.walk(around) if isinstance(item, ast.Name) and not written.is_load(item)]
        is_kept = isinstance(first, ast.Name) and [item for item in nodes if item.id == copied] == [first]
        return first if is_kept and isinstance(first, ast.Name) else target

    def _is_added(self, total: str, loop: ast.For) -> bool:
        """Whether each iteration of a loop adds to a total."""
        for statement in loop.body:
            while isinstance(statement, ast.With) and len(statement.body) == 1:
                statement = statement.body[0]
            nodes = statement.body if isinstance(statement, ast.With) else [statement]
            for node in nodes:
                if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                    if total and batch_sums.name_of(node.target) == total:
                        return True
        return False

    def report_OneMore(self, found: OneMore) -> None:
        self.report(
            found.division,
            f"`{found.code}` is one more than the number of batches in this sum",
            related=[(found.loop, "the batches are summed here")],
            help="divide by the length of the loader",
        )

    def report_LastIndex(self, found: LastIndex) -> None:
        self.report(
            found.division,
            f"this divides by the last index `{found.name}`, which is one less than the number of batches",
            related=[
                (found.loop, "it counts from 0 here"),
                *((site, "it divides another sum here") for site in found.others),
            ],
            help=f"divide by `{found.name} + 1`, or by the length of the loader",
        )


def _counts_from_zero(node: ast.expr) -> bool:
    """Whether a loop runs over `enumerate(loader)`, possibly inside a progress bar."""
    if isinstance(node, ast.Call) and python_ast.called_name(node) in ("tqdm", "track") and node.args:
        node = node.args[0]
    if not isinstance(node, ast.Call) or python_ast.called_name(node) != "enumerate":
        return False
    return len(node.args) == 1 and not node.keywords

"""Two variables that get one value, where each has its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.index import FileIndex
    from torchlint.syntax.python_ast import Site
    from torchlint.syntax.python_tree import PythonTree


class Repeated(NamedTuple):
    """The assignment at `site` computes `lost` from `used`, and drops the value that `made` gives it."""

    site: Site
    made: Site
    lost: str
    used: str


class RepeatedHalf(Rule):
    """Two values get the same expression, so the second value is lost.

    ## What it does
    Finds `h, c = h[:, order], h[:, order]` where an earlier line gives `h` and `c` values of their own, and nothing
    reads `c` between the two lines.

    ## Why is this bad?
    The line repeats the first expression, and the second value is lost. In this example, an LSTM continues with its
    hidden state as cell state. The shapes match, so there is no error.

    ## Example
    ```python
    import torch

    def restore(lstm: torch.nn.LSTM, x, order):
        out, (h, c) = lstm(x)
        h, c = h[:, order], h[:, order]
        return out, (h, c)
    ```

    Use instead:
    ```python
    import torch

    def restore(lstm: torch.nn.LSTM, x, order):
        out, (h, c) = lstm(x)
        h, c = h[:, order], c[:, order]
        return out, (h, c)
    ```
    """

    code = "TL515"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"def ",))

    @classmethod
    def concerns(cls, index: FileIndex) -> bool:
        return any(True for _ in _pairs(index.tree))

    def ask(self) -> Iterator[Repeated]:
        for statement, target, value in [] if self.model.is_test else _pairs(self.model.tree):
            used, lost = map(python_ast.dotted, target.elts)
            read = python_ast.names_read(value)
            if used in read and lost and lost not in read and (made := self._made(statement, used, lost)) is not None:
                yield Repeated(python_ast.site_of(value.elts[1]), python_ast.site_of(made), lost, used)

    def _made(self, statement: ast.Assign, used: str, lost: str) -> ast.Assign | None:
        """The last assignment before a statement that gives both variables a value, if nothing reads the lost one."""
        scope = self.model.tree.scope_around(statement)
        before = [
            node for node in names.own_nodes(scope)
            if isinstance(node, ast.Name) and node.id == lost and node.lineno < statement.lineno
        ]  # fmt: skip
        last = max(before, key=lambda node: (node.lineno, node.col_offset), default=None)
        made = self.model.tree.statement(last) if last is not None and not isinstance(last.ctx, ast.Load) else None
        is_pair = isinstance(made, ast.Assign) and used in python_ast.names_bound(made.targets[0])
        return made if isinstance(made, ast.Assign) and is_pair else None

    def report_Repeated(self, found: Repeated) -> None:
        self.report(
            found.site,
            f"`{found.lost}` gets the same value as `{found.used}`, and its own value is lost",
            related=[(found.made, "both get a value here")],
            help=f"compute it from `{found.lost}`",
        )


def _pairs(tree: PythonTree) -> Iterator[tuple[ast.Assign, ast.Tuple, ast.Tuple]]:
    """The assignments of one computation, written twice, to two variables."""
    for statement in tree.of_type(ast.Assign):
        target, value = statement.targets[0], statement.value
        if len(statement.targets) == 1 and isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            if len(target.elts) == 2 == len(value.elts) and _is_repeated(*value.elts):
                yield statement, target, value


def _is_repeated(first: ast.expr, second: ast.expr) -> bool:
    """Whether two expressions are one computation."""
    return not isinstance(first, (ast.Name, ast.Constant)) and python_ast.written_alike(first, second)

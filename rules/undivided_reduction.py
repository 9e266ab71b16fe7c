"""Gradients that are summed over the processes and never divided."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class Undivided(NamedTuple):
    """The call at `site` sums gradients over the processes."""

    site: Site


class UndividedReduction(Rule):
    """Gradients are summed over all processes but not divided by their number.

    ## What it does
    Finds functions that sum the gradients of parameters with `all_reduce` and divide nothing.

    ## Why is this bad?
    Each process has the mean gradient of its batch. The sum is the mean gradient over all processes, times the number
    of processes. With eight processes, the effective learning rate is eight times the configured one.

    ## Example
    ```python
    import torch.distributed as dist

    def synchronize(model):
        for p in model.parameters():
            dist.all_reduce(p.grad)
    ```

    Use instead:
    ```python
    import torch.distributed as dist

    def synchronize(model):
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
    ```

    ## References
    - [torch.distributed.all_reduce](https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce)
    """

    code = "TL629"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"all_reduce",), (b"grad",))

    def ask(self) -> Iterator[Undivided]:
        if self.model.is_test:
            return
        for call, _ in names.calls_of({"torch.distributed.all_reduce"}, self.model.definitions):
            given, operation = written.argument(call, 0, "tensor"), written.argument(call, 1, "op")
            is_sum = operation is None or python_ast.dotted(operation).endswith(".SUM")
            name = python_ast.dotted(given) if given is not None else ""
            is_gradient = name.endswith((".grad", ".grad.data"))
            function = self.model.tree.function_around(call)
            if is_sum and is_gradient and function is not None and not self._divides(function):
                yield Undivided(python_ast.site_of(call))

    def _divides(self, function: ast.AST) -> bool:
        """Whether a function divides or scales anything, by an operator or a method."""
        for node in python_ast.walk(function):
            if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, (ast.Div, ast.Mult)):
                return True
            if isinstance(node, ast.Call) and python_ast.called_name(node) in (
                "div_",
                "mul_",
                "div",
                "mul",
                "foreach_div_",
            ):
                return True
        return False

    def report_Undivided(self, found: Undivided) -> None:
        self.report(
            found.site,
            "gradients are summed over the processes, but not divided by the number of processes",
            help="divide the gradients by `dist.get_world_size()`, or reduce with `ReduceOp.AVG`",
        )

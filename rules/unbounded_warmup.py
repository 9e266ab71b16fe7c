"""Warm-ups whose factor grows without bound."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.model.queries import names, written
from torchlint.syntax import python_ast


class Unbounded(NamedTuple):
    """The factor at `site` is the step divided by `length`, and grows on after `length` steps at `step`."""

    site: python_ast.Site
    length: str
    step: python_ast.Site


class UnboundedWarmup(Rule):
    """The factor of a warm-up keeps growing after the warm-up.

    ## What it does
    Finds functions for `LambdaLR` that return the step divided by a number of steps, without `min` or a condition.

    The names of the scheduler, the function or the number say that it is a warm-up. Otherwise it may be a learning-rate
    range test.

    Not reported where another scheduler ends the warm-up, as `SequentialLR` does, or where the schedule steps under a
    comparison.

    ## Why is this bad?
    The factor is 1 at the end of the warm-up, and 2 after twice as many steps. The learning rate grows until the
    training diverges.

    ## Example
    ```python
    import torch

    def train(model, optimizer, loader, train_step, warmup_steps):
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / warmup_steps)
        for batch in loader:
            train_step(model, optimizer, batch)
            scheduler.step()
    ```

    Use instead:
    ```python
    import torch

    def train(model, optimizer, loader, train_step, warmup_steps):
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / warmup_steps))
        for batch in loader:
            train_step(model, optimizer, batch)
            scheduler.step()
    ```

    ## References
    - [LambdaLR](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LambdaLR.html)
    """

    code = "TL151"
    category = Category.CORRECTNESS
    triggers = ((b"LambdaLR",), (b"/",), (b".step(",))

    def ask(self) -> Iterator[Unbounded]:
        text = self.model.tree.source.code
        if self.model.is_test or b"SequentialLR" in text or b"ChainedScheduler" in text:
            return
        for call in FileIndex.of(self.model.tree).calls_named("LambdaLR"):
            function = written.argument(call, 1, "lr_lambda")
            result = self._only_result(function) if function is not None else None
            is_warmup = result is not None and function is not None and self._is_warmup(call, function, result)
            step = self._step(call) if is_warmup else None
            if result is not None and step is not None:
                yield Unbounded(python_ast.site_of(result), self.model.tree.code(result.right), step)

    def _is_warmup(self, call: ast.Call, function: ast.expr, result: ast.BinOp) -> bool:
        """Whether a variable, a function or a number of steps is named after the warm-up."""
        around = self.model.tree.statement(call)
        targets = around.targets if isinstance(around, ast.Assign) else []
        parts = [*targets, *([] if isinstance(function, ast.Lambda) else [function]), result.right]
        return any("warm" in self.model.tree.code(part).lower() for part in parts)

    def _only_result(self, function: ast.expr) -> ast.BinOp | None:
        """The only result of a function, if that is its argument divided by something else."""
        function = written.value_of(function, self.model.definitions)
        if isinstance(function, ast.Lambda):
            result, parameters = function.body, [item.arg for item in function.args.args]
        else:
            info = names.function(function, self.model.definitions) if isinstance(function, ast.Name) else None
            ends = [item for item in python_ast.walk(info.node) if isinstance(item, ast.Return)] if info else []
            conditions = [item for item in python_ast.walk(info.node) if isinstance(item, ast.If)] if info else []
            if info is None or len(ends) != 1 or conditions or ends[0].value is None:
                return None
            result, parameters = ends[0].value, list(info.parameters)
        is_quotient = isinstance(result, ast.BinOp) and isinstance(result.op, ast.Div) and len(parameters) == 1
        if not isinstance(result, ast.BinOp) or not is_quotient or parameters[0] in python_ast.names_in(result.right):
            return None
        return result if _counts(result.left, parameters[0]) else None

    def _step(self, call: ast.Call) -> python_ast.Site | None:
        """A step of a scheduler in a loop, if none of its steps depends on a comparison of numbers."""
        statement = self.model.tree.statement(call)
        if not isinstance(statement, ast.Assign) or statement.value is not call:
            return None
        name = python_ast.dotted(statement.targets[0])
        method = self.model.definitions.method_around(call)
        scope: ast.AST = self.model.tree.module if method is None else method.node
        if "." in name and method is not None and method.owner is not None:
            scope = method.owner.node
        steps = [
            item
            for item in python_ast.walk(scope)
            if isinstance(item, ast.Call) and name and python_ast.dotted(item.func) == f"{name}.step"
        ]
        if not steps or any(map(self._is_limited, steps)):
            return None
        return python_ast.site_of(steps[0])

    def _is_limited(self, step: ast.Call) -> bool:
        for item in self.model.tree.ancestors(step):
            if isinstance(item, python_ast.FUNCTIONS):
                return False
            if isinstance(item, (ast.If, ast.While)):
                compared = [part for part in python_ast.walk(item.test) if isinstance(part, ast.Compare)]
                if any(not isinstance(part.ops[0], (ast.Is, ast.IsNot, ast.Eq)) for part in compared):
                    return True
                if python_ast.names_in(item.test) and not compared:
                    return True
        return False

    def report_Unbounded(self, found: Unbounded) -> None:
        self.report(
            found.site,
            f"this factor grows without bound: after `{found.length}` steps the learning rate is above its maximum",
            related=[(found.step, "the schedule steps here")],
            help="limit the factor: `min(1.0, ...)`",
        )


def _counts(node: ast.expr, parameter: str) -> bool:
    """`step`, `step + 1` or `float(step)`."""
    if isinstance(node, ast.Call) and python_ast.called_name(node) == "float" and len(node.args) == 1:
        return _counts(node.args[0], parameter)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return isinstance(node.right, ast.Constant) and _counts(node.left, parameter)
    return isinstance(node, ast.Name) and node.id == parameter

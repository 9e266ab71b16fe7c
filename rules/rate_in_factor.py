"""Functions for `LambdaLR` that return a rate instead of a factor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.index import FileIndex
from torchlint.model.queries import names, written
from torchlint.pytorch import naming
from torchlint.syntax import python_ast

_PLAIN = frozenset("parameters filter list tuple chain".split())


class SquaredRate(NamedTuple):
    """The factor at `site` contains `rate`, which the optimizer created at `made` already has."""

    site: python_ast.Site
    made: python_ast.Site
    rate: str


class RateInFactor(Rule):
    """The function for `LambdaLR` returns a learning rate instead of a factor.

    ## What it does
    Finds functions for `LambdaLR` whose result is a product with the learning rate of the optimizer. The learning rate
    is the same variable, attribute or entry that the optimizer received as `lr`.

    Not reported if the optimizer gets parameter groups, which may have learning rates of their own.

    ## Why is this bad?
    `LambdaLR` multiplies the optimizer's initial rate by the result. The rate is then squared: 0.0001 instead of 0.01.

    ## Example
    ```python
    import torch

    def make(model, lr, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: lr * (1 - epoch / epochs))
    ```

    Use instead:
    ```python
    import torch

    def make(model, lr, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 - epoch / epochs)
    ```

    ## References
    - [LambdaLR](https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LambdaLR.html)
    """

    code = "TL142"
    category = Category.CORRECTNESS
    triggers = ((b"LambdaLR",),)

    def ask(self) -> Iterator[SquaredRate]:
        for call in FileIndex.of(self.model.tree).calls_named("LambdaLR") if not self.model.is_test else ():
            yield from self._squared(call)

    def _squared(self, call: ast.Call) -> Iterator[SquaredRate]:
        optimizer, function = written.argument(call, 0, "optimizer"), written.argument(call, 1, "lr_lambda")
        made = self.model.provenance.created(optimizer) if optimizer is not None else None
        if not isinstance(made, ast.Call) or not naming.is_optimizer_class(python_ast.called_name(made)):
            return
        rate = written.argument(made, 1, "lr")
        results = self._results(function) if function is not None else []
        if rate is None or not results or not self._is_place(rate) or not self._is_rate_of_all(made):
            return
        if all(_multiplies(item, rate) and self._is_same(made, item, rate) for item in results):
            yield SquaredRate(python_ast.site_of(results[0]), python_ast.site_of(made), self.model.tree.code(rate))

    def _is_place(self, rate: ast.expr) -> bool:
        """Whether a rate is a variable, an attribute or an entry with a literal key, and has no literal value."""
        place = rate.value if isinstance(rate, ast.Subscript) and isinstance(rate.slice, ast.Constant) else rate
        if not python_ast.dotted(place) or isinstance(written.value_of(rate, self.model.definitions), ast.Constant):
            return False
        stores = (item for item in self.model.tree.of_type(type(rate)) if isinstance(item.ctx, ast.Store))
        return isinstance(rate, ast.Name) or sum(python_ast.written_alike(item, rate) for item in stores) < 2

    def _is_rate_of_all(self, made: ast.Call) -> bool:
        """Whether an optimizer gets plain parameters: groups may have rates of their own."""
        given = written.argument(made, 0, "params")
        given = written.value_of(given, self.model.definitions) if given is not None else None
        parts = list(python_ast.walk(given)) if given is not None else []
        callees = {python_ast.called_name(item) for item in parts if isinstance(item, ast.Call)}
        is_plain = (
            "parameters" in callees and callees <= _PLAIN and not any(isinstance(item, ast.Dict) for item in parts)
        )
        return is_plain and b"add_param_group" not in self.model.tree.source.code

    def _results(self, function: ast.expr) -> list[ast.expr]:
        """The results of a lambda, or of a function of the file."""
        function = written.value_of(function, self.model.definitions)
        if isinstance(function, ast.Lambda):
            return [function.body]
        info = names.function(function, self.model.definitions) if isinstance(function, ast.Name) else None
        if info is None or info.definitions is not self.model.definitions:
            return []
        ends = [node.value for node in python_ast.walk(info.node) if isinstance(node, ast.Return)]
        return [] if None in ends else [end for end in ends if end is not None]

    def _is_same(self, made: ast.Call, result: ast.expr, rate: ast.expr) -> bool:
        """Whether the variable of a rate is the same in a result: one scope binds it, at most once."""
        name = next((item.id for item in python_ast.walk(rate) if isinstance(item, ast.Name)), "")
        around, within = self.model.definitions.function_around(made), list(self.model.tree.ancestors(result))
        if around is not None and around.node not in within:
            return False
        end = within.index(around.node) if around is not None else len(within) - 1
        inner = (item for scope in within[:end] if isinstance(scope, python_ast.SCOPES) for item in _bound(scope))
        return name not in inner and (not isinstance(rate, ast.Name) or list(_bound(within[end])).count(name) == 1)

    def report_SquaredRate(self, found: SquaredRate) -> None:
        self.report(
            found.site,
            f"`LambdaLR` multiplies the optimizer's rate by this result, which contains `{found.rate}`: "
            "the rate is squared",
            related=[(found.made, f"the optimizer has the rate `{found.rate}`")],
            help=f"return the factor without `{found.rate}`",
        )


def _multiplies(result: ast.expr, rate: ast.expr) -> bool:
    """Whether a result is a product with a rate."""
    if not isinstance(result, ast.BinOp) or not isinstance(result.op, ast.Mult):
        return False
    return any(python_ast.written_alike(side, rate) or _multiplies(side, rate) for side in (result.left, result.right))


def _bound(scope: ast.AST) -> Iterator[str]:
    """The names that a scope binds, with those of the scopes inside."""
    for item in python_ast.walk(scope):
        if isinstance(item, ast.arg):
            yield item.arg
        elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
            yield item.id

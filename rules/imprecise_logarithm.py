"""Logarithms and exponentials that lose some or all of their digits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from torchlint import Category, Rule, edits
from torchlint.model.queries import numbers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class Imprecise(NamedTuple):
    """The expression at `site` is more precise as `instead`, with the argument at `argument`."""

    site: Site
    instead: str
    argument: Site
    more: str = ""
    """The other arguments of `instead`."""


class ImpreciseLogarithm(Rule):
    """A logarithm or exponential is computed in a way that loses precision.

    ## What it does
    Finds `torch.log(1 + x)`, `torch.exp(x) - 1` and `torch.log(torch.sum(torch.exp(x), dim))`, for which PyTorch has
    `log1p`, `expm1` and `logsumexp`. Also finds `torch.log(1 + torch.exp(x))`, which is a softplus.

    ## Why is this bad?
    In single precision, `1 + x` is 1 for an x below 6e-8, so its logarithm is 0. `exp(x) - 1` loses precision in the
    same way. A sum of exponentials is infinite as soon as one x exceeds 88. This rule is off by default, because
    nothing is lost where numbers are never near zero and never large.

    ## Example
    ```python
    import torch

    def excess(x):
        return torch.log(1 + x)
    ```

    Use instead:
    ```python
    import torch

    def excess(x):
        return torch.log1p(x)
    ```

    ## Fix safety
    The fix is unsafe, because results differ in their last digits.

    ## References
    - [torch.log1p](https://docs.pytorch.org/docs/stable/generated/torch.log1p.html)
    - [torch.logsumexp](https://docs.pytorch.org/docs/stable/generated/torch.logsumexp.html)
    """

    code = "TL806"
    category = Category.PEDANTIC
    aliases = ("TOR106", "TOR107", "TOR108")
    triggers = ((b"torch",), (b"log", b"exp"))

    def ask(self) -> Iterator[Imprecise]:
        for call in self.model.tree.of_type(ast.Call):
            if self._is(call, "torch.log") and len(call.args) == 1 and not call.keywords:
                yield from self._logarithm(call, call.args[0])
        for node in self.model.tree.of_type(ast.BinOp):
            if isinstance(node.op, ast.Sub) and numbers.literal(node.right) == 1 and self._is(node.left, "torch.exp"):
                if len(node.left.args) == 1 and not node.left.keywords:
                    yield _imprecise(node, "torch.expm1", node.left.args[0])

    def _logarithm(self, call: ast.Call, inner: ast.expr) -> Iterator[Imprecise]:
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add):
            ones = [side for side in (inner.left, inner.right) if numbers.literal(side) == 1]
            if len(ones) == 1:
                other = inner.right if ones[0] is inner.left else inner.left
                is_softplus = self._is(other, "torch.exp")
                yield _imprecise(call, "torch.nn.functional.softplus" if is_softplus else "torch.log1p", other)
        elif self._is(inner, "torch.sum"):
            names = [item.arg for item in inner.keywords]
            dim = inner.args[1:] + [item.value for item in inner.keywords if item.arg == "dim"]
            if inner.args and self._is(inner.args[0], "torch.exp") and len(inner.args[0].args) == 1:
                if len(dim) == 1 and not python_ast.is_literal(dim[0], None) and names in ([], ["dim"]):
                    more = f", dim={self.model.tree.code(dim[0])}"
                    yield _imprecise(call, "torch.logsumexp", inner.args[0].args[0], more)

    def _is(self, node: ast.AST, name: str) -> TypeGuard[ast.Call]:
        """Whether a node calls the function with a qualified name."""
        if not isinstance(node, ast.Call) or python_ast.called_name(node) != name.rpartition(".")[2]:
            return False
        return self.model.definitions.qualified(python_ast.dotted(node.func), node) == name

    def report_Imprecise(self, answer: Imprecise) -> None:
        self.report(
            answer.site,
            f"this loses digits that `{answer.instead}` keeps",
            help=f"use `{answer.instead}`",
            fix=self._fix(answer),
        )

    def _fix(self, answer: Imprecise) -> edits.Change | None:
        written = self.nodes.at(answer.site) if self.nodes is not None else None
        code = self.model.tree.code(self.model.tree.node(answer.argument))
        name = answer.instead
        is_named = self.model.definitions.qualified(name, self.model.tree.node(answer.site)) == name
        if written is None or not is_named or name.count(".") > 1 or "\n" in code + answer.more:
            return None
        return edits.Change(f"use `{name}`", [edits.Replace(written, f"{name}({code}{answer.more})")])


def _imprecise(node: ast.AST, instead: str, argument: ast.expr, more: str = "") -> Imprecise:
    return Imprecise(python_ast.site_of(node), instead, python_ast.site_of(argument), more)

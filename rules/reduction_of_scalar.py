"""Reductions along a dimension of a single number."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import arithmetic, names, numbers, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_REDUCING = frozenset({"sum", "mean"})


class OfScalar(NamedTuple):
    """The reduction at `site` is along a dimension of the single number that `inner` computes."""

    site: Site
    inner: Site
    name: str
    reduced: str


class ReductionOfScalar(Rule):
    """The mean along a dimension receives a sum over all elements.

    ## What it does
    Finds `torch.mean(torch.sum(x), dim=0)`: the inner reduction has no `dim` argument, so its result is one number,
    and the outer reduction has no effect.

    ## Why is this bad?
    The loss is a sum over all samples instead of a mean, so it grows with the batch size. For example, the KL term of a
    VAE outweighs the reconstruction, and the posterior collapses.

    ## Example
    ```python
    import torch

    def divergence(mu, log_var):
        return torch.mean(-0.5 * torch.sum(1 + log_var - mu**2 - log_var.exp()), dim=0)
    ```

    Use instead:
    ```python
    import torch

    def divergence(mu, log_var):
        return torch.mean(-0.5 * torch.sum(1 + log_var - mu**2 - log_var.exp(), dim=1), dim=0)
    ```

    ## References
    - [torch.sum](https://docs.pytorch.org/docs/stable/generated/torch.sum.html)
    """

    code = "TL516"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"sum(", b"mean("), (b"dim", b"mean(0", b", 0)"))

    def ask(self) -> Iterator[OfScalar]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            if python_ast.called_name(call) not in _REDUCING:
                continue
            operand, rest = arithmetic.operand(call, self.model.definitions)
            has_dimension = any(item.arg == "dim" for item in call.keywords) or (
                len(rest) == 1 and isinstance(numbers.literal(rest[0]), int)
            )
            inner = self._inner(operand) if operand is not None and has_dimension else None
            if inner is not None:
                name, reduced = map(python_ast.called_name, (call, inner))
                yield OfScalar(python_ast.site_of(call), python_ast.site_of(inner), name, reduced)

    def _inner(self, node: ast.expr) -> ast.Call | None:
        """The reduction of everything that gives an expression, behind numbers and signs."""
        for _ in range(6):
            node = written.value_of(node, self.model.definitions)
            if isinstance(node, ast.UnaryOp):
                node = node.operand
            elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
                is_left = numbers.literal(node.left) is not None
                if not is_left and numbers.literal(node.right) is None:
                    return None
                node = node.right if is_left else node.left
            else:
                break
        if not isinstance(node, ast.Call) or node.keywords:
            return None
        is_function = names.imported(node.func, self.model.definitions) in ("torch.sum", "torch.mean")
        return node if is_function and len(node.args) == 1 else None

    def report_OfScalar(self, found: OfScalar) -> None:
        self.report(
            found.site,
            f"this `{found.name}` receives a single number, because `{found.reduced}` has reduced all dimensions",
            related=[(found.inner, f"this `{found.reduced}` has no `dim` argument")],
            help=f"pass `dim` to the inner `{found.reduced}`",
        )

"""Terms that look like the KL divergence from a standard normal, but are not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.syntax import python_ast

from . import _subtracted_divergence as subtracted_divergence
from . import _written_terms as written_terms

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site


class NoDivergence(NamedTuple):
    """The sum at `site` has the terms of a divergence with a wrong sign or factor."""

    site: Site
    mean: str
    spread: str
    is_sign: bool


class Subtracted(NamedTuple):
    """The loss at `loss` subtracts the divergence at `site`."""

    site: Site
    loss: Site


class WrongGaussianDivergence(Rule):
    """A KL term of a VAE has a wrong sign or factor.

    ## What it does
    Finds sums such as `1 + log_var - mu**2 - log_var.exp()` with a wrong sign or factor. For the divergence from a
    standard normal distribution, three conditions are true:

    - The logarithm and the variance have opposite signs.
    - The variance and the squared mean have the same sign.
    - The sum has its minimum or maximum where the variance is 1.

    `1 + 2 * log_std - mu**2 - log_std.exp()` breaks the last condition, because it does not square the deviation.

    Also finds a divergence that is subtracted from a PyTorch loss: `F.mse_loss(y, x) + 0.5 * (1 + log_var - ...)`.

    Not reported for sums with other terms, such as those of another prior.

    ## Why is this bad?
    Samples from the prior look bad, although reconstructions look right. With a wrong factor, the term pulls the
    variance of the posterior to a number other than 1. With a wrong sign, it has no minimum: the variance collapses to
    0 or grows without bound.

    ## Example
    ```python
    import torch

    def divergence(mu, log_var):
        return 0.5 * torch.sum(mu.pow(2) + log_var.exp() - 1 + log_var)
    ```

    Use instead:
    ```python
    import torch

    def divergence(mu, log_var):
        return 0.5 * torch.sum(mu.pow(2) + log_var.exp() - 1 - log_var)
    ```

    ## References
    - [Auto-Encoding Variational Bayes, appendix B](https://arxiv.org/abs/1312.6114)
    """

    code = "TL510"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"exp(", b"exp_(", b"log("), (b"pow", b"**", b"square", b"*"))

    def ask(self) -> Iterator[NoDivergence | Subtracted]:
        for node in [] if self.model.is_test else self.model.tree.of_type(ast.BinOp, ast.Call):
            parent = self.model.tree.parent(node)
            owner = self.model.tree.parent(parent) if isinstance(parent, ast.Attribute) else None
            is_part = any(item is not None and written_terms.is_sum(item) for item in (parent, owner))
            terms = (
                written_terms.of(node, self.model.definitions) if written_terms.is_sum(node) and not is_part else None
            )
            found = _wrong(terms or [])
            if found is not None:
                yield NoDivergence(python_ast.site_of(node), *found)
            elif (sign := _sign(terms or [])) and isinstance(node, ast.expr):
                loss = subtracted_divergence.sum_with_loss(node, sign, self.model)
                if loss is not None:
                    yield Subtracted(python_ast.site_of(node), python_ast.site_of(loss))

    def report_Subtracted(self, found: Subtracted) -> None:
        self.report(
            found.site,
            "the loss subtracts this KL divergence: training makes the divergence larger",
            related=[(found.loss, "the sum with the other loss is here")],
            help="the divergence of N(mu, var) from N(0, 1) is `-0.5 * (1 + log(var) - mu**2 - var)`",
        )

    def report_NoDivergence(self, found: NoDivergence) -> None:
        if found.is_sign:
            message = "a sign is wrong in this KL divergence: it has no minimum"
        else:
            message = f"this KL divergence is not smallest at a variance of 1: a factor of `{found.spread}` is wrong"
        self.report(
            found.site,
            message,
            help="the divergence of N(mu, var) from N(0, 1) is `-0.5 * (1 + log(var) - mu**2 - var)`",
        )


def _sign(terms: list[written_terms.Term]) -> int:
    """1 for a divergence, -1 for its negative, 0 for other sums."""
    spreads = [item for item in terms if item.function == "exp"]
    is_whole = len(terms) == 4 and len(spreads) == 1 and any(_is_pair(item, spreads[0]) for item in terms)
    return (1 if spreads[0].factor > 0 else -1) if is_whole else 0


def _wrong(terms: list[written_terms.Term]) -> tuple[str, str, bool] | None:
    """The mean and the deviation of a wrong divergence, and whether a sign is wrong."""
    constants = [item for item in terms if not item.base]
    rest = [item for item in terms if item.base]
    if len(constants) != 1 or len(rest) != 3 or not constants[0].factor:
        return None
    for log in rest:
        for spread in rest:
            square = next((item for item in rest if item not in (log, spread)), None)
            if square is None or not _is_pair(log, spread) or square.base == spread.base:
                continue
            if square.function or square.power != 2:
                continue
            is_sign = log.factor * spread.factor * spread.power > 0 or square.factor * spread.factor < 0
            is_scaled = abs(log.factor + spread.factor * spread.power) > 1e-6 or square.factor != spread.factor
            return (square.base, spread.base, is_sign) if is_sign or is_scaled else None
    return None


def _is_pair(log: written_terms.Term, spread: written_terms.Term) -> bool:
    """Whether two terms are a log-deviation and its exponential, or a logarithm and its argument."""
    if log.base != spread.base:
        return False
    if spread.function == "exp":
        return not log.function and log.power == 1
    return log.function == "log" and not spread.function and spread.power in (1, 2)

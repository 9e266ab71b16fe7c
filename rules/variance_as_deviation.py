"""Samples whose noise is multiplied by the variance instead of the standard deviation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import arithmetic, names, variables
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_NOISE = frozenset({"randn", "randn_like", "normal_", "normal"})
_KEEPING = frozenset("to cuda cpu type type_as float detach Variable".split())
_STEPS = 6


class VarianceScale(NamedTuple):
    """The code at `site` scales noise by `exp(name)`, and the code at `divergence` takes that for a variance."""

    site: Site
    divergence: Site
    name: str


class VarianceAsDeviation(Rule):
    """Noise is multiplied by the variance instead of the standard deviation.

    ## What it does
    Finds `mean + noise * log_var.exp()` if another line of the file shows that `log_var` is the logarithm of the
    variance. Such a line is a Kullback-Leibler divergence, `1 + log_var - mean.pow(2) - log_var.exp()`, or a root,
    `sqrt(log_var.exp())`.

    ## Why is this bad?
    `exp(log_var)` is the variance, and the standard deviation is `exp(0.5 * log_var)`. The samples come from one
    distribution, and the loss computes the divergence of a different one. The loss is no longer a bound on the
    likelihood, and reported likelihoods are wrong.

    ## Example
    ```python
    import torch

    def sample(mean, log_var):
        return mean + torch.randn_like(mean) * log_var.exp()

    def divergence(mean, log_var):
        return -0.5 * torch.sum(1 + log_var - mean.pow(2) - log_var.exp(), dim=1)
    ```

    Use instead:
    ```python
    import torch

    def sample(mean, log_var):
        return mean + torch.randn_like(mean) * (0.5 * log_var).exp()

    def divergence(mean, log_var):
        return -0.5 * torch.sum(1 + log_var - mean.pow(2) - log_var.exp(), dim=1)
    ```

    ## References
    - [Auto-Encoding Variational Bayes](https://arxiv.org/abs/1312.6114), Appendix B
    """

    code = "TL551"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"exp",), (b"randn", b"normal"), (b"pow(2)", b"** 2", b"**2", b"square", b"*"))

    def ask(self) -> Iterator[VarianceScale]:
        if self.model.is_test:
            return
        known = self.model.definitions
        divergences = dict([*self._roots(), *self._divergences()])
        for node in self.model.tree.of_type(ast.BinOp, ast.Call) if divergences else ():
            for scale, noise in arithmetic.factors(node):
                name = _last(arithmetic.exponent(scale, known))
                if name in divergences and self._is_noise(noise):
                    yield VarianceScale(python_ast.site_of(node), python_ast.site_of(divergences[name]), name)
                    break

    def _roots(self) -> Iterator[tuple[str, ast.expr]]:
        """The roots `sqrt(exp(v))`, each with the name of `v`."""
        known = self.model.definitions
        for call in self.model.tree.of_type(ast.Call):
            operand = arithmetic.reduced(call, "sqrt", known)
            name = _last(arithmetic.exponent(operand, known)) if operand is not None else ""
            if name:
                yield name, call

    def _divergences(self) -> Iterator[tuple[str, ast.expr]]:
        """The sums `1 + v - mean ** 2 - exp(v)`, each with the name of `v`."""
        known = self.model.definitions
        for node in self.model.tree.of_type(ast.BinOp):
            terms = list(arithmetic.terms(node)) if self._is_whole(node) else []
            squares = {sign for term, sign in terms if arithmetic.power(term, known)[1] == 2}
            for term, sign in terms:
                name = _last(arithmetic.exponent(term, known))
                if name and sign in squares and any(_last(other) == name and -sign == at for other, at in terms):
                    yield name, node

    def _is_whole(self, node: ast.BinOp) -> bool:
        """Whether a sum is no part of a larger one."""
        around = self.model.tree.parent(node)
        is_part = isinstance(around, ast.BinOp) and isinstance(around.op, (ast.Add, ast.Sub))
        return isinstance(node.op, (ast.Add, ast.Sub)) and not is_part

    def _is_noise(self, node: ast.expr) -> bool:
        """Whether an expression is noise from the standard normal distribution."""
        for _ in range(_STEPS):
            if isinstance(node, ast.Name):
                bound = variables.bindings(node.id, node, self.model.definitions)
                values = [names.bound_value(item, self.model.tree) for item in bound]
                calls = [item for item in values if isinstance(item, ast.Call)]
                if len(calls) != 1 or not all(isinstance(item, (ast.Call, ast.Name)) for item in values):
                    return False
                node = calls[0]
            if not isinstance(node, ast.Call):
                return False
            called = python_ast.called_name(node)
            if called in _NOISE:
                return called != "normal" or _is_standard(node)
            if called not in _KEEPING:
                return False
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            node = node.args[0] if called == "Variable" and node.args else owner if owner is not None else node
        return False

    def report_VarianceScale(self, found: VarianceScale) -> None:
        self.report(
            found.site,
            f"`exp({found.name})` is the variance, but this code uses it as the standard deviation",
            related=[(found.divergence, f"this treats `{found.name}` as the logarithm of the variance")],
            help=f"use `exp(0.5 * {found.name})`",
        )


def _last(node: ast.expr | None) -> str:
    """The last name of a variable or attribute."""
    return python_ast.dotted(node).rpartition(".")[2] if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _is_standard(call: ast.Call) -> bool:
    """Whether `torch.normal(0, 1, ...)` draws from the standard normal distribution."""
    given = [item.value if isinstance(item, ast.Constant) else None for item in call.args[:2]]
    return given == [0, 1]

"""KL terms that are reduced over other dimensions than the reconstruction loss beside them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import arithmetic, given, names, numbers, written
from torchlint.pytorch import losses
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_REDUCING = frozenset({"sum", "mean"})
_SAMPLE = (1, -1)
_STEPS = 6


class Reduction(NamedTuple):
    """How a term of a loss combines the elements of a sample, and how it combines the samples: `sum` or `mean`."""

    elements: str
    samples: str


class OtherScale(NamedTuple):
    """The sum at `site` adds a divergence and a loss of different scales."""

    site: Site
    is_summed: bool


class DivergenceScale(Rule):
    """A KL term is a sum where the reconstruction loss is a mean, or the reverse.

    ## What it does
    Finds losses of a variational autoencoder such as `F.mse_loss(y, x) + kl` where `kl` is the KL divergence from a
    standard normal, summed over the batch. Also finds a divergence averaged over the latent dimensions beside a
    reconstruction loss that is summed over the elements. Not reported if a weight multiplies one of the two.

    ## Why is this bad?
    Both terms should be sums over the elements of a sample. In the first case, the divergence weighs as much as
    thousands of pixels, and more with a larger batch. The encoder then ignores its input: the posterior collapses to
    the prior. In the second case, the divergence has hardly any weight, and samples from the prior look like noise.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def loss(y, x, mu, log_var):
        divergence = -0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp())
        return F.mse_loss(y, x) + divergence
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def loss(y, x, mu, log_var):
        divergence = -0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp())
        return F.mse_loss(y, x, reduction="sum") + divergence
    ```

    ## References
    - [Auto-Encoding Variational Bayes](https://arxiv.org/abs/1312.6114), equation 10
    """

    code = "TL560"
    category = Category.SUSPICIOUS
    triggers = ((b"torch",), (b"exp(", b"exp_("), (b"pow", b"**", b"square", b"*"), (b"sum(", b"mean("))

    def ask(self) -> Iterator[OtherScale]:
        for node in () if self.model.is_test else self.model.tree.of_type(ast.BinOp):
            around = self.model.tree.parent(node)
            is_part = isinstance(around, ast.BinOp) and isinstance(around.op, (ast.Add, ast.Sub))
            if is_part or not isinstance(node.op, (ast.Add, ast.Sub)):
                continue
            terms = [self._unweighted(item) for item, _ in arithmetic.terms(node)]
            known = [item for item in terms if item is not None]
            divergence = next((found for item in known if (found := self._divergence(item)) is not None), None)
            loss = next((found for item in known if (found := self._loss(item)) is not None), None)
            if divergence is None or loss is None:
                continue
            if loss == Reduction("mean", "mean") and divergence == Reduction("sum", "sum"):
                yield OtherScale(python_ast.site_of(node), is_summed=True)
            elif loss.elements == "sum" and divergence.elements == "mean":
                yield OtherScale(python_ast.site_of(node), is_summed=False)

    # -- terms ---------------------------------------------------------------------------------------------

    def _unweighted(self, term: ast.expr) -> ast.expr | None:
        """A term without a weight of 1; None if another weight multiplies it."""
        for one, other in arithmetic.factors(term):
            weight = given.argument_for(one, self.model.program) if numbers.literal(one) is None else one
            if weight is not None and numbers.literal(weight) == 1:
                return other
        is_weighted = isinstance(term, ast.BinOp) and isinstance(term.op, (ast.Mult, ast.Div))
        return None if is_weighted else term

    def _value(self, node: ast.expr) -> ast.expr:
        """The expression behind variables, calls of the program's functions, negative signs and literal factors."""
        for _ in range(_STEPS):
            own = names.function(node.func, self.model.definitions) if isinstance(node, ast.Call) else None
            if own is not None:
                returned = names.returned_value(own)
                if returned is None or isinstance(returned, ast.Tuple):
                    return node
                node = returned
            elif isinstance(node, ast.Name):
                value = names.only_value(node, self.model.definitions) or self._part(node)
                if value is None:
                    return node
                node = value
            elif isinstance(node, ast.UnaryOp):
                node = node.operand
            else:
                rest = [one for one, other in arithmetic.factors(node) if numbers.literal(other) is not None]
                if len(rest) != 1:
                    return node
                node = rest[0]
        return node

    def _part(self, name: ast.Name) -> ast.expr | None:
        """One of several results of a function: `kl` of `loss, kl = terms(...)`."""
        function = self.model.definitions.function_around(name)
        scope = function.node if function is not None else self.model.tree.module
        found = [item for item in names.own_nodes(scope) if isinstance(item, ast.Assign) and _binds(item, name.id)]
        target = found[0].targets[0] if len(found) == 1 else None
        call = found[0].value if found else None
        if not isinstance(target, ast.Tuple) or not isinstance(call, ast.Call):
            return None
        own = names.function(call.func, self.model.definitions)
        returned = names.returned_value(own) if own is not None else None
        if not isinstance(returned, ast.Tuple) or len(returned.elts) != len(target.elts):
            return None
        place = next(index for index, item in enumerate(target.elts) if python_ast.dotted(item) == name.id)
        return returned.elts[place]

    def _reduced(self, node: ast.expr) -> tuple[ast.expr, Reduction] | None:
        """A tensor whose elements a term combines, and how: `x.sum(1).mean()`, `torch.mean(x)`."""
        outer = self._reduction(self._value(node))
        if outer is None:
            return None
        tensor, kind, is_all = outer
        inner = self._reduction(self._value(tensor))
        if inner is not None and not inner[2] and is_all:
            return self._value(inner[0]), Reduction(inner[1], kind)
        return (self._value(tensor), Reduction(kind, kind)) if is_all else None

    def _reduction(self, node: ast.expr) -> tuple[ast.expr, str, bool] | None:
        """The tensor that a sum or mean reduces, its kind, and whether it reduces all elements."""
        if not isinstance(node, ast.Call) or python_ast.called_name(node) not in _REDUCING:
            return None
        tensor, rest = arithmetic.operand(node, self.model.definitions)
        dimensions = [*rest, *(item.value for item in node.keywords if item.arg in ("dim", "axis"))]
        if tensor is None or len(dimensions) > 1 or len(node.keywords) > len(dimensions):
            return None
        if dimensions and numbers.literal(dimensions[0]) not in _SAMPLE:
            return None
        return tensor, python_ast.called_name(node), not dimensions

    def _divergence(self, node: ast.expr) -> Reduction | None:
        found = self._reduced(node)
        return found[1] if found is not None and self._is_divergence(found[0]) else None

    def _is_divergence(self, node: ast.expr) -> bool:
        """Whether an expression is `1 + log_var - mu ** 2 - exp(log_var)`, perhaps with the other sign."""
        terms = [item for item, _ in arithmetic.terms(node)]
        logarithms = {python_ast.dotted(item) for item in terms}
        exponents = [arithmetic.exponent(item, self.model.definitions) for item in terms]
        has_spread = any(item is not None and python_ast.dotted(item) in logarithms for item in exponents)
        has_square = any(arithmetic.power(item, self.model.definitions)[1] == 2 for item in terms)
        return len(terms) == 4 and has_spread and has_square

    def _loss(self, node: ast.expr) -> Reduction | None:
        """The reduction of a reconstruction loss: a loss of PyTorch, or a reduced squared or absolute error."""
        value = self._value(node)
        if isinstance(value, ast.Call) and (kind := self._kind(value)):
            return Reduction(kind, kind)
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
            total = self._value(value.left)
            is_sum = isinstance(total, ast.Call) and self._kind(total) == "sum"
            return Reduction("sum", "mean") if is_sum and "size" in ast.unparse(value.right) else None
        found = self._reduced(node)
        base = arithmetic.power(found[0], self.model.definitions) if found is not None else None
        is_error = base is not None and base[1] == 2 and isinstance(base[0], ast.BinOp)
        return found[1] if found is not None and is_error else None

    def _kind(self, call: ast.Call) -> str:
        """The reduction of a loss of PyTorch, `mean` by default; empty if the call is no such loss."""
        module, _, function = self.model.definitions.named(call.func).rpartition(".")
        made = written.value_of(call.func, self.model.definitions)
        settings = call if module == "torch.nn.functional" and function in losses.OPERATORS else made
        if settings is not call:
            name = self.model.definitions.named(made.func) if isinstance(made, ast.Call) else ""
            if not name.startswith("torch.nn.") or name.rpartition(".")[2] not in losses.FUNCTIONS:
                return ""
        keywords = settings.keywords if isinstance(settings, ast.Call) else []
        kinds = [item.value.value if isinstance(item.value, ast.Constant) else "" for item in keywords]
        is_plain = all(item.arg == "reduction" for item in keywords)
        kind = kinds[0] if kinds else "mean"
        return kind if is_plain and kind in _REDUCING and isinstance(kind, str) else ""

    def report_OtherScale(self, found: OtherScale) -> None:
        if found.is_summed:
            message = "the divergence is summed over the batch, but the reconstruction loss is a mean over all elements"
        else:
            message = "the divergence is a mean over latent dimensions, but the reconstruction loss is summed"
        self.report(
            found.site,
            f"{message}: the two terms have different scales",
            help="sum both over the elements of a sample, and average both over the batch",
        )


def _binds(statement: ast.Assign, name: str) -> bool:
    return len(statement.targets) == 1 and name in python_ast.names_bound(statement.targets[0])

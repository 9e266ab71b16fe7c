"""Uniform random numbers where a model assumes Gaussian noise."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model.queries import arithmetic, names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_UNIFORM = frozenset({"torch.rand", "torch.rand_like"})
_KEEPING = frozenset("to cuda cpu float half type_as".split())
_DEVIATION = LazyPattern(r"(?i)^(?:std|sigma|stddev|std_dev|stdev)(?:_?[a-z])?$")
_LOGARITHM = LazyPattern(r"(?i)log_?(?:var|std|sig)|ln_?var")
_MEAN = LazyPattern(r"(?i)^(?:mu|mean|loc)(?:_|\d|$)|(?:_|^z)(?:mu|mean|loc)$")


class Uniform(NamedTuple):
    """The sample at `site` gets its noise from the uniform numbers at `drawn`."""

    site: Site
    drawn: Site
    call: str


class UniformNoise(Rule):
    """`torch.rand` draws uniform numbers where a model assumes Gaussian noise.

    ## What it does
    Finds two kinds of samples whose noise comes from `torch.rand` or `torch.rand_like`:

    - `mean + std * noise`, as in a variational autoencoder, if the code shows a mean and a standard deviation
    - `a.sqrt() * x + (1 - a).sqrt() * noise`, as in the forward process of a diffusion model

    ## Why is this bad?
    `torch.rand` is uniform between 0 and 1: its mean is 0.5, and it is never negative. All samples lie above the mean
    that the network predicts. The KL divergence of a variational autoencoder, and the sampler of a diffusion model,
    assume `torch.randn`, with mean 0 and variance 1. Training runs, but generated samples are poor.

    ## Example
    ```python
    import torch

    def sample(mu, log_var):
        std = torch.exp(0.5 * log_var)
        return mu + torch.rand_like(std) * std
    ```

    Use instead:
    ```python
    import torch

    def sample(mu, log_var):
        std = torch.exp(0.5 * log_var)
        return mu + torch.randn_like(std) * std
    ```

    ## References
    - [torch.rand_like](https://docs.pytorch.org/docs/stable/generated/torch.rand_like.html)
    - [torch.randn_like](https://docs.pytorch.org/docs/stable/generated/torch.randn_like.html)
    """

    code = "TL570"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"rand(", b"rand_like("), (b"exp", b"sqrt", b"std", b"sigma", b"** 0.5", b"**0.5"))

    def ask(self) -> Iterator[Uniform]:
        for node in [] if self.model.is_test else self.model.tree.of_type(ast.BinOp):
            if isinstance(node.op, ast.Add):
                for term, other in ((node.left, node.right), (node.right, node.left)):
                    drawn = self._noise_of(term, other)
                    if drawn is not None:
                        yield Uniform(
                            python_ast.site_of(term), python_ast.site_of(drawn), self.model.tree.code(drawn.func)
                        )

    def _noise_of(self, term: ast.expr, other: ast.expr) -> ast.Call | None:
        """The uniform numbers of a product that is Gaussian noise by its other factor and the other term."""
        for scale, noise in arithmetic.factors(term):
            drawn = self._uniform(noise)
            if drawn is not None and (self._is_around_mean(scale, other) or self._is_diffused(scale, other)):
                return drawn
        return None

    def _uniform(self, noise: ast.expr) -> ast.Call | None:
        """The call that draws uniform numbers for a whole tensor."""
        value = python_ast.without_calls(written.value_of(noise, self.model.definitions), _KEEPING)
        if not isinstance(value, ast.Call) or names.imported(value.func, self.model.definitions) not in _UNIFORM:
            return None
        is_single = all(isinstance(item, ast.Constant) and item.value == 1 for item in value.args)
        return None if is_single else value

    def _is_around_mean(self, scale: ast.expr, other: ast.expr) -> bool:
        """Whether one value is a standard deviation and the other a mean."""
        if not _MEAN.search(python_ast.last_name(other)):
            return False
        exponent = arithmetic.exponent(scale, self.model.definitions)
        parts = python_ast.walk(exponent) if exponent is not None else ()
        named = (python_ast.last_name(item) for item in parts if isinstance(item, (ast.Name, ast.Attribute)))
        return any(map(_LOGARITHM.search, named)) or _DEVIATION.search(python_ast.last_name(scale)) is not None

    def _is_diffused(self, scale: ast.expr, other: ast.expr) -> bool:
        """Whether the factors of both terms are `a.sqrt()` and `(1 - a).sqrt()`."""
        left = self._root(scale)
        whole = arithmetic.complement(left) if left is not None else None
        roots = [self._root(factor) for factor, _ in arithmetic.factors(other)]
        return whole is not None and any(root is not None and python_ast.written_alike(root, whole) for root in roots)

    def _root(self, node: ast.expr) -> ast.expr | None:
        """The operand of a square root."""
        value = written.value_of(node, self.model.definitions)
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Pow):
            base, exponent = arithmetic.power(value, self.model.definitions)
            return base if exponent == 0.5 else None
        return arithmetic.reduced(value, "sqrt", self.model.definitions)

    def report_Uniform(self, found: Uniform) -> None:
        self.report(
            found.site,
            f"`{found.call}` is uniform and never negative: this noise should be Gaussian",
            related=[(found.drawn, "the numbers are drawn here")] if found.drawn != found.site else [],
            help="use `torch.randn_like` or `torch.randn`",
        )

"""Gradient penalties that take the norm over the channels alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import arithmetic, names, written
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_RANDOM = frozenset({"torch.rand", "torch.FloatTensor"})
_NORMS = frozenset({"norm", "vector_norm"})
_STEPS = 3


class OverChannels(NamedTuple):
    """The norm at `site` is over one dimension, and the mixture at `mixed` shows that there are four."""

    site: Site
    mixed: Site


class PenaltyOverChannels(Rule):
    """A gradient penalty takes the norm over the channels of each pixel.

    ## What it does
    Finds `(gradients.norm(2, dim=1) - 1) ** 2` of gradients from `autograd.grad` that nothing flattens. A function of
    the file may compute the gradients. Reported only if the random numbers that mix real and fake images have the
    shape (n, 1, 1, 1), which shows that the images have four dimensions.

    ## Why is this bad?
    The WGAN-GP penalty applies to the gradient of a whole image. Over dimension 1 alone, each pixel gets a separate
    norm, which the penalty pulls to 1. The gradient of an image then has a norm near the square root of the number of
    pixels. The critic is far from the constraint, and the generated images stay noisy.

    ## Example
    ```python
    import torch

    def penalty(critic, real, fake):
        alpha = torch.rand(real.size(0), 1, 1, 1)
        mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        gradients = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
        return ((gradients.norm(2, dim=1) - 1) ** 2).mean()
    ```

    Use instead:
    ```python
    import torch

    def penalty(critic, real, fake):
        alpha = torch.rand(real.size(0), 1, 1, 1)
        mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        gradients = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
        return ((gradients.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
    ```

    ## References
    - [Improved Training of Wasserstein GANs](https://arxiv.org/abs/1704.00028)
    """

    code = "TL539"
    category = Category.CORRECTNESS
    triggers = ((b"autograd",), (b"norm",), (b"rand",))

    def ask(self) -> Iterator[OverChannels]:
        for call in [] if self.model.is_test else self.model.tree.of_type(ast.Call):
            normed = self._normed(call) if python_ast.called_name(call) in _NORMS else None
            gradient = self._gradient(normed, _STEPS) if normed is not None else None
            mixed = next(self._mixtures(gradient), None) if gradient is not None else None
            if mixed is not None:
                yield OverChannels(python_ast.site_of(call), python_ast.site_of(mixed))

    def _normed(self, call: ast.Call) -> ast.expr | None:
        """The tensor of which `x.norm(2, dim=1)` or `torch.norm(x, 2, dim=1)` takes the norm in dimension 1 alone."""
        tensor, given = arithmetic.operand(call, self.model.definitions)
        dims = [item.value for item in call.keywords if item.arg in ("dim", "axis")] + given[1:2]
        return tensor if len(dims) == 1 and isinstance(dims[0], ast.Constant) and dims[0].value == 1 else None

    def _gradient(self, node: ast.expr, steps: int) -> ast.Call | None:
        """The `autograd.grad` whose result an expression is, directly or from a function of the file."""
        node = written.value_of(node, self.model.definitions)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self._gradient(node.value, steps)
        if not isinstance(node, ast.Call) or not steps:
            return None
        if names.imported(node.func, self.model.definitions).endswith("autograd.grad"):
            return node
        returned = self._returned(node)
        return self._gradient(returned, steps - 1) if returned is not None else None

    def _returned(self, call: ast.Call) -> ast.expr | None:
        """The value that a function or method of the file returns."""
        function = names.function(call.func, self.model.definitions)
        function = function or written.method_in_file(call.func, self.model.definitions)
        return names.returned_value(function) if function is not None and not function.decorators else None

    def _mixtures(self, gradient: ast.Call) -> Iterator[ast.AST]:
        """The random numbers that mix images, in the function of a gradient or in one that makes its input."""
        function = self.model.tree.function_around(gradient)
        inputs = written.argument(gradient, 1, "inputs")
        made = written.value_of(inputs, self.model.definitions) if inputs is not None else None
        returned = self._returned(made) if isinstance(made, ast.Call) else None
        helper = self.model.tree.function_around(returned) if returned is not None else None
        for scope in (function, helper):
            yield from (
                (node for node in python_ast.walk(scope) if self._mixes_images(node)) if scope is not None else ()
            )

    def _mixes_images(self, node: ast.AST) -> bool:
        """Whether an expression is `torch.rand(n, 1, 1, 1)`."""
        if not isinstance(node, ast.Call) or names.imported(node.func, self.model.definitions) not in _RANDOM:
            return False
        sizes = node.args[0].elts if node.args and isinstance(node.args[0], (ast.Tuple, ast.List)) else node.args
        ones = [item for item in sizes if isinstance(item, ast.Constant) and item.value == 1]
        return len(sizes) == 4 and len(ones) == 3

    def report_OverChannels(self, found: OverChannels) -> None:
        self.report(
            found.site,
            "the norm is over the channels of each pixel, not over the whole gradient of each sample",
            related=[(found.mixed, "the images have four dimensions")],
            help="flatten the gradients first: `gradients.flatten(1).norm(2, dim=1)`",
        )

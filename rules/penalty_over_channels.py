"""Gradient penalties that take the norm over the channels alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import names
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_RANDOM = frozenset({"torch.rand", "torch.FloatTensor"})


class OverChannels(NamedTuple):
    """The norm at `site` is over one dimension, and the mixture at `mixed` shows that there are four."""

    site: Site
    mixed: Site


class PenaltyOverChannels(Rule):
    """A gradient penalty takes the norm over the channels of each pixel.

    ## What it does
    Finds `(gradients.norm(2, dim=1) - 1) ** 2` of gradients from `autograd.grad` that nothing flattens. Reported only
    if the random numbers that mix real and fake images have the shape (n, 1, 1, 1), which shows that the images have
    four dimensions.

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
            if not names.imported(call.func, self.model.definitions).endswith("autograd.grad"):
                continue
            function = self.model.tree.function_around(call)
            statement = self.model.tree.statement(call)
            target = python_ast.dotted(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
            nodes = list(python_ast.walk(function)) if function is not None and target else []
            mixed = next((node for node in nodes if self._mixes_images(node)), None)
            norms = [node for node in nodes if _is_norm(node, target)]
            if mixed is not None and norms and not any(_is_other(node, target, statement) for node in nodes):
                yield OverChannels(python_ast.site_of(norms[0]), python_ast.site_of(mixed))

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


def _is_norm(node: ast.AST, target: str) -> bool:
    """Whether an expression is `gradients.norm(2, dim=1)`."""
    if (
        not isinstance(node, ast.Call)
        or python_ast.called_name(node) != "norm"
        or not isinstance(node.func, ast.Attribute)
    ):
        return False
    owner = node.func.value
    owner = owner.value if isinstance(owner, ast.Subscript) else owner
    dims = [item.value for item in node.keywords if item.arg == "dim"] + node.args[1:2]
    is_one = len(dims) == 1 and isinstance(dims[0], ast.Constant) and dims[0].value == 1
    return python_ast.dotted(owner) == target and is_one


def _is_other(node: ast.AST, target: str, statement: ast.AST) -> bool:
    """Whether code assigns another value to the gradients: `gradients = gradients.view(n, -1)`."""
    is_store = isinstance(node, ast.Name) and node.id == target and not isinstance(node.ctx, ast.Load)
    return is_store and node not in getattr(statement, "targets", ())

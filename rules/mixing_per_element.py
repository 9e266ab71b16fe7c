"""Gradient penalties at points that are not on a line between a real and a fake sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model.queries import arithmetic, names, numbers
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_DRAWS = frozenset({"torch.rand", "numpy.random.random", "numpy.random.rand", "numpy.random.random_sample"})
_WRAPPING = frozenset("tensor Tensor FloatTensor Variable as_tensor from_numpy".split())
_KEEPING = frozenset("to cuda cpu float double type type_as requires_grad_ contiguous".split())


class PerElement(NamedTuple):
    """The mixture at `site` has a random weight for each element, drawn at `drawn`."""

    site: Site
    drawn: Site
    weight: str


class MixingPerElement(Rule):
    """A gradient penalty mixes each element of real and fake samples at random.

    ## What it does
    Finds `alpha * real + (1 - alpha) * fake` in functions that call `autograd.grad` and compare the norm of the
    gradient with 1, where `alpha` has a random number for each element: `torch.rand(real.size())`.

    ## Why is this bad?
    The WGAN-GP penalty needs samples on the straight line between a real and a fake sample, so it draws one random
    number for each sample. With a number for each pixel, the mixed sample is a noisy image far from this line. The
    penalty then constrains the critic where the generator never goes, and not on the line.

    ## Example
    ```python
    import torch

    def penalty(critic, real, fake):
        alpha = torch.rand(real.size())
        mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        gradients = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
        return ((gradients.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
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

    code = "TL511"
    category = Category.CORRECTNESS
    triggers = ((b"autograd", b"grad("), (b"norm", b"pow", b"**"), (b"rand",))

    def ask(self) -> Iterator[PerElement]:
        for function in [] if self.model.is_test else self.model.tree.of_type(ast.FunctionDef):
            nodes = list(names.own_nodes(function))
            if any(self._is_grad(node) for node in nodes) and any(map(_is_compared, nodes)):
                for node in nodes:
                    weight = _weight(node)
                    drawn = self._drawn(weight) if weight is not None else None
                    if weight is not None and drawn is not None:
                        yield PerElement(python_ast.site_of(node), python_ast.site_of(drawn), weight.id)

    def _is_grad(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and names.imported(node.func, self.model.definitions).endswith(
            "autograd.grad"
        )

    def _drawn(self, weight: ast.Name) -> ast.Call | None:
        """The call that draws a number for each element, if it is the only value of a variable."""
        node = names.only_value(weight, self.model.definitions)
        while isinstance(node, ast.Call):
            name = python_ast.called_name(node)
            if names.imported(node.func, self.model.definitions) in _DRAWS:
                sizes = [item.value for item in node.keywords if item.arg == "size"] or node.args
                return node if len(sizes) == 1 and _is_whole(sizes[0]) else None
            if names.imported(node.func, self.model.definitions) == "torch.rand_like":
                return node if node.args and isinstance(node.args[0], (ast.Name, ast.Attribute)) else None
            if isinstance(node.func, ast.Attribute) and name in _KEEPING:
                node = node.func.value
            elif name in _WRAPPING and node.args:
                node = node.args[0]
            else:
                return None
        return None

    def report_PerElement(self, found: PerElement) -> None:
        self.report(
            found.site,
            f"`{found.weight}` has a random number for each element, "
            "so the mixed sample is not on the line between two samples",
            related=[(found.drawn, "one number for each element")],
            help="draw one number for each sample: `torch.rand(n, 1, 1, 1)`",
        )


def _is_whole(size: ast.expr) -> bool:
    """Whether a size is that of another tensor: `x.size()`, `*x.shape`."""
    size = size.value if isinstance(size, ast.Starred) else size
    if isinstance(size, ast.Attribute):
        return size.attr == "shape"
    return isinstance(size, ast.Call) and python_ast.called_name(size) == "size" and not (size.args or size.keywords)


def _weight(node: ast.AST) -> ast.Name | None:
    """The `a` of `a * x + (1 - a) * y` and of `x + a * (y - x)`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return None
    for first, second in ((node.left, node.right), (node.right, node.left)):
        for weight, other in arithmetic.factors(first):
            if not isinstance(weight, ast.Name):
                continue
            if any(
                python_ast.dotted(arithmetic.complement(item)) == weight.id for item, _ in arithmetic.factors(second)
            ):
                return weight
            if isinstance(other, ast.BinOp) and isinstance(other.op, ast.Sub):
                if python_ast.written_alike(other.right, second):
                    return weight
    return None


def _is_compared(node: ast.AST) -> bool:
    """Whether code subtracts 1 from a value, as a penalty does from the norm."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and numbers.literal(node.right) == 1

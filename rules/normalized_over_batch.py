"""Embeddings that are normalized along the batch, not each by its own length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.model import values
from torchlint.model.queries import numbers
from torchlint.pytorch import operators

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_NORMS = frozenset({operators.NORM, "vector_norm", "linalg.norm", "linalg.vector_norm"})
_TRANSPOSES = frozenset({"t", "T", "mT", "transpose", "permute", "swapaxes", "adjoint"})
_PRODUCTS = frozenset({operators.MATMUL, "mm"})
_BATCHED = frozenset({"Conv1d", "Conv2d", "Conv3d", "BatchNorm1d", "BatchNorm2d", "Flatten", "AdaptiveAvgPool2d"})
"""Layers whose input has a dimension for the samples of a batch."""
_QUOTIENTS = frozenset({operators.DIV, "div_"})
_EINSUM = frozenset({"einsum"})
_OF_ROWS = frozenset({operators.GETITEM, operators.MEAN, operators.SUM, "view", "reshape", "flatten", "max"})
"""Operators whose operand has a dimension for the samples of a batch."""
_STEPS = 12


class Normalized(NamedTuple):
    """The code at `site` divides by a norm along the batch, or by that of the `whole` batch."""

    site: Site
    is_whole: bool


class NormalizedOverBatch(Rule):
    """Embeddings are normalized along the batch, not each by its own length.

    ## What it does
    Finds `F.normalize(x, dim=0)`, `x / x.norm(dim=0)` and `x / x.norm()` where `x` is the output of a model for a
    batch, with samples in its first dimension. Not reported where the code then multiplies the transposed result, which
    gives a correlation of features, as in Barlow Twins.

    ## Why is this bad?
    The embeddings do not have length 1, so their products are no cosine similarities. Each embedding depends on the
    other samples of its batch. Loss and scores change with the size of the batch.

    ## Example
    ```python
    from torch import nn
    from torch.nn import functional as F

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(784, 64))

        def forward(self, images):
            return F.normalize(self.net(images), dim=0)
    ```

    Use instead:
    ```python
    from torch import nn
    from torch.nn import functional as F

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(784, 64))

        def forward(self, images):
            return F.normalize(self.net(images), dim=1)
    ```

    ## References
    - [torch.nn.functional.normalize](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.normalize.html)
    """

    code = "TL732"
    category = Category.CORRECTNESS
    triggers = ((b"torch",), (b"norm",))
    calls = frozenset({"normalize", "norm", "vector_norm"})

    def ask(self) -> Iterator[Normalized]:
        seen = set[values.Value]()
        for value in [] if self.model.is_test else self.model.layout.results():
            if value not in seen and value.site is not None:
                seen.add(value)
                found = self._found(value)
                if found is not None:
                    yield found

    def _found(self, value: values.Tensor) -> Normalized | None:
        """The finding for a value, if it is a normalized batch."""
        if value.op == operators.NORMALIZE and len(value.parents) > 0:
            along = numbers.argument(value, 1, "dim", self.model.program)
            if along is None or not _is_zero(along):
                return None
            operand, is_whole = value.parents[0], False
        elif value.op in _QUOTIENTS and len(value.parents) == 2:
            norm = values.resolved(value.parents[1])
            operand = value.parents[0]
            if not isinstance(norm, values.Tensor) or norm.op not in _NORMS or not norm.parents:
                return None
            if values.resolved(norm.parents[0]) is not values.resolved(operand):
                return None
            along = numbers.argument(norm, 1, "dim", self.model.program)
            if along is not None and not _is_zero(along):
                return None
            is_whole = along is None
        else:
            return None
        if value.site is None or not self._is_batch(operand) or self._is_by_features(value):
            return None
        return Normalized(value.site, is_whole)

    def _is_batch(self, operand: values.Value) -> bool:
        """Whether a value is a model's output for the samples of a batch."""
        part = self.model.layout.part_of(operand)
        if part is None or not self._is_of_layer(operand):
            return False
        is_loop = isinstance(self.model.layout.batch_of(part), values.Iteration)
        if is_loop and self.model.layout.holds_several(part) is not values.Answer.NO:
            return True
        return (is_loop or isinstance(part, values.Parameter)) and self._has_rows(operand)

    def _is_of_layer(self, value: values.Value) -> bool:
        return any(isinstance(item, values.ModuleOutput) for item in self._chain(value))

    def _has_rows(self, value: values.Value) -> bool:
        """Whether the computation of a value shows that its first dimension is the batch."""
        for item in self._chain(value):
            if isinstance(item, values.ModuleOutput) and any(map(self._is_batched, self._layers(item))):
                return True
            is_recurrent = isinstance(item, values.Component)
            if is_recurrent or item.op in _OF_ROWS:
                return True
        return False

    def _chain(self, value: values.Value) -> Iterator[values.Tensor]:
        """The tensors from which a value is computed, each from the next."""
        for _ in range(_STEPS):
            value = values.resolved(value)
            if not isinstance(value, values.Tensor) or not value.parents:
                return
            yield value
            if isinstance(value, values.ModuleOutput) and value.body is not None:
                value = value.body
            else:
                place = 1 if isinstance(value, values.ModuleOutput) else 0
                if len(value.parents) <= place:
                    return
                value = value.parents[place]

    def _layers(self, output: values.ModuleOutput) -> Iterator[values.Value]:
        """The layer of an output, or the layers of a chain."""
        module = values.resolved(output.parents[0])
        yield module
        for part in module.parents if isinstance(module, values.Module) and module.name.endswith("Sequential") else ():
            part = values.resolved(part)
            yield from map(values.resolved, part.elements() if isinstance(part, values.Container) else (part,))

    def _is_batched(self, module: values.Value) -> bool:
        return isinstance(module, values.Module) and module.name.rpartition(".")[2] in _BATCHED

    def _is_by_features(self, value: values.Tensor) -> bool:
        """Whether the code compares features, not samples: `z.T @ other`, `(z * other).sum(0)`."""
        for user in self.model.domain.users(value):
            if user.op in _TRANSPOSES:
                if any(values.resolved(product.parents[0]) is user for product in self.model.domain.users(user)):
                    return True
            first = values.resolved(user.parents[0]) if user.op in _PRODUCTS and user.parents else None
            if isinstance(first, values.Tensor) and first.op in _TRANSPOSES:
                return True
            if user.op in _EINSUM or (user.op == operators.MUL and self._is_summed_over_batch(user)):
                return True
        return False

    def _is_summed_over_batch(self, product: values.Tensor) -> bool:
        return any(
            user.op in (operators.SUM, operators.MEAN) and numbers.dimension(user, self.model.program) == 0
            for user in self.model.domain.users(product)
        )

    def report_Normalized(self, found: Normalized) -> None:
        if found.is_whole:
            message = "each embedding is divided by the norm of the whole batch, not by its own"
        else:
            message = "the norm is along dimension 0, which is the batch: the embeddings do not have length 1"
        self.report(found.site, message, help="normalize along the dimension of the features, such as `dim=1`")


def _is_zero(value: values.Value) -> bool:
    value = values.resolved(value)
    return isinstance(value, values.Plain) and value.is_literal and type(value.constant) is int and value.constant == 0

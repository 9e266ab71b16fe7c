"""Contrastive losses that count each sample as its own candidate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, values
from torchlint.model.queries import losses
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site

_PRODUCTS = frozenset({"matmul", "mm"})
_TURNING = frozenset({"t", "T", "mT", "transpose", "permute", "detach"})
_SCALING = frozenset({operators.DIV, operators.DIV_, operators.MUL, operators.MUL_})


class OwnCandidate(NamedTuple):
    """The loss at `loss` gets the similarities at `product` of each vector with itself."""

    loss: Site
    product: Site


class SelfSimilarity(Rule):
    """A contrastive loss compares each sample with itself.

    ## What it does
    Finds `cross_entropy` of `z @ z.T`, with or without a temperature, where no code masks the diagonal.

    ## Why is this bad?
    The similarity of a vector with itself is the largest one: 1 for normalized vectors. The softmax puts most of its
    weight on the sample itself, which then counts as a negative. With normalized vectors, the loss cannot fall below
    log 2. With a small temperature, the real negatives get almost no gradient, so nothing pushes different samples
    apart.

    ## Example
    ```python
    import torch
    import torch.nn.functional as F

    def contrastive(first, second, temperature):
        z = F.normalize(torch.cat([first, second]), dim=1)
        n = len(first)
        labels = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
        return F.cross_entropy(z @ z.T / temperature, labels)
    ```

    Use instead:
    ```python
    import torch
    import torch.nn.functional as F

    def contrastive(first, second, temperature):
        z = F.normalize(torch.cat([first, second]), dim=1)
        n = len(first)
        labels = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
        scores = (z @ z.T / temperature).fill_diagonal_(float("-inf"))
        return F.cross_entropy(scores, labels)
    ```

    ## References
    - [A Simple Framework for Contrastive Learning](https://arxiv.org/abs/2002.05709), equation 1
    """

    code = "TL562"
    category = Category.CORRECTNESS
    triggers = ((b"cross_entropy", b"CrossEntropyLoss"), (b"@", b"matmul", b"mm("))
    calls = frozenset({"cross_entropy", "CrossEntropyLoss"})

    def ask(self) -> Iterator[OwnCandidate]:
        seen: set[Site] = set()
        for event, loss in self.model.endings.losses("cross_entropy") if not self.model.is_test else ():
            product = self._product(losses.operands(loss)[0])
            if product is not None and product.site is not None and event.site not in seen:
                seen.add(event.site)
                yield OwnCandidate(event.site, product.site)

    def _product(self, scores: values.Value) -> values.Tensor | None:
        """The product of vectors with themselves that scores are, if no code changes it."""
        scores = values.resolved(scores)
        while isinstance(scores, values.Tensor) and not self._is_changed(scores):
            if scores.op in _PRODUCTS and len(scores.parents) == 2:
                first, second = map(_turned, scores.parents)
                return scores if first is second and not isinstance(first, values.ModuleParameter) else None
            if scores.op not in _SCALING or not scores.parents:
                return None
            scores = values.resolved(scores.parents[0])
        return None

    def _is_changed(self, scores: values.Tensor) -> bool:
        """Whether code changes scores in place, such as their diagonal."""
        changes = (item for trace in self.model.program.traces for item in trace.of(events.Mutate))
        return any(values.resolved(item.target) is scores for item in changes)

    def report_OwnCandidate(self, found: OwnCandidate) -> None:
        self.report(
            found.loss,
            "this loss counts each sample as its own negative: nothing masks the diagonal of the similarities",
            related=[(found.product, "each vector is compared with all vectors, including itself")],
            help='mask it: `scores.fill_diagonal_(float("-inf"))`',
        )


def _turned(value: values.Value) -> values.Value:
    """A value before it is transposed."""
    value = values.resolved(value)
    while isinstance(value, values.Tensor) and value.op in _TURNING and value.parents:
        value = values.resolved(value.parents[0])
    return value

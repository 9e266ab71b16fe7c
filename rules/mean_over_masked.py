"""Means of a masked loss that count the positions which the mask excludes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint import Category, Rule
from torchlint.lazy_pattern import LazyPattern
from torchlint.model import values
from torchlint.model.queries import losses, masks, numbers
from torchlint.model.relations import domain
from torchlint.pytorch import operators

if TYPE_CHECKING:
    from torchlint.syntax.python_ast import Site

_NAMED = LazyPattern(r"(?i)(?:^|[._])(?:\w*_)?(?:loss|pad(?:ding)?|valid|token|attention|response|seq)_?masks?$")
_PADDING = LazyPattern(r"(?i)(?:==|\.eq\().*(?:pad|ignore)")
_CONVERTING = frozenset({"float", "double", "half", "to", "type_as", "view", "reshape", "unsqueeze", "squeeze"})


class CountedAll(NamedTuple):
    """The mean at `site` divides a loss, masked at `product`, by the number of all positions."""

    site: Site
    product: Site


class MeanOverMasked(Rule):
    """The mean of a masked loss also counts the positions that the mask excludes.

    ## What it does
    Finds `(loss * mask).mean()`, where `loss` is the loss of each position and `mask` a mask of padding or tokens, and
    `loss.masked_fill(target == pad, 0).mean()`. The rule is a preview because some programs scale the loss this way on
    purpose.

    ## Why is this bad?
    The masked positions contribute 0 to the sum, but they count in the mean. The loss and its gradients shrink with
    the share of padding, so batches with long padding have less weight. Reported losses are not comparable.

    ## Example
    ```python
    import torch.nn.functional as F

    def loss(logits, targets, loss_mask):
        each = F.cross_entropy(logits, targets, reduction="none")
        return (each * loss_mask).mean()
    ```

    Use instead:
    ```python
    import torch.nn.functional as F

    def loss(logits, targets, loss_mask):
        each = F.cross_entropy(logits, targets, reduction="none")
        return (each * loss_mask).sum() / loss_mask.sum()
    ```

    ## References
    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html):
      `ignore_index` also excludes positions from the count of the mean
    """

    code = "TL555"
    category = Category.SUSPICIOUS
    preview = True
    triggers = ((b"mask",), (b"mean",), (b"loss", b"Loss", b"ntropy"))
    calls = frozenset({"mean"})

    def ask(self) -> Iterator[CountedAll]:
        seen = set[object]()
        for value, _ in self.model.computed if not self.model.is_test else ():
            product = values.resolved(value.parents[0]) if value.op == operators.MEAN and value.parents else None
            for item in values.inputs_of(product) if product is not None else ():
                if self._is_filled(item) and item.site is not None and value.site not in seen and value.site:
                    seen.add(value.site)
                    yield CountedAll(value.site, item.site)
                if isinstance(item, values.Tensor) and item.op == operators.MUL and len(item.parents) == 2:
                    is_masked = any(map(self._is_mask, item.parents)) and not all(map(self._is_mask, item.parents))
                    if is_masked and self._is_loss(item) and item.site is not None and value.site not in seen:
                        if value.site is not None:
                            seen.add(value.site)
                            yield CountedAll(value.site, item.site)

    def _is_filled(self, loss: values.Value) -> bool:
        """Whether code sets the loss of padding to 0: `loss.masked_fill(target == pad, 0)`."""
        if not isinstance(loss, values.Tensor) or loss.op != operators.MASKED_FILL or len(loss.parents) != 3:
            return False
        mask = masks.adapted(loss.parents[1])
        compared = self.model.tree.code(mask.site) if mask.site is not None else ""
        is_padding = bool(_PADDING.search(compared)) or bool(_NAMED.search(mask.label))
        return is_padding and numbers.of(loss.parents[2], self.model.program) == 0 and self._is_loss(loss)

    def _is_mask(self, factor: values.Value) -> bool:
        """Whether a factor is a mask of tokens, by its name."""
        factor = values.resolved(factor)
        while isinstance(factor, values.Tensor) and factor.op in _CONVERTING and factor.parents:
            factor = values.resolved(factor.parents[0])
        numbers = self.model.domain.of(factor)
        is_other = numbers is not None and numbers.kind is not domain.Kind.MASK
        return bool(_NAMED.search(factor.label)) and not is_other

    def _is_loss(self, product: values.Tensor) -> bool:
        """Whether a product contains a loss of each position, by its name or its computation."""
        for factor in map(values.resolved, product.parents):
            if losses.loss_function(factor) or "loss" in factor.label.lower().replace("loss_mask", ""):
                return True
        return False

    def report_CountedAll(self, found: CountedAll) -> None:
        self.report(
            found.site,
            "this mean also counts the positions that the mask sets to 0: the loss shrinks with the share of padding",
            related=[(found.product, "the mask is applied here")],
            help="divide the sum by the sum of the mask",
        )
